"""OpenAI's messages, as clients write them and as they are written for them."""

from typing import Any

import pytest
from app.chat.messages import Media, Message, Reasoning, Text, ToolCall, ToolResult
from app.formats.base import Options
from app.formats.openai import OPENAI

from tests.each_case import each_case

CALL = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}
USER = {"role": "user", "content": "Hi"}


def read(*messages: Any) -> tuple[Message, ...]:
    decoded = OPENAI.parse(list(messages), Options())
    assert not decoded.violations
    return decoded.messages


def refused(*messages: Any) -> list[str]:
    return [one.path for one in OPENAI.parse(list(messages), Options()).violations]


def lost(*messages: Message) -> list[str]:
    return [f"{one.path}: {one.message}" for one in OPENAI.write(messages, Options()).losses]


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


def test_messages_of_one_assistant_in_a_row_stay_apart() -> None:
    expected = [
        {"role": "assistant", "content": "a", "reasoning_content": "r"},
        {"role": "assistant", "content": None, "tool_calls": [CALL]},
    ]
    history = [
        USER,
        *expected,
        {"role": "tool", "tool_call_id": "c", "content": "ok"},
        {"role": "assistant", "content": "b"},
    ]
    messages = read(*history)
    assert messages[1].turn != messages[2].turn
    assert messages[4].turn is None
    assert OPENAI.write(messages, Options()).messages == history


def test_what_a_provider_hung_on_a_message_comes_back() -> None:
    call = {**CALL, "extra_content": {"google": {"thought_signature": "s"}}}
    expected = {
        "role": "assistant",
        "content": None,
        "reasoning_content": "r",
        "reasoning_details": [{"x": 1}],
        "tool_calls": [call],
    }
    history = [USER, expected, {"role": "tool", "tool_call_id": "c", "content": "ok"}]
    assert OPENAI.write(read(*history), Options()).messages == history


def test_sound_is_written_as_openai_wants_it() -> None:
    written = OPENAI.write((Message("user", (Media("audio", ("data:audio/mpeg;base64,AAAA",)),)),), Options()).messages
    assert written[0]["content"] == [{"type": "input_audio", "input_audio": {"data": "AAAA", "format": "mp3"}}]


@pytest.mark.parametrize("url", ["https://h/a.wav", "data:audio/strange;base64,AAAA", "data:audio/wav,x", "AAAA"])
def test_sound_that_openai_cannot_say_is_written_as_it_is(url: str) -> None:
    written = OPENAI.write((Message("user", (Media("audio", (url,)),)),), Options()).messages
    assert written[0]["content"] == [{"type": "input_audio", "input_audio": {"data": url}}]


def test_losses_are_named_in_the_callers_words() -> None:
    extra = {"message_id": "m", "created_at": "then", "usage": {"prompt_tokens": 1}, "k": 1}
    assert lost(Message("user", (Text("x"),), path="messages[0]", extra=extra)) == [
        "messages[0]: created_at, k, message_id, usage cannot be written in OpenAI's format"
    ]


def test_the_gateways_own_notes_are_no_loss() -> None:
    raw = {"type": "TextMessage", "source": "a", "content": "x", "metadata": {"kind": "content", "parley": "{}"}}
    assert not lost(Message("user", (Text("x"),), path="messages[0]", extra={"autogen": {"raw": raw, "k": 0}}))
    for kept in (None, {"raw": None}, {"k": 1}):
        assert not lost(Message("user", (Text("x"),), path="messages[0]", extra={"autogen": kept}))


def test_what_only_a_kept_item_says_is_a_loss() -> None:
    raw = {"name": "u", "role": "user", "content": "x", "metadata": {"mood": "good"}, "invocation_id": "i", "url": None}
    assert lost(Message("user", (Text("x"),), path="messages[0]", extra={"agentscope": {"raw": raw, "k": 0}})) == [
        "messages[0]: invocation_id, metadata cannot be written in OpenAI's format"
    ]


def test_a_thought_of_a_user_is_left_out_with_a_warning() -> None:
    decoded = OPENAI.parse([{**USER, "reasoning_content": "hm"}, {**USER, "mood": "good"}], Options())
    assert [one.parts for one in decoded.messages] == [(Text("Hi"),), (Text("Hi"),)]
    assert [one.partition(" ")[0] for one in decoded.warnings] == ["messages[0].reasoning_content", "messages[1].mood"]


def test_a_reasoning_alone_is_written() -> None:
    assert OPENAI.write((Message("assistant", (Reasoning("r"),)),), Options()).messages == [
        {"role": "assistant", "content": "", "reasoning_content": "r"}
    ]


def test_what_a_provider_adds_to_a_message_comes_back() -> None:
    message = {"role": "assistant", "content": "Hi", "extra_content": {"google": {"thought_signature": "AbC="}}}
    read = OPENAI.parse([{"role": "user", "content": "Hi"}, message], Options())
    assert OPENAI.write(read.messages, Options()).messages[-1] == message
