"""Media are given to a model as it takes them and otherwise described as Qwen-Agent describes them."""

from typing import Any

import pytest
from app.chat.attachments import Attachment, FileText, Inlined, Section, Unreadable
from app.chat.messages import ChatRequest, Media, Message, Part, Role, Text, Tool, ToolResult
from app.errors import InvalidInput
from app.formats.base import Options
from app.formats.qwen import QWEN
from app.profiles import Profile
from app.steps.media import media_requests, rewrite_media

from tests.each_case import each_case
from tests.steps.media.recorded_media import NO_URL, UNITS, why_different
from tests.steps.media.sample_requests import PNG, TEXT, VISION, conversation, message, recorded_alike, single_message

OMNI = Profile(media=("image", "video", "audio"), file_text=False)


TOOL = Tool("f", {"name": "f"})


@each_case("path", ["/etc/passwd", "file:///etc/passwd", "FILE:///etc/passwd", "C:\\x.png", "~/x", "ftp://h/x"])
@each_case("kind", ["image", "file", "audio", "video"])
def test_what_is_no_url_of_the_web_is_refused_with_its_place(path: str, kind: str) -> None:
    violations = QWEN.parse([{"role": "user", "content": [{"text": "x"}, {kind: path}]}], Options()).violations
    assert [item.path for item in violations] == [f"messages[0].content[1].{kind}"]


@each_case("row", recorded_alike("format_as_multimodal_message"))
def test_a_message_is_that_of_qwen_agent(row: Any) -> None:
    request = conversation(row["input"], tools=(TOOL,) if row["add_multimodel_upload_info"] else ())
    result, _ = rewrite_media(request, OMNI, {}, "zh" if row["lang"] == "zh" else "en")
    assert result.messages[0].parts == message(row["result"]).parts


@each_case("row", [row for row in UNITS if why_different(row) == NO_URL])
def test_what_is_neither_a_url_nor_base64_is_refused(row: Any) -> None:
    assert QWEN.parse([row["input"]], Options()).violations


def test_a_file_in_a_result_is_named_and_not_dropped_in_silence() -> None:
    request = conversation({"role": "function", "name": "f", "content": [{"file": "f.pdf"}, {"image": "i.png"}]})
    [result] = rewrite_media(request, VISION, {}, "en")[0].messages[0].parts
    assert isinstance(result, ToolResult)
    assert result.content == (Text("[file](f.pdf)"), Media("image", ("https://x.com/i.png",)))


def test_an_image_in_a_result_is_named_to_a_model_that_takes_none() -> None:
    request = conversation({"role": "function", "name": "f", "content": [{"text": "see"}, {"image": "i.png"}]})
    [result] = rewrite_media(request, TEXT, {}, "zh")[0].messages[0].parts
    assert isinstance(result, ToolResult) and result.content == (Text("see"), Text("![图片](i.png)"))


def test_an_assistants_image_that_is_not_accepted_gives_a_warning() -> None:
    request = single_message(
        Text("see"), Media("image", ("https://h/x.png",), path="messages[1].content[1].image"), role="assistant"
    )
    result, warnings = rewrite_media(request, TEXT, {}, "en")
    assert result.messages[0].parts == (Text("see"),)
    assert warnings == ["messages[1].content[1].image was not sent: this model does not accept image input"]


def test_a_description_that_the_caller_wrote_is_not_repeated() -> None:
    request = single_message(Text("(Uploaded ![image](a.png)) what is it?"), Media("image", ("https://h/a.png",)))
    assert rewrite_media(request, TEXT, {}, "en")[0].messages[0].parts == (
        Text("(Uploaded ![image](a.png)) what is it?"),
    )


def test_a_request_without_media_is_not_touched() -> None:
    request = single_message(Text("hello"), tools=(TOOL,))
    assert (
        rewrite_media(request, TEXT, {}, "en") == (request, []) and rewrite_media(request, TEXT, {}, "en")[0] is request
    )


def test_where_there_are_tools_only_files_that_a_model_does_not_accept_are_described() -> None:
    request = single_message(Media("image", ("https://h/a.png",)), tools=(TOOL,))
    quiet = VISION.model_copy(update={"name_media": "untaken"})
    assert rewrite_media(request, quiet, {}, "en")[0].messages == request.messages
    assert rewrite_media(request, VISION, {}, "en")[0].messages[0].parts[0] == Text("(Uploaded ![image](a.png)) ")


