"""What whole messages and odd errors in a stream come to."""

import json
from typing import Any

import pytest
from app.chat.events import Event, Extra, Failed, Finish, ReasoningDelta, TextDelta, ToolCallDelta
from app.upstream.chat_completions import chunk_decoder
from app.upstream.chat_completions.assembler import Assembler
from app.upstream.reply.chunk import ChunkText, FunctionFragment, ToolCallFragment
from app.upstream.reply.sse import EventReader
from app.upstream.reply.tool_calls import MAX_CALLS

from tests.each_case import each_case
from tests.upstream.reply.assembled_events import events

CALL = b'{"id":"a","function":{"name":"f","arguments":"{}"}}'
CHUNK = b'{"choices":[{"delta":{"content":"hi"}}]}'
STOP = b'{"choices":[{"delta":{},"finish_reason":"stop"}]}'


def test_a_closing_message_adds_only_what_the_deltas_lacked() -> None:
    closing = b'{"choices":[{"message":{"content":"hi","tool_calls":[' + CALL + b']},"finish_reason":"stop"}]}'
    read = events(CHUNK, closing, b"[DONE]")
    assert read == [TextDelta("hi"), ToolCallDelta(0, "{}", "a", "f"), Finish("tool_calls")]


def test_a_call_without_arguments_is_announced_once() -> None:
    call = b'{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"a","function":{"name":"f"}}]}}]}'
    closing = b'{"choices":[{"message":{"tool_calls":[' + CALL + b']},"finish_reason":"tool_calls"}]}'
    read = events(call, closing, b"[DONE]")
    assert read == [ToolCallDelta(0, "{}", "a", "f"), Finish("tool_calls")]


@pytest.mark.parametrize("blank", ['"content":"\\n"', '"content":" ","reasoning_content":"\\n"', '"refusal":" "'])
def test_blank_text_between_the_pieces_of_a_name_ends_no_name(blank: str) -> None:
    pieces = [
        b'"tool_calls":[{"index":0,"id":"a","function":{"name":"get_"}}]',
        blank.encode(),
        b'"tool_calls":[{"index":0,"function":{"name":"weather"}}]',
        b'"tool_calls":[{"index":0,"function":{"arguments":"[1]"}}]',
    ]
    read = events(*(b'{"choices":[{"delta":{%b}}]}' % piece for piece in pieces), b"[DONE]")
    assert [event for event in read if isinstance(event, ToolCallDelta)] == [
        ToolCallDelta(0, "[1]", "a", "get_weather")
    ]


def test_text_ends_a_name() -> None:
    call = b'{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"a","function":{"name":"f"}}]}}]}'
    read = events(call, CHUNK, b"[DONE]")
    assert read[:2] == [ToolCallDelta(0, "", "a", "f"), TextDelta("hi")]


def test_what_belongs_to_a_thought_follows_its_text() -> None:
    details = b'[{"type":"reasoning.text","text":"hm","signature":"s"}]'
    read = events(CHUNK, b'{"choices":[{"delta":{"reasoning_details":' + details + b"}}]}", b"[DONE]")
    assert read[1:3] == [
        ReasoningDelta("hm"),
        Extra({"reasoning_details": [{"type": "reasoning.text", "text": "hm", "signature": "s"}]}),
    ]


FIELDS = [
    b'{"content":"%b"}',
    b'{"reasoning":"%b"}',
    b'{"refusal":"%b"}',
    b'{"reasoning_details":[{"type":"reasoning.text","text":"%b"}]}',
    b'{"reasoning_details":[{"type":"reasoning.summary","summary":"%b"}]}',
    b'{"tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":"%b"}}]}',
    b'{"function_call":{"name":"f","arguments":"%b"}}',
]


def texts(events: list[Event]) -> str:
    found = "".join(getattr(event, "text", "") or getattr(event, "arguments", "") for event in events)
    assert found.encode()
    return found


