"""What the reader makes of events that are late, missing, repeated or unknown."""

import json
from typing import Any

import pytest
from app.chat.accumulator import MessageAccumulator
from app.chat.events import Event, Extra, Failed, Finish, ReasoningDelta, TextDelta, ToolCallDelta
from app.upstream.messages import FORMAT

from tests.each_case import each_case
from tests.upstream.messages.replies import Json, block, read, start, stop, text, write_stream

CALL = {"type": "tool_use", "id": "c", "name": "f", "input": {}}


def read_all(*events: Json) -> list[Event]:
    return read(write_stream(events))


def get_texts(events: list[Event]) -> str:
    return "".join(event.text for event in events if isinstance(event, TextDelta))


def finish_of(events: list[Event]) -> Finish:
    assert isinstance(events[-1], Finish), events[-1]
    return events[-1]


def fault_of(events: list[Event]) -> str:
    assert isinstance(events[-1], Failed), events[-1]
    return events[-1].fault.code


def test_blocks_may_overlap_and_are_told_by_their_index() -> None:
    delta: Json = {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "b"}}
    events = read_all(start(), *text(0, "a")[:-1], *block(1, CALL)[:-1], delta, *stop("tool_use"))
    assert get_texts(events) == "ab"
    assert finish_of(events).reason == "tool_calls"


def test_input_in_the_start_is_the_arguments_if_no_delta_came() -> None:
    events = read_all(start(), *block(0, {**CALL, "input": {"a": 1}}), *stop("tool_use"))
    calls = [event for event in events if isinstance(event, ToolCallDelta)]
    assert json.loads("".join(call.arguments for call in calls)) == {"a": 1}


def test_a_second_call_with_the_same_id_is_a_call_of_its_own() -> None:
    delta = {"type": "input_json_delta", "partial_json": "{}"}
    events = read_all(start(), *block(0, CALL, delta), *block(1, CALL, delta), *stop("tool_use"))
    accumulator = MessageAccumulator()
    accumulator.feed(events)
    assert [(one.kind, one.name, one.text) for one in accumulator.messages] == [("function_call", "f", "{}")] * 2
    assert [one.id == "c" for one in accumulator.messages] == [True, False]


def test_a_caller_that_is_not_the_model_comes_back_with_the_call() -> None:
    caller = {"type": "code_execution_20250825", "tool_id": "s"}
    accumulator = MessageAccumulator()
    accumulator.feed(read_all(start(), *block(0, {**CALL, "caller": caller}), *stop("tool_use")))
    assert accumulator.messages[0].extra["extra_content"] == {"anthropic": {"caller": caller}}
    accumulator = MessageAccumulator()
    accumulator.feed(read_all(start(), *block(0, {**CALL, "caller": {"type": "direct"}}), *stop("tool_use")))
    assert "extra_content" not in accumulator.messages[0].extra


@pytest.mark.parametrize("extra", [{"type": "ping"}, {"type": "future", "error": None}])
def test_pings_and_unknown_events_are_skipped(extra: Json) -> None:
    assert get_texts(read_all(start(), extra, *text(0, "a"), extra, *stop())) == "a"


def test_done_marks_and_comments_are_skipped() -> None:
    data = write_stream([start(), *text(0, "a")]) + b": comment\n\ndata: [DONE]\n\n" + write_stream(stop())
    assert get_texts(read(data)) == "a"
    assert finish_of(read(data)).reason == "stop"


def test_the_same_start_again_is_ignored_and_another_one_is_a_fault() -> None:
    assert get_texts(read_all(start("m"), *text(0, "a"), start("m"), *stop())) == "a"
    assert fault_of(read_all(start("m"), *text(0, "a"), start("n"), *stop())) == "upstream_protocol"


