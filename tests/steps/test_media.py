"""Media are given to a model as it takes them and otherwise described as Qwen-Agent describes them."""

import base64
from typing import Any

import pytest
from app.chat.attachments import FileText, Inlined, Section, UnreadSection
from app.chat.messages import ChatRequest, Media, Message, Part, Role, Text, Tool, ToolResult
from app.formats.base import Options
from app.formats.qwen import QWEN, QWEN_AGENT
from app.profiles import KINDS, Profile
from app.steps.media import ImageLimits, basename, media_requests, rewrite_media
from app.steps.pipeline import accepts_uploads
from app.steps.prompt_language import detect_language
from app.upstream import request as upstream_request

from tests.each_case import each_case
from tests.steps.recorded_media import NO_URL, UNITS, item, why_different

TEXT = Profile(media=(), file_text=False)
VISION = Profile(media=("image", "video"), file_text=False)
OMNI = Profile(media=("image", "video", "audio"), file_text=False)
TOOL = Tool("f", {"name": "f"})
PNG = "data:image/png;base64,iVBORw0KGgo="
WEBP = b"RIFF\x04\0\0\0WEBP"


def data_uri(media_type: str, data: bytes) -> str:
    return f"data:{media_type};base64,{base64.b64encode(data).decode()}"


def message(wire: dict[str, Any], at: int = 0) -> Message:
    content = wire["content"]
    item_parts = (Text(content),) if isinstance(content, str) else tuple(item(one) for one in content)
    if wire["role"] == "function":
        return Message("tool", (ToolResult(item_parts, wire["name"]),))
    return Message(wire["role"], item_parts, path=f"messages[{at}]")


def asked(*wire: dict[str, Any], tools: tuple[Tool, ...] = ()) -> ChatRequest:
    return ChatRequest(
        "m", tuple(message(one, at) for at, one in enumerate(wire)), tools, text_joiner="", policy=QWEN_AGENT
    )


def one(*parts: Part, role: Role = "user", tools: tuple[Tool, ...] = ()) -> ChatRequest:
    return ChatRequest("m", (Message(role, parts),), tools, policy=QWEN_AGENT)


def flat(content: Any) -> Any:
    """A message's content as the goldens have it: parts, or their text where they are text alone."""
    parts = [part for part in content if not isinstance(part, dict) or part["type"] != "text" or part["text"]]
    if all(isinstance(part, str) or part["type"] == "text" for part in parts):
        return "".join(part if isinstance(part, str) else part["text"] for part in parts)
    return parts


def sent(case: Any, profile: Profile, lang: Any = "en") -> list[Any]:
    request, _ = rewrite_media(asked(*case["messages"]), profile, {}, lang)
    body, _ = upstream_request.build(request, "m", profile)
    return [(one["role"], flat(one["content"])) for one in body["messages"]]


def reference(case: Any) -> list[Any]:
    return [(one["role"], flat(one["content"])) for one in case["upstream"][0]["request"]["body"]["messages"]]


@each_case("path", ["/etc/passwd", "file:///etc/passwd", "FILE:///etc/passwd", "C:\\x.png", "~/x", "ftp://h/x"])
@each_case("kind", ["image", "file", "audio", "video"])
def test_what_is_no_url_of_the_web_is_refused_with_its_place(path: str, kind: str) -> None:
    violations = QWEN.parse([{"role": "user", "content": [{"text": "x"}, {kind: path}]}], Options()).violations
    assert [item.path for item in violations] == [f"messages[0].content[1].{kind}"]


def alike(function: str) -> list[Any]:
    return [row for row in UNITS if row["fn"] == function and not why_different(row)]


@pytest.mark.parametrize("row", alike("get_basename_from_url"), ids=lambda row: row["input"])
def test_a_name_is_that_of_qwen_agent(row: Any) -> None:
    assert basename(row["input"]) == row["result"]


@pytest.mark.parametrize("row", alike("has_chinese_messages"))
def test_a_conversation_is_chinese_where_qwen_agent_says_so(row: Any) -> None:
    assert (detect_language(asked(*row["input"])) == "zh") == row["result"]


@pytest.mark.parametrize(
    ("url", "name"),
    [
        ("https://h/d/a.pdf?x=1/2#f", "a.pdf"),
        ("https://h/?x=1", "h"),
        ("https://h/%E6%8A%A5%E5%91%8A.docx", "报告.docx"),
        ("C:\\docs\\a b.pdf", "a b.pdf"),
        ("https://h/a%0Ab.png", "a b.png"),
        ("https://[broken/x.png", "x.png"),
        ("", ""),
    ],
)
def test_a_name_is_the_last_one_of_the_path(url: str, name: str) -> None:
    assert basename(url) == name