@each_case("field", FIELDS)
@each_case("end", [b"[DONE]", b'{"error":{"message":"no"}}'], ids=["good end", "bad end"])
@each_case(
    ("pieces", "text"),
    [
        ([b"a\\ud83d", b"\\ude00b"], "a\U0001f600b"),
        ([b"a\\ud83d"], "a\ufffd"),
        ([b"a\\ud83d", b"b"], "a\ufffdb"),
        ([b"a", b"\\ude00b"], "a\ufffdb"),
    ],
    ids=["pair", "first half at the end", "first half", "second half"],
)
def test_half_a_surrogate_pair_becomes_a_replacement_character(
    field: bytes, end: bytes, pieces: list[bytes], text: str
) -> None:
    assert texts(events(*(b'{"choices":[{"delta":%b}]}' % (field % piece) for piece in pieces), end)) == text


def test_half_a_surrogate_pair_at_the_end_of_a_whole_message_is_replaced_once() -> None:
    delta = b'{"choices":[{"delta":{"content":"a\\ud83d"}}]}'
    closing = b'{"choices":[{"message":{"content":"a\\ud83d"},"finish_reason":"stop"}]}'
    assert texts(events(delta, closing, b"[DONE]")) == "a\ufffd"
    assert texts(events(closing, b"[DONE]")) == "a\ufffd"


def test_a_script_in_a_web_page_begins_no_json() -> None:
    page = b'<html>\n<script>\nlet a =\n{\n  "error": {"message": "no"}\n}\n[{"error": "no"}]\n</script></html>\n'
    reader, assembler = EventReader(chunk_decoder.decode), Assembler("chat-1")
    read = assembler.feed(reader.feed(page)) + assembler.feed(reader.close(clean=True))
    [failed] = read + assembler.close(reader.junk)
    assert isinstance(failed, Failed)
    assert "a web page" in failed.fault.message


ROLE = b'{"choices":[{"delta":{"role":"assistant","content":""}}]}'
CALL_BEGUN = b'{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":"{"}}]}}]}'
FAILURES = [
    {"detail": "engine lost"},
    {"detail": [{"loc": ["body"], "msg": "engine lost", "type": "value_error"}]},
    {"code": 500, "msg": "engine lost"},
    {"code": "1113", "msg": "engine lost", "success": False},
    {"code": "InternalError", "message": "engine lost", "request_id": "q"},
    {"status": "error", "message": "engine lost"},
    {"status": "FAILED", "message": "engine lost"},
    {"status": 500, "message": "engine lost"},
    {"statusCode": 503, "message": "engine lost"},
    {"success": False, "message": "engine lost"},
    {"type": "error", "message": "engine lost"},
    {"object": "chat.completion.chunk", "type": "InternalServerError", "message": "engine lost"},
    {"object": "error", "message": "engine lost", "code": 500},
    {"error": "engine lost"},
    {"error": {"message": "engine lost"}, "choices": []},
    {"choices": [], "code": 500, "message": "engine lost"},
    {"base_resp": {"status_code": 1000, "status_msg": "engine lost"}},
]
QUIET = [
    {},
    {"type": "ping"},
    {"status": "processing"},
    {"object": "chat.completion.chunk", "choices": [], "prompt_filter_results": [{"prompt_index": 0}]},
    {"id": "q", "object": "chat.completion.chunk", "created": 1, "model": "m"},
    {"choices": None, "usage": None},
    {"error": None, "choices": []},
    {"base_resp": {"status_code": 0, "status_msg": "success"}},
]
FOREIGN = [
    {"candidates": [{"content": {"parts": [{"text": "Hello"}]}, "finishReason": "STOP"}]},
    {"output": {"text": "Hello", "finish_reason": "stop"}, "usage": {"input_tokens": 3}, "request_id": "q"},
    {"response": "Hel", "p": "ab"},
    {"model": "m", "message": {"role": "assistant", "content": "Hello"}, "done": False},
    {"type": "content_block_delta", "delta": {"type": "text_delta", "text": "Hello"}},
    {"code": 0, "message": "success", "data": {"text": "Hello"}},
]


def line(value: object) -> bytes:
    return json.dumps(value).encode()


