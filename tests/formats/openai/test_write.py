"""A conversation as OpenAI's messages, and what of it is lost."""

from typing import Any

import pytest
from app.chat.messages import Media, Message, Reasoning, Text
from app.formats.base import Options
from app.formats.openai import OPENAI

CALL = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}


USER = {"role": "user", "content": "Hi"}


def read(*messages: Any) -> tuple[Message, ...]:
    decoded = OPENAI.parse(list(messages), Options())
    assert not decoded.violations
    return decoded.messages


def lost(*messages: Message) -> list[str]:
    return [f"{one.path}: {one.message}" for one in OPENAI.write(messages, Options()).losses]


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


def test_fields_of_a_provider_on_a_message_and_its_calls_come_back() -> None:
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


def test_a_reasoning_alone_is_written() -> None:
    assert OPENAI.write((Message("assistant", (Reasoning("r"),)),), Options()).messages == [
        {"role": "assistant", "content": "", "reasoning_content": "r"}
    ]
