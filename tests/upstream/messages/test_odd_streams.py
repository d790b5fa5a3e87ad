"""Streams that leave out, cut or mix what others send."""

import json
from typing import Any

from app.chat.accumulator import MessageAccumulator
from app.chat.events import Event, Extra, Failed, Fault, Finish
from app.upstream.messages.api import make_reader
from app.upstream.messages.assembler import MAX_BLOCKS
from app.upstream.reply.tool_calls import MAX_CALLS

from tests.each_case import each_case
from tests.upstream.messages.replies import Json, block, read, start, stop, text, write_stream

USE = {"type": "tool_use", "id": "c", "name": "f", "input": {}}
THOUGHT = {"type": "thinking", "thinking": "", "signature": ""}


def delta(index: int, **fields: Any) -> Json:
    return {"type": "content_block_delta", "index": index, "delta": fields}


def summarize(events: list[Event]) -> tuple[list[tuple[str, str]], str]:
    """Return the messages by their kind and text, and the end: a finish reason or the code of a fault."""
    accumulator = MessageAccumulator()
    accumulator.feed(events)
    end = events[-1]
    assert isinstance(end, Finish | Failed)
    told: list[tuple[str, str]] = [(one.kind, one.text) for one in accumulator.messages]
    return told, end.fault.code if isinstance(end, Failed) else end.reason


@each_case(
    ("events", "told", "end"),
    [
        ([delta(0, type="text_delta", text="a"), *stop()], [("content", "a")], "stop"),
        ([delta(0, type="thinking_delta", thinking="a"), *stop()], [("reasoning_content", "a")], "stop"),
        ([delta(0, type="input_json_delta", partial_json="{}"), *stop()], [], "stop"),
        ([delta(0, type="text_delta", text=5), *stop()], [], "stop"),
        (
            [*text(0, "a")[:-1], delta(0, type="thinking_delta", thinking="b"), *stop()],
            [("content", "a"), ("reasoning_content", "b")],
            "stop",
        ),
        (
            [*block(0, THOUGHT, {"type": "thinking_delta", "thinking": "a"}, end=False)]
            + [delta(0, type="text_delta", text="b"), delta(0, type="text_delta", text="c")]
            + [{"type": "content_block_stop", "index": 0}, *stop()],
            [("reasoning_content", "a"), ("content", "bc")],
            "stop",
        ),
        (
            [*block(0, USE, {"type": "input_json_delta", "partial_json": "{}"}, end=False)]
            + [delta(0, type="text_delta", text="a"), *stop("tool_use")],
            [("function_call", "{}"), ("content", "a")],
            "tool_calls",
        ),
        (
            [
                *block(0, THOUGHT, {"type": "text_delta", "text": ""}, {"type": "thinking_delta", "thinking": "a"}),
                *stop(),
            ],
            [("reasoning_content", "a")],
            "stop",
        ),
        (
            [*block(0, {"type": "compaction"}, {"type": "text_delta", "text": "a"}), *text(1, "b"), *stop()],
            [("content", "b")],
            "stop",
        ),
        (
            [*block(0, USE, {"type": "input_json_delta", "partial_json": 5}), *stop("tool_use")],
            [("function_call", "{}")],
            "tool_calls",
        ),
        (
            [{"type": "content_block_start", "index": 0}, {"type": "content_block_delta", "index": 0}, *stop()],
            [],
            "stop",
        ),
        ([*text(0, "a")[:-1], *text(0, "b"), *stop()], [("content", "ab")], "stop"),
        ([*block(0, THOUGHT | {"thinking": 5}), *text(1, "a"), *stop()], [("content", "a")], "stop"),
        ([*block(0, THOUGHT | {"thinking": "\ud83d"}), *text(1, "a"), *stop()], [("content", "a")], "stop"),
        ([*text(0, "a\ud83d"), *stop()], [("content", "a\ufffd")], "stop"),
        ([*text(0, "\ud83d", "\ude00"), *stop()], [("content", "😀")], "stop"),
        (
            [*block(0, USE | {"name": None}, {"type": "input_json_delta", "partial_json": '{"a"'}), *stop("tool_use")],
            [("content", '{"a"')],
            "stop",
        ),
        (
            [
                *block(0, USE, {"type": "input_json_delta", "partial_json": "{}"}),
                *block(1, THOUGHT, {"type": "thinking_delta", "thinking": "b"}),
                *stop("tool_use"),
            ],
            [("function_call", "{}"), ("reasoning_content", "b")],
            "tool_calls",
        ),
        (
            [*text(0, "a"), {"type": "error", "error": {"type": "overloaded_error", "message": "no"}}],
            [("content", "a")],
            "overloaded",
        ),
        ([*text(0, "a"), *stop("error")], [("content", "a")], "server_error"),
        ([*text(0, "a"), stop()[0], {"type": "error", "error": {"message": "late"}}], [("content", "a")], "stop"),
        ([start(), {"type": "message_delta", "delta": 5}, *text(0, "a"), *stop()], [("content", "a")], "stop"),
    ],
)
def test_what_a_stream_says_is_told(events: list[Json], told: list[tuple[str, str]], end: str) -> None:
    assert summarize(read(write_stream(events))) == (told, end)