@each_case("value", FAILURES)
@each_case("before", [(), (ROLE,), (CHUNK,), (CALL_BEGUN,)], ids=["first", "after a role", "after a text", "in a call"])
@each_case("end", [b"[DONE]", b""], ids=["done", "no end"])
def test_an_object_that_says_that_something_failed_fails_the_reply(
    value: dict[str, Any], before: tuple[bytes, ...], end: bytes
) -> None:
    failed = events(*before, line(value), CHUNK, end)[-1]
    assert isinstance(failed, Failed)
    assert "engine lost" in failed.fault.message


@each_case("value", FAILURES)
def test_a_failure_after_the_finish_reason_is_a_warning_and_the_reply_is_not_cached(value: dict[str, Any]) -> None:
    last = events(CHUNK, STOP, line(value), b"[DONE]")[-1]
    assert isinstance(last, Finish)
    assert (last.cacheable, ["engine lost" in text for text in last.warnings]) == (False, [True])


@each_case("value", QUIET)
def test_a_keep_alive_changes_nothing(value: dict[str, Any]) -> None:
    assert events(line(value), CHUNK, line(value), STOP, line(value), b"[DONE]") == [TextDelta("hi"), Finish("stop")]


@each_case("value", FOREIGN)
def test_an_object_that_says_nothing_known_is_a_warning_and_the_reply_is_not_cached(value: dict[str, Any]) -> None:
    text, last = events(CHUNK, line(value), line({"x": 1}), STOP, b"[DONE]")
    assert text == TextDelta("hi") and isinstance(last, Finish)
    assert (last.reason, last.cacheable) == ("stop", False)
    assert [repr(list(value)[0]) in warning for warning in last.warnings] == [True]
    last = events(line(value), CHUNK, STOP, line(value), b"[DONE]")[-1]
    assert isinstance(last, Finish)
    assert (last.reason, last.cacheable, last.warnings) == ("stop", True, ())


@each_case("value", [None, *QUIET, *FOREIGN])
@each_case("role", [(), (ROLE,)], ids=["", "role"])
@each_case("end", [b"[DONE]", b""], ids=["done", "no end"])
def test_a_reply_without_a_part_and_without_a_finish_reason_is_incomplete(
    value: dict[str, Any] | None, role: tuple[bytes, ...], end: bytes
) -> None:
    objects = () if value is None else (line(value),)
    [failed] = events(*role, *objects, end)
    assert isinstance(failed, Failed)
    assert (failed.fault.code, failed.fault.transient) == ("upstream_incomplete", True)
    if value is not None and value in FOREIGN:
        assert repr(list(value)[0]) in failed.fault.message and "base_url" in failed.fault.message


def test_the_words_of_an_object_that_came_instead_of_a_reply_are_its_error() -> None:
    for end in (b"[DONE]", b""):
        [failed] = events(b'{"message":"model is overloaded"}', end)
        assert isinstance(failed, Failed)
        assert (failed.fault.code, failed.fault.message) == ("overloaded", "model is overloaded")


@each_case("body", [b'{"choices":[]}', b'{"choices":[{}]}', b'{"choices":[{"message":{"content":null}}]}', b"{}"])
def test_a_whole_body_without_a_usable_choice_is_incomplete(body: bytes) -> None:
    [failed] = events(body)
    assert isinstance(failed, Failed)
    assert failed.fault.code == "upstream_incomplete"


@each_case("reason", [b"", b',"finish_reason":null', b',"finish_reason":"error"'])
def test_an_error_in_a_choice_fails_the_reply_with_and_without_a_finish_reason(reason: bytes) -> None:
    choice = b'{"choices":[{"delta":{},"error":{"code":429,"message":"slow down"}%b}]}' % reason
    [text, failed] = events(b'{"choices":[{"delta":{"content":"a"}}]}', choice, b"[DONE]")
    assert text == TextDelta("a")
    assert isinstance(failed, Failed)
    assert "slow down" in failed.fault.message


HALF = b'{"choices":[{"delta":{"content":"a\\ud83d"}}]}'
NAMED = b'{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"c","function":{"name":"f","arguments":""}}]}}]}'
PIECE = ToolCallFragment(0, function=FunctionFragment(arguments='{"a":'))