def test_the_start_of_a_block_that_comes_twice_is_one_but_not_that_of_a_call_without_an_id() -> None:
    call, summary = block(0, CALL), block(1, {"type": "compaction", "content": None})
    events = read_all(start(), call[0], *call, summary[0], *summary, *stop("tool_use"))
    assert [event.id for event in events if isinstance(event, ToolCallDelta) and event.name] == ["c"]
    assert [event.fields for event in events if isinstance(event, Extra)] == [
        {"reasoning_details": [{"type": "provider.item", "item": summary[0]["content_block"], "format": FORMAT}]}
    ]
    without_id = block(0, {"type": "tool_use", "name": "f", "input": {}}, end=False)
    twice = read_all(start(), *without_id, *without_id, *stop("tool_use"))
    assert [event.name for event in twice if isinstance(event, ToolCallDelta) and event.name] == ["f", "f"]


@pytest.mark.parametrize(
    ("word", "reason"),
    [
        *(("end_turn", "stop"), ("stop_sequence", "stop"), ("pause_turn", "stop"), ("compaction", "stop")),
        *(("max_tokens", "length"), ("model_context_window_exceeded", "length"), ("refusal", "content_filter")),
        *(("tool_use", "stop"), ("never_heard_of", "stop")),
    ],
)
def test_stop_reasons_have_their_meaning(word: str, reason: str) -> None:
    finish = finish_of(read_all(start(), *text(0, "a"), *stop(word)))
    assert (finish.reason, finish.native_reason) == (reason, word)
    assert finish.cacheable is (word != "never_heard_of")
    assert bool(finish.warnings) is (word in ("never_heard_of", "pause_turn"))


def test_the_stop_word_is_told() -> None:
    assert finish_of(read_all(start(), *text(0, "a"), *stop("stop_sequence", stop_sequence="END"))).stopped_by == "END"


def test_the_first_stop_reason_counts() -> None:
    assert finish_of(read_all(start(), *text(0, "a"), stop("max_tokens")[0], *stop("end_turn"))).reason == "length"


def test_a_message_stop_after_a_block_ends_a_reply_without_a_reason() -> None:
    assert finish_of(read_all(start(), *text(0, "a"), {"type": "message_stop"})).reason == "stop"
    assert fault_of(read_all(start(), {"type": "message_stop"})) == "upstream_incomplete"


def test_a_reply_without_an_end_is_incomplete_and_its_open_thought_has_no_signature() -> None:
    signed = {"type": "signature_delta", "signature": "half"}
    events = read_all(start(), *block(0, {"type": "thinking", "thinking": "t"}, signed, end=False))
    assert [type(event) for event in events] == [ReasoningDelta, Failed]
    assert fault_of(events) == "upstream_incomplete"


ERRORS = [
    ("overloaded_error", "overloaded"),
    ("rate_limit_error", "rate_limit"),
    ("api_error", "server_error"),
    ("authentication_error", "authentication"),
    ("billing_error", "insufficient_quota"),
    ("permission_error", "permission"),
    ("not_found_error", "not_found"),
    ("timeout_error", "timeout"),
    ("request_too_large", "invalid_request"),
    ("invalid_request_error", "invalid_request"),
]


@pytest.mark.parametrize(("type_", "code"), ERRORS)
def test_an_error_within_the_stream_is_a_fault_of_its_kind(type_: str, code: str) -> None:
    error = {"type": "error", "error": {"type": type_, "message": "No."}}
    assert fault_of(read_all(start(), *text(0, "a"), error)) == code
    assert fault_of(read(b"data: " + json.dumps(error).encode() + b"\n\n")) == code


@pytest.mark.parametrize(
    ("message", "code"),
    [
        ("prompt is too long: 9 tokens > 8 maximum", "context_length_exceeded"),
        ("Your credit balance is too low", "insufficient_quota"),
        ("Output blocked by content filtering policy", "content_filter"),
    ],
)
def test_the_words_of_an_error_go_before_its_type(message: str, code: str) -> None:
    error = {"type": "error", "error": {"type": "invalid_request_error", "message": message}}
    assert fault_of(read_all(start(), error)) == code


def test_an_error_behind_the_stop_reason_is_a_warning() -> None:
    error = {"type": "error", "error": {"type": "api_error", "message": "late"}}
    finish = finish_of(read_all(start(), *text(0, "a"), stop()[0], error))
    assert "late" in finish.warnings[0] and not finish.cacheable