def test_events_without_a_type_are_told_by_what_they_have() -> None:
    events = [start(), *text(0, "a"), stop()[0]]
    data = b"".join(
        b"data: %b\n\n" % json.dumps({name: one[name] for name in one if name != "type"}).encode() for one in events
    )
    assert summarize(read(data + b'data: {"x": 1}\n\n')) == ([("content", "a")], "stop")


def test_a_reply_with_too_many_blocks_or_calls_is_a_fault() -> None:
    blocks = [event for number in range(MAX_BLOCKS + 1) for event in text(number)]
    assert summarize(read(write_stream([start(), *blocks])))[1] == "upstream_protocol"
    calls = [event for number in range(MAX_CALLS + 2) for event in block(number, USE | {"id": f"c{number}"})]
    assert summarize(read(write_stream([start(), *calls])))[1] == "upstream_protocol"
    whole = {"type": "message", "content": [USE | {"id": f"c{number}"} for number in range(MAX_CALLS + 2)]}
    assert summarize(read(json.dumps(whole).encode()))[1] == "upstream_protocol"


@each_case("reason", ["error", "end_turn"])
def test_a_whole_reply_ends_by_its_reason_and_odd_blocks_are_skipped(reason: str) -> None:
    whole = {"type": "message", "content": ["odd", {"type": "text", "text": "a"}], "stop_reason": reason}
    expected = "server_error" if reason == "error" else "stop"
    assert summarize(read(json.dumps(whole).encode())) == ([("content", "a")], expected)


def test_citations_come_with_their_text() -> None:
    cited = {"type": "citations_delta", "citation": {"url": "u"}}
    events = read(write_stream([start(), *block(0, {"type": "text", "text": "a"}, cited), *stop()]))
    assert Extra({"annotations": [{"url": "u"}]}) in events


def test_input_of_a_servers_tool_that_is_no_json_stays_a_text() -> None:
    item = {"type": "server_tool_use", "id": "s", "name": "n", "input": {}}
    events = read(
        write_stream(
            [start(), *block(0, item, {"type": "input_json_delta", "partial_json": '{"a'}), *text(1, "b"), *stop()]
        )
    )
    (extra,) = [event for event in events if isinstance(event, Extra)]
    assert extra.fields["reasoning_details"][0]["item"]["input"] == '{"a'


def test_redacted_thinking_between_thoughts_keeps_its_place_and_a_cut_thought_has_no_signature() -> None:
    signed = {"type": "signature_delta", "signature": "s"}
    redacted = block(0, {"type": "redacted_thinking", "data": "r"})
    thought = block(1, THOUGHT, {"type": "thinking_delta", "thinking": "a"}, signed)
    unsigned = block(2, THOUGHT, {"type": "thinking_delta", "thinking": "b"})
    empty = block(3, THOUGHT, signed)
    events = read(write_stream([start(), *redacted, *thought, *unsigned, *redacted, *empty, *text(4, "c"), *stop()]))
    details = [item for event in events if isinstance(event, Extra) for item in event.fields["reasoning_details"]]
    assert [item["type"].rpartition(".")[2] for item in details] == ["encrypted", "text", "encrypted", "text"]


def test_usage_beside_the_message_is_kept() -> None:
    told = {**stop()[0], "provider_metadata": {"cost": 1}}
    end = read(write_stream([start(), *text(0, "a"), told, stop()[1]]))[-1]
    assert isinstance(end, Finish) and end.usage is not None
    assert end.usage["provider_metadata"] == {"cost": 1}


def test_a_reply_is_finishing_once_its_reason_came_and_malformed_data_end_it() -> None:
    reader, assembler = make_reader("r")
    states = []
    for events in ([start(), *text(0, "a")], stop()[:1]):
        assembler.feed(reader.feed(write_stream(events)))
        states.append(assembler.finishing)
    assert states == [False, True]
    (end,) = assembler.feed(reader.feed(b"data: {\n\n"))
    assert isinstance(end, Finish) and not end.cacheable and end.warnings
    assert summarize(read(b"data: {\n\n"))[1] == "upstream_protocol"


def test_a_warning_is_told_once() -> None:
    changed = {**stop()[0], "input_transformations": [{"type": "dropped"}, {"type": "dropped"}, "odd"]}
    end = read(write_stream([start(), *text(0, "a"), changed, stop()[1]]))[-1]
    assert isinstance(end, Finish) and len(end.warnings) == 2


def test_a_delta_of_a_call_that_was_not_opened_is_of_no_call_of_the_client() -> None:
    deltas = [delta(3, type="input_json_delta", partial_json="{}"), {"type": "content_block_stop", "index": 9}]
    assert summarize(read(write_stream([start(), *deltas, *text(0, "a"), *stop()])))[0] == [("content", "a")]


def test_a_body_that_breaks_after_its_reason_is_whole() -> None:
    reader, assembler = make_reader("r")
    assembler.feed(reader.feed(write_stream([start(), *text(0, "a"), *stop()[:1]])))
    *_, end = assembler.close(fault=Fault("upstream_incomplete", "reset", transient=True))
    assert isinstance(end, Finish)
    reader, assembler = make_reader("r")
    assembler.feed(reader.feed(write_stream([start(), *text(0, "a")])))
    *_, broken = assembler.close(fault=Fault("upstream_incomplete", "reset", transient=True))
    assert isinstance(broken, Failed) and broken.fault.message == "reset"


def test_an_error_without_a_type_is_one() -> None:
    assert summarize(read(b'data: {"error": {"message": "no"}}\n\n'))[1] == "server_error"