@each_case(
    ("before", "text", "emitted"),
    [
        (HALF, TextDelta("b"), [TextDelta("a"), TextDelta("\ufffdb")]),
        (HALF, ReasoningDelta("b"), [TextDelta("a"), ReasoningDelta("b")]),
        (HALF, PIECE, [TextDelta("a")]),
        (NAMED, PIECE, [ToolCallDelta(0, '{"a":', "c", "f")]),
    ],
)
def test_a_text_of_a_recognised_chunk_is_as_good_as_the_chunk(
    before: bytes, text: ChunkText, emitted: list[Event]
) -> None:
    """Also where more than adding it is to be done."""
    assembler = Assembler("chat-1")
    found = assembler.feed([chunk_decoder.decode(before), None, text])
    assert [event for event in found if not isinstance(event, ToolCallDelta) or event.index == 0] == emitted


def test_more_calls_than_any_reply_has_are_a_fault() -> None:
    fragments = [{"index": index, "id": f"c{index}", "function": {"name": "f"}} for index in range(MAX_CALLS + 2)]
    (failed,) = [
        event
        for event in events(json.dumps({"choices": [{"delta": {"tool_calls": fragments}}]}).encode())
        if isinstance(event, Failed)
    ]
    assert (failed.fault.code, failed.fault.cause) == ("upstream_protocol", "reply_too_large")


def test_after_a_finish_reason_only_usage_can_follow() -> None:
    assembler = Assembler("chat-1")
    assembler.feed([TextDelta("a")])
    assert not assembler.finishing
    assembler.feed([chunk_decoder.decode(b'{"choices":[{"delta":{},"finish_reason":"stop"}]}')])
    assert assembler.finishing


@each_case("done", [[b"[DONE]"], []], ids=["with an end", "without one"])
def test_a_body_that_is_only_an_error_of_another_shape_is_that_error(done: list[bytes]) -> None:
    (failed,) = events(b'{"message": "no such model", "code": 404}', *done)
    assert isinstance(failed, Failed)
    assert "no such model" in failed.fault.message


@each_case(
    ("delta", "event"),
    [
        ({"content": [5, {"text": 1.5}, None, {"text": ["a", {"content": "b"}]}]}, TextDelta('5{"text": 1.5}ab')),
        ({"reasoning_details": ["no object"], "content": 5}, TextDelta("5")),
        ({"tool_calls": [{"index": 0, "id": 7, "function": {"name": "f"}}]}, ToolCallDelta(0, "{}", "7", "f")),
    ],
)
def test_values_of_unusual_types_are_read_without_a_loss(delta: dict[str, Any], event: Event) -> None:
    assert event in events(json.dumps({"choices": [{"delta": delta}]}).encode(), b"[DONE]")


def test_half_a_surrogate_pair_beside_a_call_without_arguments_is_replaced() -> None:
    delta = (
        b'{"choices":[{"delta":{"content":"a\\ud83d","tool_calls":[{"index":0,"id":"c","function":{"name":"f"}}]}}]}'
    )
    assert texts([event for event in events(delta, b"[DONE]") if isinstance(event, TextDelta)]) == "a\ufffd"


def test_sources_of_a_reply_may_hold_half_a_surrogate_pair() -> None:
    chunk = b'{"choices":[{"delta":{"content":"a"}}],"citations":["https://e.com/\\ud83d"]}'
    assert any("https://e.com/\ufffd" in repr(event) for event in events(chunk, b"[DONE]"))


def test_a_reply_with_a_call_without_a_name_has_a_warning_and_is_not_cached() -> None:
    call = b'{"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"arguments":"{}"}}]}}]}'
    text, finish = events(call, STOP)
    assert text == TextDelta("{}")
    assert isinstance(finish, Finish)
    assert finish.warnings == ("a tool call of the model server's reply has no name: its arguments became text",)
    assert not finish.cacheable


