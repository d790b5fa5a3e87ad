"""What whole messages and odd errors in a stream come to."""

import pytest
from app.chat.events import CallDelta, Event, Extra, Failed, Finish, ReasoningDelta, TextDelta
from app.upstream import chunks
from app.upstream.assembly import Assembler
from app.upstream.sse import EventReader


def events(*lines: bytes) -> list[Event]:
    reader, assembler = EventReader(chunks.decode), Assembler("chat-1")
    found: list[Event] = []
    for line in lines:
        found += assembler.feed(reader.feed(b"data: " + line + b"\n\n"))
    return found + assembler.close()


CALL = b'{"id":"a","function":{"name":"f","arguments":"{}"}}'
SAID = b'{"choices":[{"delta":{"content":"hi"}}]}'


def test_a_closing_message_tells_only_what_the_deltas_did_not() -> None:
    closing = b'{"choices":[{"message":{"content":"hi","tool_calls":[' + CALL + b']},"finish_reason":"stop"}]}'
    told = events(SAID, closing, b"[DONE]")
    assert told == [TextDelta("hi"), CallDelta(0, "{}", "a", "f"), Finish("tool_calls")]


def test_a_call_without_arguments_is_not_told_twice() -> None:
    call = b'{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"a","function":{"name":"f"}}]}}]}'
    closing = b'{"choices":[{"message":{"tool_calls":[' + CALL + b']},"finish_reason":"tool_calls"}]}'
    told = events(call, closing, b"[DONE]")
    assert told == [CallDelta(0, "{}", "a", "f"), Finish("tool_calls")]


@pytest.mark.parametrize("blank", ['"content":"\\n"', '"content":" ","reasoning_content":"\\n"', '"refusal":" "'])
def test_blank_text_between_the_pieces_of_a_name_ends_no_name(blank: str) -> None:
    pieces = [
        b'"tool_calls":[{"index":0,"id":"a","function":{"name":"get_"}}]',
        blank.encode(),
        b'"tool_calls":[{"index":0,"function":{"name":"weather"}}]',
        b'"tool_calls":[{"index":0,"function":{"arguments":"{}"}}]',
    ]
    told = events(*(b'{"choices":[{"delta":{%b}}]}' % piece for piece in pieces), b"[DONE]")
    assert [event for event in told if isinstance(event, CallDelta)] == [CallDelta(0, "{}", "a", "get_weather")]


def test_text_ends_a_name() -> None:
    call = b'{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"a","function":{"name":"f"}}]}}]}'
    told = events(call, SAID, b"[DONE]")
    assert told[:2] == [CallDelta(0, "", "a", "f"), TextDelta("hi")]


def test_what_belongs_to_a_thought_follows_its_text() -> None:
    details = b'[{"type":"reasoning.text","text":"hm","signature":"s"}]'
    told = events(SAID, b'{"choices":[{"delta":{"reasoning_details":' + details + b"}}]}", b"[DONE]")
    assert told[1:3] == [
        ReasoningDelta("hm"),
        Extra({"reasoning_details": [{"type": "reasoning.text", "signature": "s"}]}),
    ]


def test_an_error_of_another_shape_before_the_end_is_no_empty_success() -> None:
    [failed] = events(b'{"message":"model is overloaded","code":503}', b"[DONE]")
    assert isinstance(failed, Failed)
    assert failed.fault.code == "overloaded"