@each_case("row", alike("format_as_multimodal_message"))
def test_a_message_is_that_of_qwen_agent(row: Any) -> None:
    request = asked(row["input"], tools=(TOOL,) if row["add_multimodel_upload_info"] else ())
    result, _ = rewrite_media(request, OMNI, {}, "zh" if row["lang"] == "zh" else "en")
    assert result.messages[0].parts == message(row["result"]).parts


@each_case("row", [row for row in UNITS if why_different(row) == NO_URL])
def test_what_is_neither_a_url_nor_base64_is_refused(row: Any) -> None:
    assert QWEN.parse([row["input"]], Options()).violations


def test_a_data_uri_has_no_name_and_nothing_has_none() -> None:
    [nothing] = [row["input"] for row in UNITS if why_different(row).endswith("no crash")]
    assert basename(nothing) == ""
    image = one(Text("look"), Media("image", (PNG,)))
    assert rewrite_media(image, TEXT, {}, "en")[0].messages[0].parts == (
        Text("(Uploaded ![image](image.png)) "),
        Text("look"),
    )


def test_a_file_in_a_result_is_named_and_not_dropped_in_silence() -> None:
    request = asked({"role": "function", "name": "f", "content": [{"file": "f.pdf"}, {"image": "i.png"}]})
    [result] = rewrite_media(request, VISION, {}, "en")[0].messages[0].parts
    assert isinstance(result, ToolResult)
    assert result.content == (Text("[file](f.pdf)"), Media("image", ("https://x.com/i.png",)))


def test_an_image_in_a_result_is_named_to_a_model_that_takes_none() -> None:
    request = asked({"role": "function", "name": "f", "content": [{"text": "see"}, {"image": "i.png"}]})
    [result] = rewrite_media(request, TEXT, {}, "zh")[0].messages[0].parts
    assert isinstance(result, ToolResult) and result.content == (Text("see"), Text("![图片](i.png)"))


def test_an_assistants_image_that_is_not_accepted_gives_a_warning() -> None:
    request = one(
        Text("see"), Media("image", ("https://h/x.png",), path="messages[1].content[1].image"), role="assistant"
    )
    result, warnings = rewrite_media(request, TEXT, {}, "en")
    assert result.messages[0].parts == (Text("see"),)
    assert warnings == ["messages[1].content[1].image was not sent: this model does not accept image input"]


def test_a_description_that_the_caller_wrote_is_not_repeated() -> None:
    request = one(Text("(Uploaded ![image](a.png)) what is it?"), Media("image", ("https://h/a.png",)))
    assert rewrite_media(request, TEXT, {}, "en")[0].messages[0].parts == (
        Text("(Uploaded ![image](a.png)) what is it?"),
    )


def test_a_request_without_media_is_not_touched() -> None:
    request = one(Text("hello"), tools=(TOOL,))
    assert (
        rewrite_media(request, TEXT, {}, "en") == (request, []) and rewrite_media(request, TEXT, {}, "en")[0] is request
    )


def test_data_uris_of_one_type_have_names_of_their_own_that_do_not_depend_on_what_follows() -> None:
    picture = Media("image", (PNG,))
    frames = Media("video", ("data:image/jpeg;base64,AA", "data:image/jpeg;base64,AB"), frames=True)
    sound = Media("audio", ("UklGRg==UklGRg==UklGRg==",), format="wav")
    request = one(picture, Media("image", (PNG + "=",)), frames, sound, Media("file", ("data:,x",), name="notes.txt"))
    [prefix] = rewrite_media(request, TEXT, {}, "en")[0].messages[0].parts
    names = "![image](image.png) ![image](image-2.png) ![video](video.jpg) ![video](video-2.jpg) ![audio](audio.wav)"
    assert prefix == Text(f"(Uploaded {names} [file](notes.txt)) ")


def test_where_there_are_tools_only_files_that_a_model_does_not_accept_are_described() -> None:
    request = one(Media("image", ("https://h/a.png",)), tools=(TOOL,))
    quiet = VISION.model_copy(update={"name_media": "untaken"})
    assert rewrite_media(request, quiet, {}, "en")[0].messages == request.messages
    assert rewrite_media(request, VISION, {}, "en")[0].messages[0].parts[0] == Text("(Uploaded ![image](a.png)) ")


FILE = FileText((Section("one\n", 1), Section("two", 2)), "page", left_out=3, cut=True)


