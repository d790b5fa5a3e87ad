"""Streams that leave out, cut or mix what others send."""

import json
from typing import Any

from app.chat.accumulator import MessageAccumulator
from app.chat.events import Event, Extra, Failed, Finish, Passed
from app.upstream.reply.tool_calls import MAX_CALLS
from app.upstream.responses.api import make_passing_reader

from tests.each_case import each_case
from tests.upstream.responses.reader import Json, read_events, write_stream

COMPLETED: Json = {"type": "response.completed", "response": {"status": "completed", "output": []}}
CALL: Json = {"type": "function_call", "call_id": "c", "name": "f"}
REPLY: Json = {"object": "response", "status": "completed", "output": []}


def added(index: int | None, **item: Any) -> Json:
    return {"type": "response.output_item.added", "output_index": index, "item": item}


def done(index: int | None, **item: Any) -> Json:
    return {"type": "response.output_item.done", "output_index": index, "item": item}


def delta(name: str, said: Any, index: int | None = 0, **fields: Any) -> Json:
    return {"type": f"response.{name}.delta", "delta": said, "output_index": index, **fields}


def summarize(events: list[Event]) -> tuple[list[tuple[str, str]], str]:
    """Return the messages by their kind and text, and the end: a finish reason or the code of a fault."""
    accumulator = MessageAccumulator()
    accumulator.feed(events)
    end = events[-1]
    assert isinstance(end, Finish | Failed)
    told: list[tuple[str, str]] = [(one.kind, one.text) for one in accumulator.messages]
    return told, end.fault.code if isinstance(end, Failed) else end.reason


HALF = [delta("output_text", "a\ud83d")]


@each_case(
    ("events", "told", "end"),
    [
        ([*HALF, COMPLETED], [("content", "a\ufffd")], "stop"),
        ([*HALF, delta("output_text", "\ude00"), COMPLETED], [("content", "a😀")], "stop"),
        ([*HALF, {"type": "error", "message": "no", "code": "server_error"}], [("content", "a\ufffd")], "server_error"),
        ([delta("refusal", "no"), delta("output_text", "a"), COMPLETED], [("content", "no"), ("content", "a")], "stop"),
        (
            [delta("reasoning_text", "a"), delta("reasoning_text", "b"), COMPLETED],
            [("reasoning_content", "ab")],
            "stop",
        ),
        (
            [delta("reasoning_text", "a"), {"type": "response.reasoning_text.done", "output_index": 0, "text": "ab"}]
            + [COMPLETED],
            [("reasoning_content", "ab")],
            "stop",
        ),
        (
            [added(0, **CALL), delta("function_call_arguments", '{"a"'), delta("function_call_arguments", ": 1}")]
            + [
                {"type": "response.function_call_arguments.done", "output_index": 0, "arguments": '{"a": 1}'},
                COMPLETED,
            ],
            [("function_call", '{"a": 1}')],
            "tool_calls",
        ),
        (
            [added(0, **CALL), {"type": "response.function_call_arguments.done", "output_index": 0}, COMPLETED],
            [("function_call", "{}")],
            "tool_calls",
        ),
        (
            [delta("function_call_arguments", '{"a": 1}'), done(0, **CALL, arguments='{"a": 1}'), COMPLETED],
            [("function_call", '{"a": 1}')],
            "tool_calls",
        ),
        (
            [added(0, **CALL), delta("output_text", "b", 1), delta("output_text", " ", 2), COMPLETED],
            [("function_call", "{}"), ("content", "b ")],
            "tool_calls",
        ),
        ([added(0, type="message"), done(0, type="message"), done(0, type="message"), COMPLETED], [], "stop"),
        ([delta("output_text", "a", None), delta("output_text", "b", None), COMPLETED], [("content", "ab")], "stop"),
        ([{"type": "response.output_text.annotation.added", "output_index": 5}, COMPLETED], [], "stop"),
        ([delta("output_text", "a"), {"type": "response.failed", "response": {}}], [("content", "a")], "server_error"),
        ([delta("output_text", "a"), {"type": "response.completed"}], [("content", "a")], "stop"),
        ([{"type": "other.event"}, delta("output_text", "a"), COMPLETED], [("content", "a")], "stop"),
        (
            [
                delta("output_text", "a"),
                {"type": "response.completed", "response": {"output": ["odd", {"type": "message"}]}},
            ],
            [("content", "a")],
            "stop",
        ),
    ],
)
def test_what_a_stream_says_is_told(events: list[Json], told: list[tuple[str, str]], end: str) -> None:
    data = b"".join(b"data: %b\n\n" % json.dumps(event).encode() for event in events)
    assert summarize(read_events([data])) == (told, end)