FILE = FileText((Section("one\n", 1), Section("two", 2)), "page", left_out=3, cut=True)


def test_a_files_text_stands_where_the_file_stood_with_its_pages_marked() -> None:
    request = single_message(Text("Sum"), Media("file", ("https://h/a.pdf",), path="p"), Text("up"))
    profile = Profile(media=())
    results = {need: FILE for need in media_requests(request, profile)}
    parts = rewrite_media(request, profile, results, "en")[0].messages[0].parts
    text = (
        '\n<file name="a.pdf">\n[Page 1]\none\n[Page 2]\ntwo\n[the text was cut here: it is too long]\n'
        "[3 more pages were left out]\n</file>\n"
    )
    assert parts == (Text("(Uploaded [file](a.pdf)) "), Text("Sum"), Text(text), Text("up"))


def test_the_text_of_a_file_in_a_result_stands_for_the_file() -> None:
    profile = TEXT.model_copy(update={"file_text": True, "name_media": "never"})
    request = ChatRequest("m", (Message("tool", (ToolResult((Media("file", ("https://h/a",)),), "f"),)),))
    [need] = media_requests(request, profile)
    result, warnings = rewrite_media(request, profile, {need: FileText((Section("plain"),))}, "en")
    (found,) = result.messages[0].parts
    assert isinstance(found, ToolResult)
    assert [type(part) for part in found.content] == [Text]
    assert "plain" in str(found.content) and not warnings


WEB = "https://h/a"


def test_what_was_gathered_is_what_is_sent() -> None:
    frames = Media("video", (WEB, WEB + "2"), frames=True, path="p")
    request = single_message(frames, Media("audio", (WEB,)), Media("file", ("https://h/x.pdf",)))
    profile = Profile(inline_media=("video", "file"), audio="base64")
    urls = iter([Inlined("data:a"), Inlined("data:b"), Inlined("UklG", "wav"), Inlined("data:c")])
    results = {need: next(urls) for need in media_requests(request, profile)}
    parts = rewrite_media(request, profile, results, "en")[0].messages[0].parts
    assert parts == (
        Media("video", ("data:a", "data:b"), frames=True, path="p"),
        Media("audio", ("UklG",), format="wav"),
        Media("file", ("data:c",), name="x.pdf"),
    )
    assert [need.path for need in media_requests(request, profile)] == ["p[0]", "p[1]", "", ""]


def test_an_answer_keeps_the_media_that_the_model_accepts() -> None:
    image = Media("image", (PNG,))
    answer = single_message(Text("A"), Media("audio", ("https://h/a.wav",)), image, role="assistant")
    rewritten, warnings = rewrite_media(answer, VISION, {}, "en")
    assert rewritten.messages[0].parts == (Text("A"), image)
    assert "does not accept audio" in warnings[0]


NAMELESS = TEXT.model_copy(update={"name_media": "never"})
"""Accepts no media, and gets no sentence that names them."""
READER = NAMELESS.model_copy(update={"file_text": True})
IMAGE = Media("image", ("https://h/a.png",), path="p")
FILE_PART = Media("file", ("https://h/a.pdf",), path="p")


def history(*parts: Part, role: Role = "user") -> ChatRequest:
    """The parts in an earlier turn."""
    messages = (Message(role, parts), Message("assistant", (Text("A"),)), Message("user", (Text("B"),)))
    return ChatRequest("m", messages)


def rewritten(request: ChatRequest, profile: Profile, *loaded: Attachment) -> tuple[tuple[Part, ...], list[str]]:
    """The parts of the first message, and the warnings. What was loaded is in the order of the media requests."""
    results = dict(zip(media_requests(request, profile), loaded, strict=True))
    result, warnings = rewrite_media(request, profile, results, "en")
    return result.messages[0].parts, warnings


def test_media_of_the_history_that_the_model_does_not_accept_become_a_placeholder() -> None:
    parts, warnings = rewritten(history(Text("see"), IMAGE), NAMELESS)
    assert parts == (Text("see"), Text("[image: a.png]"))
    assert warnings == ["p was not sent: this model does not accept image input"]


def test_media_of_the_newest_message_that_the_model_does_not_accept_stay_to_be_refused() -> None:
    parts, warnings = rewritten(ChatRequest("m", (Message("user", (IMAGE,)),)), NAMELESS)
    assert parts == (IMAGE,)
    assert warnings == []


