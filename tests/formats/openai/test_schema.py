"""Every role and field of OpenAI's messages: what is read of it, what is refused and where, what comes back equal."""

from typing import Any

import pytest
from app.chat.messages import Media, Message, Reasoning, Text, ToolCall, ToolResult
from app.formats.base import Options, ParsedMessages
from app.formats.openai import OPENAI

from tests.each_case import each_case

Json = dict[str, Any]
USER = {"role": "user", "content": "Hi"}
CALL = {"id": "c", "type": "function", "function": {"name": "f", "arguments": '{"a": 1}'}}
CALLING = {"role": "assistant", "content": None, "tool_calls": [CALL]}
RESULT = {"role": "tool", "tool_call_id": "c", "content": "ok"}
PIXEL = "data:image/png;base64,AAAA"


def decode(*messages: Any) -> ParsedMessages:
    return OPENAI.parse(list(messages), Options())


def only(message: Json) -> Message:
    decoded = decode(message)
    assert not decoded.violations
    (found,) = decoded.messages
    return found


def part(kind: str, body: Any) -> Json:
    return {"role": "user", "content": [{"type": kind, kind: body}]}


# -- what is read ----------------------------------------------------------


@each_case(
    ("message", "role", "parts"),
    [
        ({"role": "system", "content": "s"}, "system", (Text("s"),)),
        ({"role": "developer", "content": "s"}, "system", (Text("s"),)),
        ({"role": "user", "content": "u"}, "user", (Text("u"),)),
        ({"role": "user", "content": ""}, "user", ()),
        ({"role": "user", "content": []}, "user", ()),
        ({"role": "assistant", "content": "a"}, "assistant", (Text("a"),)),
        ({"role": "assistant", "content": None}, "assistant", ()),
        ({"role": "assistant"}, "assistant", ()),
        ({"role": "assistant", "content": None, "refusal": "no"}, "assistant", (Text("no"),)),
        ({"role": "assistant", "content": "a", "reasoning_content": "r"}, "assistant", (Reasoning("r"), Text("a"))),
        ({"role": "assistant", "content": "a", "reasoning": "r"}, "assistant", (Reasoning("r"), Text("a"))),
        (CALLING, "assistant", (ToolCall("f", '{"a": 1}', "c"),)),
        ({**CALLING, "content": "Let me"}, "assistant", (Text("Let me"), ToolCall("f", '{"a": 1}', "c"))),
        ({**CALLING, "tool_calls": [CALL, {**CALL, "id": "d"}]}, "assistant", None),
        ({"role": "assistant", "function_call": {"name": "f", "arguments": "{"}}, "assistant", (ToolCall("f", "{"),)),
        ({"role": "assistant", "tool_calls": [{"function": {"name": "f"}}]}, "assistant", (ToolCall("f", ""),)),
        (RESULT, "tool", (ToolResult((Text("ok"),), None, "c"),)),
        ({**RESULT, "name": "f"}, "tool", (ToolResult((Text("ok"),), "f", "c"),)),
        ({**RESULT, "content": None}, "tool", (ToolResult((), None, "c"),)),
        ({**RESULT, "content": [{"type": "text", "text": "ok"}]}, "tool", (ToolResult((Text("ok"),), None, "c"),)),
        ({"role": "function", "name": "f", "content": "ok"}, "tool", (ToolResult((Text("ok"),), "f"),)),
    ],
)
def test_every_role_is_read(message: Json, role: str, parts: Any) -> None:
    found = only(message)
    assert found.role == role
    assert found.parts == parts if parts is not None else len(found.parts) == 2


def test_the_sender_is_read() -> None:
    assert only({**USER, "name": "Ann"}).name == "Ann"


@pytest.mark.parametrize(
    ("message", "media"),
    [
        (part("image_url", {"url": PIXEL}), Media("image", (PIXEL,))),
        (part("image_url", {"url": "HTTPS://h/a", "detail": "high"}), Media("image", ("HTTPS://h/a",), detail="high")),
        (part("image_url", "https://h/a"), Media("image", ("https://h/a",))),
        (part("video_url", {"url": "https://h/a"}), Media("video", ("https://h/a",))),
        (part("video", ["https://h/1", "https://h/2"]), Media("video", ("https://h/1", "https://h/2"), frames=True)),
        (part("input_audio", {"data": "AAAA", "format": "wav"}), Media("audio", ("AAAA",), format="wav")),
        (part("input_audio", {"data": "https://h/a"}), Media("audio", ("https://h/a",))),
        (part("audio_url", {"url": "https://h/a"}), Media("audio", ("https://h/a",))),
        (part("file", {"file_data": "data:a/b,x", "filename": "f"}), Media("file", ("data:a/b,x",), name="f")),
    ],
)
def test_media_are_read_with_their_place(message: Json, media: Media) -> None:
    (found,) = only(message).parts
    kind = message["content"][0]["type"]
    assert found == Media(
        media.media, media.urls, media.frames, media.format, media.detail, f"messages[0].content[0].{kind}", media.name
    )