def test_a_transcript_that_was_held_back_comes_before_the_failure() -> None:
    audio = b'{"choices":[{"delta":{"audio":{"transcript":"there"}}}]}'
    found = events(CHUNK, audio, b'{"error":{"message":"no"}}')
    assert found[:-1] == [TextDelta("hi"), TextDelta("there")]
    assert isinstance(found[-1], Failed)


def test_a_body_that_is_only_a_message_fails_with_that_message() -> None:
    (failed,) = events(b'{"message":"Welcome to the model server"}')
    assert isinstance(failed, Failed)
    assert "Welcome to the model server" in failed.fault.message
    assert "base_url" not in failed.fault.message


LATE = b'{"choices":[{"delta":{"content":"no"}}],"error":{"message":"Provider returned error","code":502}}'
USAGE = b'{"choices":[{"delta":{"content":"no"}}],"usage":{"prompt_tokens":1,"completion_tokens":2,"total_tokens":3}}'


@each_case("after", [[USAGE, b"[DONE]"], [USAGE], [USAGE, USAGE, b"[DONE]", CHUNK]])
def test_behind_a_late_error_only_usage_is_read(after: list[bytes]) -> None:
    read = events(CHUNK, STOP, LATE, *after)
    (text, finish) = read
    assert text == TextDelta("hi")
    assert isinstance(finish, Finish)
    assert finish.usage == {"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3}
    assert "Provider returned error" in finish.warnings[0]
    assert not finish.cacheable


def test_behind_a_late_error_the_next_read_has_no_text() -> None:
    assembler = Assembler("chat-1")
    reader = EventReader(chunk_decoder.decode)
    read = [
        assembler.feed(reader.feed(b"data: %b\n\n" % one))
        for one in (CHUNK, STOP, LATE, CHUNK, USAGE, b"[DONE]", CHUNK)
    ]
    assert [len(one) for one in read] == [1, 0, 0, 0, 0, 1, 0]


def test_a_few_words_in_place_of_a_chunk_are_a_warning() -> None:
    (_, finish) = events(CHUNK, b"keep-alive", STOP, b"[DONE]")
    assert isinstance(finish, Finish)
    assert "'keep-alive'" in finish.warnings[0]
    assert not finish.cacheable
    assert isinstance(events(CHUNK, b"internal error", STOP)[-1], Failed)


def test_a_field_that_only_the_server_can_read_is_kept_once() -> None:
    delta = b'{"choices":[{"delta":{"reasoning_text":"Hm","reasoning_opaque":"x","cot_id":"y"}}]}'
    closing = b'{"choices":[{"message":{"content":"hi","reasoning_opaque":"x"},"finish_reason":"stop"}]}'
    read = events(delta, CHUNK, closing, b"[DONE]")
    kept = [event for event in read if isinstance(event, Extra)]
    assert [(one["name"], one["value"]) for one in kept[0].fields["reasoning_details"]] == [
        ("reasoning_opaque", "x"),
        ("cot_id", "y"),
    ]
    assert len(kept) == 1


def _block(text: str, signature: str | None = None, **fields: object) -> bytes:
    blocks = [{"type": "thinking", "thinking": text, "signature": signature}]
    return line({"choices": [{"delta": {"thinking_blocks": blocks, **fields}}]})


@each_case(
    ("pieces", "want"),
    [
        ([_block("I "), _block("think."), _block("I think.", "s")], "I think."),
        ([_block("I ", reasoning_content="I "), _block("I ", "s", reasoning_content="")], "I "),
        ([_block("I "), _block("", "s"), _block("I "), _block("I ", "t")], "I I "),
        ([_block("I "), _block("think.", "s")], "I think."),
        ([_block("I think.", "s")], "I think."),
        ([_block("I "), _block("I ", "s", reasoning_content="Hm")], "I Hm"),
    ],
    ids=["whole", "beside a field", "two blocks", "the rest", "at once", "other text"],
)
def test_a_signed_block_that_repeats_its_text_says_nothing_new(pieces: list[bytes], want: str) -> None:
    found = events(*pieces, line({"choices": [{"delta": {"content": "Yes"}, "finish_reason": "stop"}]}))
    assert "".join(event.text for event in found if isinstance(event, ReasoningDelta)) == want