def test_a_number_of_the_end_replaces_that_of_the_start_also_by_zero() -> None:
    delta = {**stop()[0], "usage": {"input_tokens": 0, "cache_read_input_tokens": 9, "output_tokens": 4, "x": None}}
    usage = finish_of(read_all(start(cache_read_input_tokens=1), *text(0, "a"), delta)).usage
    assert usage is not None
    assert (usage["prompt_tokens"], usage["completion_tokens"], usage["cached_tokens"]) == (9, 4, 9)


def test_what_the_server_changed_in_the_conversation_is_a_warning() -> None:
    delta = {**stop()[0], "input_transformations": [{"type": "thinking_block_dropped"}]}
    assert "thinking_block_dropped" in finish_of(read_all(start(), *text(0, "a"), delta)).warnings[0]


def test_half_a_character_waits_for_its_other_half() -> None:
    pieces = ['"\\ud83c"', '"\\udf0d!"']
    deltas = [
        b'data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":%b}}\n\n' % piece.encode()
        for piece in pieces
    ]
    data = write_stream([start(), *text(0)[:1]]) + b"".join(deltas) + write_stream(stop())
    assert get_texts(read(data)) == "\U0001f30d!"


@each_case(
    "pieces, arguments",
    [
        (['{"a": "\ud83c', '\udf0d"}'], '{"a": "\U0001f30d"}'),
        (['{"a": "\ud83c', '"}'], '{"a": "\ufffd"}'),
        (['{"a": "', "\ud83c"], '{"a": "\ufffd'),
        (["\ud83c"], "\ufffd"),
    ],
)
def test_half_a_character_in_the_input_of_a_call_is_joined_or_replaced(pieces: list[str], arguments: str) -> None:
    deltas = ({"type": "input_json_delta", "partial_json": piece} for piece in pieces)
    events = read_all(start(), *block(0, {"type": "tool_use", "id": "t", "name": "f", "input": {}}, *deltas), *stop())
    assert "".join(event.arguments for event in events if isinstance(event, ToolCallDelta)) == arguments


def test_half_a_character_in_a_whole_input_or_in_a_block_of_the_server_is_replaced() -> None:
    call = {"type": "tool_use", "id": "t", "name": "f", "input": {"a": "\ud83c"}}
    events = read_all(start(), *block(0, {"type": "compaction", "content": "\ud83c"}), *block(1, call), *stop())
    assert "\\ufffd" in ascii(events)
    assert "\\ud83c" not in ascii(events)


def test_half_a_character_that_a_delta_adds_to_a_block_of_the_server_is_replaced() -> None:
    delta = {"type": "text_delta", "text": "\ud83c"}
    events = read_all(start(), *block(0, {"type": "mystery"}, delta), *stop())
    assert "\\ufffd" in ascii(events)
    assert "\\ud83c" not in ascii(events)


@pytest.mark.parametrize("data", [b"<html><title>Sign in</title></html>", b'{"id": 1, "choices": []}', b""])
def test_what_is_no_reply_is_a_fault(data: bytes) -> None:
    assert fault_of(read(data)).startswith("upstream_")


def test_no_event_makes_a_defect() -> None:
    odd: list[Any] = [None, 5, "x", [], {}, {"type": None}]
    for value in odd:
        for name in ("index", "content_block", "delta", "message", "usage", "error"):
            for kind in ("message_start", "content_block_start", "content_block_delta", "message_delta", "error"):
                assert isinstance(read_all({"type": kind, name: value}, *stop())[-1], Finish | Failed)


def test_a_few_words_in_place_of_an_event_are_a_warning() -> None:
    stream = write_stream([start(), *text(0, "a")]) + b"data: ping\n\n" + write_stream(stop())
    finish = finish_of(read(stream))
    assert "'ping'" in finish.warnings[0] and not finish.cacheable
    assert fault_of(read(stream.replace(b"ping", b"{"))) == "upstream_protocol"
