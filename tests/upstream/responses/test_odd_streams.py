"""Streams that leave out, cut or mix what others send."""

import json
from typing import Any

from app.chat.accumulator import MessageAccumulator
from app.chat.events import Event, Extra, Failed, Fault, Finish, Passed, ToolCallDelta
from app.upstream.reply.tool_calls import MAX_CALLS
from app.upstream.responses.api import make_passing_reader
from app.upstream.responses.decoder import decode_kept

from tests.each_case import each_case
from tests.upstream.responses.reader import Json, get_end, read_events, write_stream

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
    begun = added(1, type="message", id="m", content=[])
    ended = {**begun, "type": "response.output_item.done", "item": {**begun["item"], "content": "a"}}
    events = [begun, delta("output_text", "a", 1), failed, ended, COMPLETED, delta("output_text", "late", 1)]
    out = assembler.feed(reader.feed(write_stream(*events)))
    assert [event.name for event in out if isinstance(event, Passed)] == [event["type"] for event in events[:5]]
    reader, assembler = make_passing_reader("r")
    (end,) = assembler.feed(reader.feed(b"event: error\ndata: out of memory\n\n"))
    assert isinstance(end, Failed)


def test_a_passed_event_is_one_line_and_one_with_an_odd_name_is_left_out() -> None:
    reader, assembler = make_passing_reader("r")
    odd = b'data: {"type": "a\\nb"}\n\n'
    begun = write_stream(added(0, type="message", id="m", content=[]))
    split = b'data: {"type": "response.output_text.delta",\ndata: "delta": "a", "item_id": "m", "output_index": 0}\n\n'
    out = assembler.feed(reader.feed(odd + begun + split))
    _, passed = [event.data for event in out if isinstance(event, Passed)]
    assert passed == '{"type": "response.output_text.delta", "delta": "a", "item_id": "m", "output_index": 0}'


@each_case(
    ("events", "told", "details"),
    [
        (
            [done(0, type="reasoning", id=5, encrypted_content="E"), delta("output_text", "a", 1)],
            [("content", "a")],
            [{"type": "reasoning.encrypted", "data": "E", "format": "openai-responses-v1"}],
        ),
        (
            [delta("reasoning_text", "a"), done(0, type="reasoning", id="rs", encrypted_content="E")],
            [("reasoning_content", "a")],
            [{"type": "reasoning.encrypted", "data": "E", "id": "rs", "format": "openai-responses-v1"}],
        ),
        (
            [delta("reasoning_text", " "), delta("output_text", "a", 1)],
            [("reasoning_content", " "), ("content", "a")],
            [],
        ),
        (
            [delta("reasoning_text", "a"), {"type": "response.output_item.other", "item": {}}],
            [("reasoning_content", "a")],
            [],
        ),
        (
            [
                added(0, type="message"),
                delta("output_text", "a"),
                added(1, type="message"),
                delta("output_text", "b", 1),
            ],
            [("content", "a\n\nb")],
            [],
        ),
        (
            [added(0, **CALL), delta("function_call_arguments", "{"), added(1, **CALL | {"call_id": "d"})]
            + [
                delta("function_call_arguments", '"a":'),
                delta("function_call_arguments", "1}"),
                done(1, **CALL, namespace="n"),
            ],
            [("function_call", '{"a":1}'), ("function_call", "{}")],
            [],
        ),
        (
            [added(0, type="custom_tool_call", call_id="c", name="f"), delta("custom_tool_call_input", "ls")]
            + [done(0, type="custom_tool_call", call_id="c", name="f", input="ls")],
            [("function_call", '{"input": "ls"}')],
            [],
        ),
    ],
)
def test_items_are_told_at_their_place(events: list[Json], told: list[tuple[str, str]], details: list[Json]) -> None:
    found = read_events([write_stream(*events, COMPLETED)])
    messages = summarize(found)[0]
    assert [one for one in messages if one[1].strip()] == [one for one in told if one[1].strip()]
    extras = [event.fields for event in found if isinstance(event, Extra)]
    assert [item for fields in extras for item in fields.get("reasoning_details", [])] == details


def test_an_annotation_belongs_to_its_text() -> None:
    annotation = {"type": "response.output_text.annotation.added", "output_index": 0, "annotation": {"url": "u"}}
    events = read_events([write_stream(delta("output_text", "a"), annotation, COMPLETED)])
    assert Extra({"annotations": [{"url": "u"}]}) in events


def test_items_of_the_end_without_ids_are_those_of_their_place() -> None:
    output = [{"type": "message", "content": "a"}, {"type": "message", "content": "bc"}]
    end = COMPLETED | {"response": {"output": output}}
    data = write_stream(delta("output_text", "a"), delta("output_text", "b", 1), end)
    assert summarize(read_events([data]))[0] == [("content", "a\n\nbc")]


@each_case(
    "data",
    [
        b'data: {"type": 5, "error": {"message": "no", "x": [1.5, null, "\\ud83d"]}}\n\n',
        b'data: {"x": 1}\nevent: error\n\n',
    ],
)
def test_an_error_that_only_the_lenient_decoder_reads_is_one(data: bytes) -> None:
    assert isinstance(read_events([data])[-1], Failed)


def test_a_broken_body_is_the_fault_of_its_connection() -> None:
    reader, assembler = make_passing_reader("r")
    assembler.feed(reader.feed(write_stream(delta("output_text", "a"))))
    *_, end = assembler.close(fault=Fault("upstream_incomplete", "reset", transient=True))
    assert isinstance(end, Failed) and end.fault.message == "reset"