def test_an_image_of_a_result_that_the_model_does_not_accept_becomes_a_placeholder() -> None:
    result = ToolResult((Text("r"), IMAGE), "f")
    parts, warnings = rewritten(history(result, role="tool"), NAMELESS)
    assert parts == (ToolResult((Text("r"), Text("[image: a.png]")), "f"),)
    assert warnings == ["p was not sent: this model does not accept image input"]


def test_a_file_that_cannot_be_read_becomes_a_placeholder_with_the_reason() -> None:
    placeholder, warnings = Text("[file: a.pdf (not sent: it is damaged)]"), ["p was not sent: it is damaged"]
    assert rewritten(history(FILE_PART), READER, Unreadable("it is damaged")) == ((placeholder,), warnings)
    result = ToolResult((FILE_PART,), "f")
    assert rewritten(history(result, role="tool"), READER, Unreadable("it is damaged")) == (
        (ToolResult((placeholder,), "f"),),
        warnings,
    )


def test_an_image_of_the_history_that_cannot_be_loaded_becomes_a_placeholder() -> None:
    profile = Profile(media=("image",), max_image_short_side=100)
    parts, warnings = rewritten(history(Text("see"), IMAGE), profile, Unreadable("it is damaged"))
    assert parts == (Text("see"), Text("[image: a.png (not sent: it is damaged)]"))
    assert warnings == ["p was not sent: it is damaged"]


def test_an_answer_of_only_an_image_that_cannot_be_sent_has_its_name() -> None:
    assert rewritten(history(IMAGE, role="assistant"), NAMELESS)[0] == (Text("[image: a.png]"),)
    profile = Profile(media=("image",), max_image_short_side=100)
    parts, _ = rewritten(history(IMAGE, role="assistant"), profile, Unreadable("it is damaged"))
    assert parts == (Text("[image: a.png (not sent: it is damaged)]"),)


def test_a_frame_of_the_history_that_cannot_be_read_is_left_out_and_the_others_are_sent() -> None:
    profile = Profile(media=("video",), max_image_short_side=100)
    frames = Media("video", ("https://h/1", "https://h/2"), frames=True, path="p")
    parts, warnings = rewritten(history(frames), profile, Unreadable("it is damaged"), Inlined("data:image/png,x"))
    assert parts == (Media("video", ("data:image/png,x",), frames=True, path="p"),)
    assert warnings == ["p[0] was not sent: it is damaged"]


@each_case(
    ("media", "path", "message"),
    [
        (Media("image", ("data:image/png;base64,",), path="p"), "p", "is empty"),
        (Media("video", (PNG, "data:image/png;base64,"), frames=True, path="p"), "p[1]", "is empty"),
    ],
)
def test_data_of_the_newest_message_that_cannot_be_sent_is_refused_at_its_place(
    media: Media, path: str, message: str
) -> None:
    request = ChatRequest("m", (Message("user", (media,)),))
    with pytest.raises(InvalidInput) as refused:
        rewrite_media(request, VISION, {}, "en")
    assert [(one.path, one.message) for one in refused.value.violations] == [(path, message)]


def test_base64_is_sent_without_white_space_and_data_with_the_type_of_its_bytes() -> None:
    sound = Media("audio", ("UklG\nRg==",), format="wav")
    jpeg = Media("image", ("data:image/jpeg;base64,iVBORw0KGgo=",))
    parts, _ = rewritten(ChatRequest("m", (Message("user", (sound, jpeg)),)), OMNI)
    assert [part.urls for part in parts if isinstance(part, Media)] == [("UklGRg==",), (PNG,)]


def test_the_sentence_that_names_media_has_those_that_the_model_does_not_accept() -> None:
    request = single_message(Text("look"), Media("image", (PNG,)), Media("file", ("https://h/a.pdf",)))
    assert rewrite_media(request, VISION, {}, "en")[0].messages[0].parts == (
        Text("(Uploaded [file](a.pdf)) "),
        Text("look"),
        Media("image", (PNG,)),
    )


def test_audio_of_the_history_without_a_known_format_becomes_a_placeholder() -> None:
    profile = Profile(media=("audio",), audio="base64")
    parts, [warning] = rewritten(history(Media("audio", ("UklGRg==",), path="p")), profile)
    [text] = parts
    assert isinstance(text, Text) and text.text.startswith("[audio: audio (not sent: must have a format")
    assert warning.startswith("p was not sent: must have a format")