def test_a_files_text_stands_where_the_file_stood_with_its_pages_marked() -> None:
    request = one(Text("Sum"), Media("file", ("https://h/a.pdf",), path="p"), Text("up"))
    profile = Profile(media=())
    results = {need: FILE for need in media_requests(request, profile)}
    parts = rewrite_media(request, profile, results, "en")[0].messages[0].parts
    text = (
        '\n<file name="a.pdf">\n[Page 1]\none\n[Page 2]\ntwo\n[the text was cut here: it is too long]\n'
        "[3 more pages were left out]\n</file>\n"
    )
    assert parts == (Text("(Uploaded [file](a.pdf)) "), Text("Sum"), Text(text), Text("up"))


@pytest.mark.parametrize(
    ("file", "item_parts"),
    [
        (FileText((Section("a,b", 1, "Blatt"),), "sheet"), "[工作表 1：Blatt]\na,b"),
        (FileText((Section("x", 2),), "slide"), "[第 2 张幻灯片]\nx"),
        (FileText((Section("plain"),)), "plain"),
        (FileText((), "page", scanned=True), "[扫描版 PDF：各页均为图片，没有可读取的文字]"),
    ],
)
def test_a_files_parts_are_marked_in_the_callers_language(file: FileText, item_parts: str) -> None:
    request = one(Media("file", ("https://h/a",)))
    [need] = media_requests(request, TEXT.model_copy(update={"file_text": True}))
    result, _ = rewrite_media(request, TEXT.model_copy(update={"file_text": True}), {need: file}, "zh")
    assert result.messages[0].parts[1] == Text(f'\n<file name="a">\n{item_parts}\n</file>\n')


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


@each_case(
    ("media", "profile", "purposes"),
    [
        (Media("image", (WEB,)), VISION, ["check"]),
        (Media("image", (WEB,)), VISION.model_copy(update={"passed_urls": "resolved"}), ["resolve"]),
        (Media("image", (WEB,)), VISION.model_copy(update={"passed_urls": "any"}), []),
        (Media("image", (PNG,)), VISION, []),
        (Media("image", ("data:image/jpeg;base64,iVBORw0KGgoAAAANSUhEUg==",)), VISION, []),
        (Media("image", (data_uri("image/png", WEBP),)), VISION, []),
        (Media("image", (data_uri("image/webp", WEBP),)), KINDS["llamacpp"], ["picture"]),
        (Media("image", (data_uri("image/png", b"<svg/>"),)), VISION, ["picture"]),
        (Media("image", (WEB,)), KINDS["ollama"], ["picture"]),
        (Media("image", (WEB,)), Profile(max_image_short_side=1080), ["picture"]),
        (Media("image", (WEB,)), TEXT, []),
        (Media("image", (PNG,)), TEXT, []),
        (Media("video", (WEB, WEB + "2"), frames=True), KINDS["moonshot"], ["picture", "picture"]),
        (Media("video", (WEB,)), KINDS["vllm"], ["check"]),
        (Media("video", (WEB,)), KINDS["moonshot"], ["inline"]),
        (Media("audio", (WEB,)), KINDS["openai"], ["raw"]),
        (Media("audio", (WEB,)), KINDS["dashscope"], ["check"]),
        (Media("audio", ("UklGRg==UklGRg==UklGRg==",), format="wav"), KINDS["openai"], []),
        (Media("file", (WEB,)), KINDS["openai"], ["inline"]),
        (Media("file", (WEB,)), KINDS["vllm"], ["text"]),
        (Media("file", (WEB,)), TEXT, []),
    ],
)
def test_bytes_are_wanted_only_where_the_model_needs_them(media: Media, profile: Profile, purposes: list[str]) -> None:
    assert [need.purpose for need in media_requests(one(media), profile)] == purposes


def test_files_of_an_assistant_are_not_fetched_to_be_described() -> None:
    assert media_requests(one(Media("file", (WEB,)), role="assistant"), Profile(media=())) == []


def test_equal_media_are_wanted_once_and_placed_where_they_stood_first() -> None:
    profile = KINDS["ollama"].model_copy(update={"max_media_bytes": 9})
    frames = Media("image", (WEB,), path="messages[1].content[0].image")
    [need] = media_requests(one(Media("image", (WEB,), path="messages[0].content[0].image"), frames), profile)
    assert (need.path, need.limits) == (
        "messages[0].content[0].image",
        ImageLimits(max_bytes=9, formats=("png", "jpeg")),
    )


def test_what_was_gathered_is_what_is_sent() -> None:
    frames = Media("video", (WEB, WEB + "2"), frames=True, path="p")
    request = one(frames, Media("audio", (WEB,)), Media("file", ("https://h/x.pdf",)))
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