NAMED: tuple[tuple[str, Json], ...] = (
    ("response.created", {"response": {}}),
    ("response.output_item.added", {"output_index": 0, "item": {"type": "reasoning"}}),
    *(("response.reasoning_text.delta", {"output_index": 0, "delta": text}) for text in "abcdefgh"),
    *(("response.output_text.delta", {"output_index": 1, "delta": text}) for text in "ABCDEFGH"),
)
COMPLETED_BY_NAME: tuple[str, Json] = ("response.completed", {"response": {"status": "completed", "output": []}})


@each_case("line_end", ["\n", "\r\n"])
def test_an_event_without_a_type_has_the_name_of_its_line(line_end: str) -> None:
    def write(*events: tuple[str, Json]) -> bytes:
        lines = [f"event: {name}{line_end}data: {json.dumps(data)}{line_end}{line_end}" for name, data in events]
        return "".join(lines).encode()

    told = [("reasoning_content", "abcdefgh"), ("content", "ABCDEFGH")]
    whole = write(*NAMED, COMPLETED_BY_NAME)
    error = write(*NAMED) + f'data: {{"error": {{"message": "no"}}}}{line_end}{line_end}'.encode()
    for body, end in ((whole, "stop"), (error, "server_error")):
        for size in (1, 7, 50, 400, len(body)):
            parts = [body[at : at + size] for at in range(0, len(body), size)]
            assert summarize(read_events(parts)) == (told, end)


def test_a_whole_reply_has_no_name() -> None:
    reply: Json = {"status": "completed", "output": [{"type": "message", "content": "Hi"}]}
    body = b"event: response.completed\ndata: %b\n\n" % json.dumps(reply).encode()
    assert summarize(read_events([body])) == ([("content", "Hi")], "stop")


@each_case(
    "event",
    [
        {"type": "response.completed", "response": True},
        {"type": "response.incomplete", "response": "odd"},
        {"type": "response.output_item.added", "output_index": 0, "item": [1]},
        {"type": "response.output_item.done", "output_index": 0, "item": 5},
    ],
)
def test_an_event_whose_object_is_something_else_is_the_servers_fault(event: Json) -> None:
    end = get_end(read_events([write_stream(delta("output_text", "a"), event)]))
    assert isinstance(end, Failed)
    assert end.fault.code == "upstream_protocol"
    assert event["type"] in end.fault.message


def test_an_end_without_its_response_ends_the_text_that_came() -> None:
    events = read_events([write_stream(delta("output_text", "a"), {"type": "response.completed", "response": None})])
    assert isinstance(get_end(events), Finish)


def test_an_event_that_is_kept_can_be_read_and_half_a_character_stays_in_a_delta() -> None:
    assert decode_kept(b'{"type": "x", "item": {"a": "\\ud83c", "b": NaN, "c": 1e999}}').text == (
        '{"type": "x", "item": {"a": "\ufffd", "b": null, "c": null}}'
    )
    event = b'{"type": "response.output_text.delta", "delta": "\\ud83c"}'
    assert decode_kept(event).text.encode() == event
    assert decode_kept(b"[NaN]").text == "[null]"


def test_a_few_words_in_place_of_an_event_are_a_warning() -> None:
    stream = write_stream(delta("output_text", "a")) + b"data: ping\n\n" + write_stream(COMPLETED)
    end = get_end(read_events([stream]))
    assert isinstance(end, Finish)
    assert "'ping'" in end.warnings[0] and not end.cacheable
    assert isinstance(get_end(read_events([stream.replace(b"ping", b"{")])), Failed)


ARGUMENTS = '{"city": "A"}'


@each_case(
    ("deltas", "final", "item", "arguments"),
    [
        (["U2FsdGVkX1", "9xyz=="], ARGUMENTS, ARGUMENTS, ARGUMENTS),
        (["U2FsdGVkX1", "9xyz=="], None, ARGUMENTS, ARGUMENTS),
        (["U2FsdGVkX1"], "9xyz==", ARGUMENTS, ARGUMENTS),
        (["U2FsdGVkX1"], ARGUMENTS, "", ARGUMENTS),
        (["U2FsdGVkX1", "9xyz=="], None, None, "U2FsdGVkX19xyz=="),
        (["U2FsdGVkX1"], None, "", "U2FsdGVkX1"),
        ([" ", "\n", ARGUMENTS], ARGUMENTS, ARGUMENTS, ARGUMENTS),
        (['{"city":"A"}'], ARGUMENTS, ARGUMENTS, '{"city":"A"}'),
        (['{"city"'], ARGUMENTS, ARGUMENTS, ARGUMENTS),
    ],
)
def test_the_arguments_at_the_end_count_if_those_of_the_deltas_cannot_be_an_object(
    deltas: list[str], final: str | None, item: str | None, arguments: str
) -> None:
    stream = [added(0, **CALL), *(delta("function_call_arguments", one) for one in deltas)]
    if final is not None:
        stream.append({"type": "response.function_call_arguments.done", "output_index": 0, "arguments": final})
    if item is not None:
        stream.append(done(0, **CALL, arguments=item))
    for size in (1, 10_000):
        data = write_stream(*stream, COMPLETED)
        events = read_events([data[start : start + size] for start in range(0, len(data), size)])
        got = "".join(event.arguments for event in events if isinstance(event, ToolCallDelta))
        assert got.strip() == arguments


def test_arguments_that_were_held_are_passed_on_as_they_came_if_the_reply_is_cut() -> None:
    events = read_events([write_stream(added(0, **CALL), delta("function_call_arguments", "U2FsdGVkX1"))])
    assert isinstance(get_end(events), Failed)
    assert [event.arguments for event in events if isinstance(event, ToolCallDelta)] == ["U2FsdGVkX1"]