@each_case(
    ("data", "code"),
    [
        (b"data: [DONE]\n\n", "upstream_incomplete"),
        (b"data: {\n\n", "upstream_protocol"),
        (b"<html>", "upstream_protocol"),
        (b"", "upstream_incomplete"),
        (b"event: error\ndata: out of memory\n\n", "server_error"),
        (b'data: {"message": "Overloaded"}\n\nevent: error\n\n', "overloaded"),
        (b'data: {"detail": "Not Found"}\n\n', "server_error"),
        (b'data: {"x": 1}\n\n', "upstream_incomplete"),
        (b"data: 5\n\n", "upstream_incomplete"),
    ],
)
def test_a_body_that_is_no_reply_is_a_typed_fault(data: bytes, code: str) -> None:
    end = read_events([data])[-1]
    assert isinstance(end, Failed)
    assert end.fault.code == code


def test_more_calls_than_a_reply_may_have_are_a_fault() -> None:
    calls = [added(number, **CALL | {"call_id": f"c{number}"}) for number in range(MAX_CALLS + 2)]
    assert summarize(read_events([write_stream(*calls)]))[1] == "upstream_protocol"
    items = [CALL | {"call_id": f"c{number}", "arguments": "{}"} for number in range(MAX_CALLS + 2)]
    assert summarize(read_events([json.dumps(REPLY | {"output": items}).encode()]))[1] == "upstream_protocol"


def test_usage_of_an_incomplete_reply_and_its_picture_are_told() -> None:
    picture = {"type": "image_generation_call", "id": "i", "result": "aGk="}
    failed = {"type": "response.incomplete", "response": {"usage": {"input_tokens": 3, "output_tokens": 2}}}
    end = read_events([write_stream(done(0, **picture), failed)])
    assert isinstance(end[-1], Finish) and end[-1].usage is not None
    assert end[-1].usage["prompt_tokens"] == 3
    assert sorted(type(event).__name__ for event in end) == ["Extra", "Finish", "MediaOutput"]


def test_an_item_keeps_what_its_end_says_beside_its_text() -> None:
    said = {"type": "message", "id": "m", "phase": "final_answer"}
    content = [{"type": "output_text", "text": "a", "annotations": [{"url": "u"}]}, {"type": "output_text", "text": ""}]
    events = read_events(
        [write_stream(delta("output_text", "a", item_id="m"), done(0, **said, content=content), COMPLETED)]
    )
    extras = [event.fields for event in events if isinstance(event, Extra)]
    assert {"extra_content": {"openai": {"phase": "final_answer"}}} in extras
    assert {"annotations": [{"url": "u"}]} in extras


def test_a_tool_that_failed_at_the_server_is_no_failure_of_the_reply_that_passes() -> None:
    failed = {"type": "response.mcp_call.failed", "output_index": 0}
    reader, assembler = make_passing_reader("r")
    events = [delta("output_text", "a", 1), failed, COMPLETED, delta("output_text", "late", 1)]
    out = assembler.feed(reader.feed(write_stream(*events)))
    assert [event.name for event in out if isinstance(event, Passed)] == [event["type"] for event in events[:3]]
    reader, assembler = make_passing_reader("r")
    (end,) = assembler.feed(reader.feed(b"event: error\ndata: out of memory\n\n"))
    assert isinstance(end, Failed)


def test_a_passed_event_is_one_line_and_one_with_an_odd_name_is_left_out() -> None:
    reader, assembler = make_passing_reader("r")
    odd = b'data: {"type": "a\\nb"}\n\n'
    begun = b'data: {"type": "response.output_text.delta",\ndata: "delta": "a", "output_index": 0}\n\n'
    out = assembler.feed(reader.feed(odd + begun))
    assert [event.data for event in out if isinstance(event, Passed)] == [
        '{"type": "response.output_text.delta", "delta": "a", "output_index": 0}'
    ]