def test_a_result_may_show_media() -> None:
    (result,) = only({**RESULT, "content": [{"type": "image_url", "image_url": {"url": PIXEL}}]}).parts
    assert isinstance(result, ToolResult)
    assert [one.kind for one in result.content] == ["media"]


# -- what is ignored, with a warning ----------------------------------------------------------


@pytest.mark.parametrize(
    "fields", [{"annotations": []}, {"audio": None}, {"function_call": None}, {"tool_calls": None}, {"refusal": ""}]
)
def test_fields_that_sdks_write_without_meaning_give_no_warning(fields: Json) -> None:
    assert not decode(USER, {"role": "assistant", "content": "x", **fields}).warnings


@pytest.mark.parametrize("fields", [{"mood": "good"}, {"audio": {"id": "a"}}, {"cache_control": {"type": "x"}}])
def test_an_unknown_field_is_named_by_its_place(fields: Json) -> None:
    (key,) = fields
    (warning,) = decode({**USER, **fields}).warnings
    assert warning.startswith(f"messages[0].{key} ")


# -- what is refused ----------------------------------------------------------


@each_case(
    ("message", "place"),
    [
        ("Hi", ""),
        (None, ""),
        ([], ""),
        ({}, ".role"),
        ({"content": "x"}, ".role"),
        ({"role": "bot", "content": "x"}, ".role"),
        ({"role": ["user"], "content": "x"}, ".role"),
        ({"role": "user"}, ".content"),
        ({"role": "system", "content": None}, ".content"),
        ({"role": "user", "content": 5}, ".content"),
        ({"role": "user", "content": {"type": "text", "text": "x"}}, ".content"),
        ({"role": "user", "content": ["x"]}, ".content[0]"),
        ({"role": "user", "content": [{"text": "x"}]}, ".content[0]"),
        ({"role": "user", "content": [{"type": 5}]}, ".content[0]"),
        ({"role": "user", "content": [{"type": "tool_call"}]}, ".content[0]"),
        ({"role": "user", "content": [{"type": "text"}]}, ".content[0].text"),
        ({"role": "user", "content": [{"type": "text", "text": None}]}, ".content[0].text"),
        (part("image_url", {}), ".content[0].image_url.url"),
        (part("image_url", None), ".content[0].image_url"),
        (part("image_url", {"url": "cat.png"}), ".content[0].image_url.url"),
        (part("image_url", {"url": "file:///etc/passwd"}), ".content[0].image_url.url"),
        (part("image_url", "cat.png"), ".content[0].image_url"),
        (part("image_url", {"url": PIXEL, "detail": 5}), ".content[0].image_url.detail"),
        (part("video_url", {"url": "film.mp4"}), ".content[0].video_url.url"),
        (part("video", []), ".content[0].video"),
        (part("video", ["1.png"]), ".content[0].video[0]"),
        (part("input_audio", {"format": "wav"}), ".content[0].input_audio.data"),
        (part("input_audio", {"data": ""}), ".content[0].input_audio.data"),
        (part("input_audio", {"data": "../sound.wav"}), ".content[0].input_audio.data"),
        (part("audio_url", {"url": "sound.wav"}), ".content[0].audio_url.url"),
        (part("file", {"file_id": "file-1"}), ".content[0].file"),
        (part("file", {"file_data": "report.pdf"}), ".content[0].file.file_data"),
        ({**USER, "name": 5}, ".name"),
        ({**USER, "tool_calls": [CALL]}, ".tool_calls"),
        ({**USER, "function_call": {"name": "f"}}, ".function_call"),
        ({**CALLING, "tool_calls": CALL}, ".tool_calls"),
        ({**CALLING, "tool_calls": ["f"]}, ".tool_calls[0]"),
        ({**CALLING, "tool_calls": [{"id": "c"}]}, ".tool_calls[0].function"),
        ({**CALLING, "tool_calls": [{**CALL, "id": 5}]}, ".tool_calls[0].id"),
        ({**CALLING, "tool_calls": [{**CALL, "type": "custom"}]}, ".tool_calls[0].type"),
        ({**CALLING, "tool_calls": [{"function": {"arguments": "{}"}}]}, ".tool_calls[0].function.name"),
        ({**CALLING, "tool_calls": [{"function": {"name": ""}}]}, ".tool_calls[0].function.name"),
        (
            {**CALLING, "tool_calls": [{"function": {"name": "f", "arguments": {}}}]},
            ".tool_calls[0].function.arguments",
        ),
        ({"role": "tool", "content": "x"}, ".tool_call_id"),
        ({"role": "tool", "tool_call_id": "", "content": "x"}, ".tool_call_id"),
        ({"role": "tool", "tool_call_id": 5, "content": "x"}, ".tool_call_id"),
        ({"role": "function", "content": "x"}, ".name"),
        ({"role": "assistant", "content": "x", "reasoning_content": ["r"]}, ".reasoning_content"),
        ({"role": "assistant", "content": "x", "reasoning_details": "r"}, ".reasoning_details"),
        ({"role": "assistant", "refusal": 5}, ".refusal"),
    ],
)
def test_what_is_wrong_is_refused_at_its_place(message: Any, place: str) -> None:
    assert [one.path for one in decode(USER, message).violations] == [f"messages[1]{place}"]


