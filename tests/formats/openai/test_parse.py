"""OpenAI's messages, as clients write them and as they are written for them."""

from typing import Any

import pytest
from app.chat.messages import Media, Message, Text, ToolCall, ToolResult
from app.formats.base import Options
from app.formats.openai import OPENAI
from app.formats.openai.schema import ToolCallWire
from pydantic import ValidationError

from tests.each_case import each_case

CALL = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}


USER = {"role": "user", "content": "Hi"}


def read(*messages: Any) -> tuple[Message, ...]:
    decoded = OPENAI.parse(list(messages), Options())
    assert not decoded.violations
    return decoded.messages


def refused(*messages: Any) -> list[str]:
    return [one.path for one in OPENAI.parse(list(messages), Options()).violations]


PARTS: list[tuple[Any, Text | Media]] = [
    ({"type": "text", "text": "x"}, Text("x")),
    ({"type": "input_text", "text": "x"}, Text("x")),
    ({"type": "refusal", "refusal": "no"}, Text("no")),
    ({"type": "image_url", "image_url": "https://h/a"}, Media("image", ("https://h/a",))),
    (
        {"type": "image_url", "image_url": {"url": "data:x,y", "detail": "low"}},
        Media("image", ("data:x,y",), detail="low"),
    ),
    ({"type": "video_url", "video_url": {"url": "https://h/a"}}, Media("video", ("https://h/a",))),
    ({"type": "video", "video": ["https://h/1", "https://h/2"]}, Media("video", ("https://h/1", "https://h/2"), True)),
    (
        {"type": "input_audio", "input_audio": {"data": "AAAA", "format": "mp3"}},
        Media("audio", ("AAAA",), format="mp3"),
    ),
    ({"type": "file", "file": {"file_data": "data:x,y", "filename": "a"}}, Media("file", ("data:x,y",), name="a")),
]


@pytest.mark.parametrize(
    ("part", "expected"), PARTS, ids=lambda value: value.get("type") if isinstance(value, dict) else ""
)
def test_a_part_is_read_as_what_it_says(part: Any, expected: Text | Media) -> None:
    (message,) = read({"role": "user", "content": [part]})
    (found,) = message.parts
    path = f"messages[0].content[0].{part['type']}"
    assert found == (
        Media(expected.media, expected.urls, expected.frames, expected.format, expected.detail, path, expected.name)
        if isinstance(expected, Media)
        else expected
    )


@each_case(
    ("message", "place"),
    [
        ({"role": "nobody", "content": "x"}, "messages[1].role"),
        ({"role": "user"}, "messages[1].content"),
        ({"role": "user", "content": None}, "messages[1].content"),
        (
            {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "/etc/passwd"}}]},
            "messages[1].content[0].image_url.url",
        ),
        ({"role": "user", "content": [{"type": "thing"}]}, "messages[1].content[0]"),
        ({"role": "user", "content": [{"type": "file", "file": {"file_id": "f"}}]}, "messages[1].content[0].file"),
        ({"role": "user", "content": "x", "tool_calls": [CALL]}, "messages[1].tool_calls"),
        ({"role": "assistant", "tool_calls": [{**CALL, "type": "custom"}]}, "messages[1].tool_calls[0].type"),
        (
            {"role": "assistant", "tool_calls": [{**CALL, "function": {"name": " "}}]},
            "messages[1].tool_calls[0].function.name",
        ),
        ({"role": "tool", "content": "x"}, "messages[1].tool_call_id"),
        ("hello", "messages[1]"),
    ],
)
def test_what_is_wrong_is_refused_with_its_place(message: Any, place: str) -> None:
    assert refused(USER, message) == [place]


def test_old_function_calls_are_calls() -> None:
    called = {"role": "assistant", "content": None, "function_call": {"name": "f", "arguments": "{}"}}
    _, call, result = read(USER, called, {"role": "function", "name": "f", "content": "ok"})
    assert call.parts == (ToolCall("f", "{}"),)
    assert result.parts == (ToolResult((Text("ok"),), "f"),)


def test_a_thought_of_a_user_is_left_out_with_a_warning() -> None:
    decoded = OPENAI.parse([{**USER, "reasoning_content": "hm"}, {**USER, "mood": "good"}], Options())
    assert [one.parts for one in decoded.messages] == [(Text("Hi"),), (Text("Hi"),)]
    assert [one.partition(" ")[0] for one in decoded.warnings] == ["messages[0].reasoning_content", "messages[1].mood"]