@pytest.mark.parametrize("url", ["data:image/png;base64,@@@", "data:image/png,plain", "data:;base64,", "data:x"])
def test_data_that_is_not_what_it_declares_is_looked_at(url: str) -> None:
    asked = ChatRequest("m", (Message("user", (Media("image", (url,)),)),))
    (found,) = media_requests(asked, VISION)
    assert found.url == url


def test_the_addresses_that_the_server_fetches_itself_are_found_with_their_places() -> None:
    parts = (
        Media("image", ("https://a.test/x.png",), path="messages[0].content[0].image"),
        Media("video", ("HTTP://a.test/1", PNG), frames=True, path="messages[0].content[1].video"),
        Media("audio", ("https://a.test/x.wav",), path="messages[0].content[2].audio"),
    )
    own = VISION.model_copy(update={"passed_urls": "public", "inline_media": ()})
    assert [(need.purpose, need.url, need.path) for need in media_requests(one(*parts), own)] == [
        ("check", "https://a.test/x.png", "messages[0].content[0].image"),
        ("check", "HTTP://a.test/1", "messages[0].content[1].video[0]"),
    ]
    assert media_requests(one(*parts), own.model_copy(update={"passed_urls": "any"})) == []


@each_case(
    ("file", "losses"),
    [
        (FileText((Section("x", 1),), "page"), []),
        (FileText((), "page", scanned=True), ["the PDF is scanned"]),
        (FileText((Section(" \n", 1),)), ["the file has no text"]),
        (
            FileText((Section("x", 1),), "page", unread=(UnreadSection(2, "it is damaged"),)),
            ["page 2 could not be read: it is damaged"],
        ),
        (FileText((Section("x", 1),), "page", pictured=(2, 4)), ["these pages are images without text"]),
        (FileText((Section("x", 1),), "slide", 3, cut=True), ["the text was cut", "3 more slides were left out"]),
        (
            FileText((), "page", unread=tuple(UnreadSection(at, "x") for at in range(30))),
            [*[f"page {at} could not be read" for at in range(20)], "10 more pages could not be read"],
        ),
    ],
)
def test_what_of_a_file_is_not_sent_is_a_warning(file: FileText, losses: list[str]) -> None:
    found = ChatRequest("m", (Message("user", (Media("file", (WEB,), path="p"),)),))
    profile = Profile(media=())
    [need] = media_requests(found, profile)
    _, warnings = rewrite_media(found, profile, {need: file}, "en")
    assert len(warnings) == len(losses)
    assert all(warning.startswith(f"p: {loss}") for warning, loss in zip(warnings, losses, strict=True))


def test_pages_that_could_not_be_read_stand_in_their_place() -> None:
    request = one(Media("file", ("https://h/a.pdf",)))
    profile = Profile(media=())
    sections = (Section("one", 1), Section("four", 4))
    file = FileText(sections, "page", unread=(UnreadSection(2, "it is damaged"),), pictured=(3,))
    [need] = media_requests(request, profile)
    text = rewrite_media(request, profile, {need: file}, "en")[0].messages[0].parts[1]
    assert isinstance(text, Text)
    assert text.text.split("\n")[2:-2] == [
        *("[Page 1]", "one", "[Page 2]", "[this part could not be read: it is damaged]"),
        *("[Page 3]", "[this page is an image without text]", "[Page 4]", "four"),
    ]


def test_uploads_that_are_named_in_words_are_accepted() -> None:
    request = ChatRequest("m", (Message("user", (Media("image", (PNG,)),)),))
    assert accepts_uploads(request, TEXT.model_copy(update={"name_media": "untaken"}))
    assert not accepts_uploads(request, TEXT.model_copy(update={"name_media": "never"}))


def test_an_image_of_an_earlier_turn_is_loaded_if_its_base64_is_not_clean() -> None:
    clean = data_uri("image/png", b"\x89PNG\r\n\x1a\n" + bytes(300) + b"\0\0\0\0IEND\xaeB`\x82")
    unclean = f"{clean[:250]}\r\n\r\n{clean[250:]}"
    needs = []
    for url in (clean, unclean):
        turns = (
            Message("user", (Media("image", (url,)),)),
            Message("assistant", (Text("A"),)),
            Message("user", (Text("B"),)),
        )
        needs += media_requests(ChatRequest("m", turns), VISION)
    assert [(need.url, need.purpose, need.required) for need in needs] == [(unclean, "picture", False)]


def test_an_answer_keeps_the_media_that_the_model_accepts() -> None:
    image = Media("image", (PNG,))
    answer = one(Text("A"), Media("audio", ("https://h/a.wav",)), image, role="assistant")
    rewritten, warnings = rewrite_media(answer, VISION, {}, "en")
    assert rewritten.messages[0].parts == (Text("A"), image)
    assert "does not accept audio" in warnings[0]