def test_all_violations_are_reported_at_once() -> None:
    found = decode({"role": "user"}, {"role": "bot"}, {"role": "tool", "tool_calls": [CALL]}, USER, {**USER, "name": 5})
    assert [one.path for one in found.violations] == [
        "messages[0].content",
        "messages[1].role",
        "messages[2].tool_calls",
        "messages[2].tool_call_id",
        "messages[4].name",
    ]


def test_an_empty_list_is_refused() -> None:
    assert [one.path for one in decode().violations] == ["messages"]


# -- there and back ----------------------------------------------------------

TALKS: dict[str, list[Json]] = {
    "text": [{"role": "system", "content": "s"}, USER, {"role": "assistant", "content": "a"}, USER],
    "developer": [{"role": "developer", "content": "s"}, USER],
    "names": [{"role": "system", "content": "s", "name": "Sys"}, {**USER, "name": "Ann"}],
    "several systems": [{"role": "system", "content": "s"}, USER, {"role": "system", "content": "t"}, USER],
    "parts": [{"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}],
    "image": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": PIXEL, "detail": "low"}}]}],
    "video": [part("video_url", {"url": "https://h/a"})],
    "frames": [part("video", ["https://h/1", "https://h/2"])],
    "sound": [part("input_audio", {"data": "AAAA", "format": "mp3"})],
    "file": [part("file", {"file_data": "data:application/pdf;base64,AAAA", "filename": "a.pdf"})],
    "refusal": [USER, {"role": "assistant", "content": None, "refusal": "no"}, USER],
    "text and refusal": [USER, {"role": "assistant", "content": "Well,", "refusal": "no"}, USER],
    "reasoning": [USER, {"role": "assistant", "content": "a", "reasoning_content": "r"}, USER],
    "details": [USER, {"role": "assistant", "content": "a", "reasoning_details": [{"data": "e"}]}, USER],
    "call": [USER, CALLING, RESULT, {"role": "assistant", "content": "a"}],
    "text and calls": [
        USER,
        {**CALLING, "content": "Let me", "tool_calls": [CALL, {**CALL, "id": "d"}]},
        RESULT,
        {**RESULT, "tool_call_id": "d"},
    ],
    "broken arguments": [
        USER,
        {**CALLING, "tool_calls": [{**CALL, "function": {"name": "f", "arguments": "{"}}]},
        RESULT,
    ],
    "extra content": [USER, {**CALLING, "tool_calls": [{**CALL, "extra_content": {"google": {"x": 1}}}]}, RESULT],
}


@each_case("conversation", TALKS.values(), ids=TALKS)
def test_a_list_comes_back_as_it_was(conversation: list[Json]) -> None:
    decoded = decode(*conversation)
    encoded = OPENAI.write(decoded.messages, Options())
    assert not decoded.violations
    assert encoded.messages == conversation
    assert not encoded.losses


SAME = {
    "a string for an image": (part("image_url", PIXEL), part("image_url", {"url": PIXEL})),
    "one part of text": ({"role": "user", "content": [{"type": "text", "text": "Hi"}]}, USER),
    "the part of another API": ({"role": "user", "content": [{"type": "input_text", "text": "Hi"}]}, USER),
    "another name for reasoning": (
        {"role": "assistant", "content": "a", "reasoning": "r"},
        {"role": "assistant", "content": "a", "reasoning_content": "r"},
    ),
    "a part for a refusal": (
        {"role": "assistant", "content": [{"type": "refusal", "refusal": "no"}]},
        {"role": "assistant", "content": None, "refusal": "no"},
    ),
    "another part for sound": (part("audio_url", {"url": "https://h/a"}), part("input_audio", {"data": "https://h/a"})),
    "nulls": ({**USER, "name": None, "tool_calls": None}, USER),
}


@pytest.mark.parametrize(("written", "expected"), SAME.values(), ids=SAME)
def test_what_can_be_written_in_two_ways_comes_back_in_one(written: Json, expected: Json) -> None:
    assert OPENAI.write(decode(written).messages, Options()).messages == [expected]


def test_a_call_of_old_comes_back_as_a_tool_call() -> None:
    old = {"role": "assistant", "content": None, "function_call": {"name": "f", "arguments": "{}"}}
    history = decode(USER, old, {"role": "function", "name": "f", "content": "ok"}).messages
    _, called, result = OPENAI.write(history, Options()).messages
    assert called["tool_calls"][0]["function"] == {"name": "f", "arguments": "{}"}
    assert result == {"role": "tool", "tool_call_id": called["tool_calls"][0]["id"], "content": "ok"}