def test_a_signature_of_a_text_comes_back() -> None:
    message = {"role": "assistant", "content": "Hi", "extra_content": {"google": {"thought_signature": "AbC="}}}
    read = OPENAI.parse([{"role": "user", "content": "Hi"}, message], Options())
    assert OPENAI.write(read.messages, Options()).messages[-1] == message


def read_call(custom: Any) -> ToolCallWire:
    return ToolCallWire.model_validate({"id": "c", "type": "custom", "custom": custom})


def test_the_call_of_a_custom_tool_is_read_as_that_of_a_function() -> None:
    call = read_call({"name": "f", "input": "ab"})
    assert (call.id, call.type, call.function.name, call.function.arguments) == (
        "c",
        "function",
        "f",
        '{"input": "ab"}',
    )
    assert read_call({"name": "f"}).function.arguments == '{"input": ""}'


def test_the_call_of_a_custom_tool_without_a_text_is_refused() -> None:
    with pytest.raises(ValidationError):
        read_call({"name": "f", "input": 1})


def test_unknown_keys_of_parts_and_calls_are_named() -> None:
    part = {"type": "text", "text": "t", "odd": 1}
    call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}", "odd": 1}}
    old = {"name": "f", "arguments": "{}", "odd": 1}
    messages = [
        {"role": "user", "content": [part]},
        {"role": "assistant", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c", "content": "r"},
        {"role": "assistant", "function_call": old},
    ]
    assert [one.partition(" ")[0] for one in OPENAI.parse(messages, Options()).warnings] == [
        "messages[0].content[0].odd",
        "messages[1].tool_calls[0].function.odd",
        "messages[3].function_call.odd",
    ]


def test_an_unknown_key_of_a_message_is_ignored_with_a_warning_unless_it_is_empty() -> None:
    message: Any = {"role": "user", "content": "Hi", "mood": "good", "tags": [], "note": None}
    parsed = OPENAI.parse([message], Options())
    assert list(parsed.warnings) == ["messages[0].mood is not a field of an OpenAI message and was ignored"]


USE = {"type": "tool_use", "id": "c1", "name": "f", "input": {"a": "é"}}


def test_calls_and_results_of_anthropics_messages_are_read() -> None:
    result = {"type": "tool_result", "tool_use_id": "c1", "content": [{"type": "text", "text": "sunny"}]}
    failed = {"type": "tool_result", "tool_use_id": "c2", "is_error": True}
    parsed = OPENAI.parse(
        [
            {"role": "assistant", "content": [{"type": "text", "text": "So"}, USE, {**USE, "id": "c2", "input": "{}"}]},
            {"role": "user", "content": [{"type": "text", "text": "And?"}, result, failed]},
            {"role": "user", "content": [{**result, "content": "wet"}]},
        ],
        Options(),
    )
    assert (parsed.violations, parsed.warnings) == ((), [])
    call, results, words, wet = parsed.messages
    assert call.parts == (Text("So"), ToolCall("f", '{"a": "é"}', "c1"), ToolCall("f", "{}", "c2"))
    first, second = ToolResult((Text("sunny"),), None, "c1"), ToolResult((Text("Error"),), None, "c2", True)
    assert (results.role, results.parts) == ("tool", (first, second))
    assert (words.role, words.parts) == ("user", (Text("And?"),))
    assert (wet.role, wet.parts) == ("tool", (ToolResult((Text("wet"),), None, "c1"),))


@each_case(
    ("role", "part", "place"),
    [
        ("user", USE, "messages[0].content[1]"),
        ("assistant", {"type": "tool_result", "tool_use_id": "c1"}, "messages[0].content[1]"),
        ("assistant", {**USE, "id": ""}, "messages[0].content[1].id"),
        ("assistant", {"type": "tool_use", "id": "c1", "name": "f"}, "messages[0].content[1].input"),
    ],
)
def test_such_a_part_that_is_malformed_is_refused_at_its_place(role: str, part: Any, place: str) -> None:
    text = {"type": "text", "text": "x"}
    [violation] = OPENAI.parse([{"role": role, "content": [text, part]}], Options()).violations
    assert violation.path == place
