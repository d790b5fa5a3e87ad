"""A stream that ends at any byte is sent as far as it came, and as whole only if its server has said how it ended."""

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from app.upstream.messages.api import make_reader as make_message_reader
from app.upstream.reply.reader import ReplyReader
from app.upstream.responses.api import make_reader as make_response_reader

from tests.each_case import each_case
from tests.effort import LONG
from tests.streams.every_place import list_wrong_ends, list_wrong_items, read_stream
from tests.streams.partial_replies import Json, PartialMessage, PartialReply, PartialResponse
from tests.upstream.messages.recordings import FOLDER as MESSAGES
from tests.upstream.messages.replies import block, start, stop, text
from tests.upstream.responses.recordings import FOLDER as RESPONSES

pytestmark = pytest.mark.interpreted  # a compiled object cannot be copied

Row = tuple[Callable[[str], ReplyReader], Callable[[], PartialReply]]
MESSAGE: Row = (make_message_reader, PartialMessage)
RESPONSE: Row = (make_response_reader, PartialResponse)


def _list_item(index: int, item: Json, *deltas: tuple[str, str], **fields: int) -> list[Json]:
    """The events of an item of the Responses API, with deltas of these events."""
    opened = {name: value for name, value in item.items() if name not in ("content", "summary", "arguments")}
    return [
        {"type": "response.output_item.added", "output_index": index, "item": opened},
        *(
            {"type": f"response.{name}.delta", "output_index": index, **fields, "delta": delta}
            for name, delta in deltas
        ),
        {"type": "response.output_item.done", "output_index": index, "item": item},
    ]


THOUGHT = {"type": "reasoning", "id": "rs_1", "summary": [{"text": "hm so"}], "encrypted_content": "gAAA"}
ANSWER = {"type": "message", "id": "msg_1", "content": [{"type": "output_text", "text": "né 😀 ok"}]}
CALL = {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "f", "arguments": '{"a": "é"}'}
CUSTOM = {"type": "custom_tool_call", "id": "ct_1", "call_id": "call_2", "name": "shell", "input": "ls"}
SEARCH = {"type": "web_search_call", "id": "ws_1", "status": "completed"}
RESPONSE_ITEMS = [
    {"type": "response.created", "response": {"id": "resp_1"}},
    *_list_item(0, THOUGHT, ("reasoning_summary_text", "hm"), ("reasoning_summary_text", " so"), summary_index=0),
    *_list_item(1, SEARCH),
    {"type": "response.mcp_call.failed", "output_index": 2, "item_id": "mcp_1"},
    *_list_item(3, ANSWER, ("output_text", "né "), ("output_text", "😀"), content_index=0),
    *_list_item(4, CALL, ("function_call_arguments", '{"a": '), ("function_call_arguments", '"é"')),
    *_list_item(5, CUSTOM),
]
USAGE = {"input_tokens": 3, "output_tokens": 9}


def _end(name: str, **fields: object) -> Json:
    return {"type": f"response.{name}", "response": {"status": name, "output": [], "usage": USAGE, **fields}}


QUERY = {"type": "server_tool_use", "id": "srv_1", "name": "web_search", "input": {}}
FOUND = {"type": "web_search_tool_result", "tool_use_id": "srv_1", "content": []}
MESSAGE_BLOCKS = [
    start(cache_read_input_tokens=4),
    {"type": "ping"},
    *block(
        0,
        {"type": "thinking", "thinking": ""},
        *({"type": "thinking_delta", "thinking": part} for part in ("hm", " so")),
        *({"type": "signature_delta", "signature": part} for part in ("Eq", "RS")),
    ),
    *block(1, {"type": "redacted_thinking", "data": "EmwK"}),
    *block(2, QUERY, {"type": "input_json_delta", "partial_json": '{"query": "é"}'}),
    *block(3, FOUND),
    *text(4, "né ", "😀", " ok"),
    *block(
        5,
        {"type": "tool_use", "id": "toolu_1", "name": "f", "input": {}},
        *({"type": "input_json_delta", "partial_json": part} for part in ('{"a": ', '"é"}')),
    ),
    *block(6, {"type": "tool_use", "id": "toolu_2", "name": "g", "input": {"b": 1}}),
    *block(7, {"type": "tool_use", "id": "toolu_3", "name": "h", "input": {}}),
]
OVERLOADED = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
REPLIES: list[tuple[Row, list[Json]]] = [
    (MESSAGE, [*MESSAGE_BLOCKS, *stop("tool_use")]),
    (MESSAGE, [*MESSAGE_BLOCKS, OVERLOADED]),
    (MESSAGE, [*MESSAGE_BLOCKS[:-1], *stop("max_tokens"), OVERLOADED]),
    (MESSAGE, [start(), *text(0, "a"), {"type": "message_stop"}]),
    (RESPONSE, [*RESPONSE_ITEMS, _end("completed")]),
    (RESPONSE, [*RESPONSE_ITEMS[:-2], _end("incomplete", incomplete_details={"reason": "max_output_tokens"})]),
    (RESPONSE, [*RESPONSE_ITEMS, _end("failed", error={"code": "server_error", "message": "no"})]),
    (RESPONSE, [*RESPONSE_ITEMS, {"type": "error", "code": "server_error", "message": "no"}]),
]


def _write(
    events: list[Json], line_end: str = "\n", *, names: bool = True, before: str = "", behind: str = ""
) -> bytes:
    written = [
        (f"event: {event['type']}{line_end}" if names else "") + f"data: {_dump(event)}{line_end}{line_end}"
        for event in events
    ]
    return (before + "".join(written) + behind).encode()


FRAMINGS = [
    *[(line_end, True, "", "") for line_end in ("\n", "\r\n", "\r")],
    ("\n", False, "\ufeff", "data: [DONE]\n\n"),
    ("\r\n", True, "\ufeff: hello\r\n\r\n", ": bye\r\n\r\ndata:[DONE]\r\n\r\n"),
]


@each_case(("line_end", "names", "before", "behind"), FRAMINGS)
def test_every_start_of_a_stream_gives_the_events_that_are_whole(
    line_end: str, names: bool, before: str, behind: str
) -> None:
    for events in (MESSAGE_BLOCKS[:12], RESPONSE_ITEMS[4:11]):
        body = _write([*events, OVERLOADED], line_end, names=names, before=before, behind=behind)
        assert list(list_wrong_items(body)) == []


@each_case(("row", "events"), REPLIES)
def test_a_stream_that_ends_behind_any_event_tells_what_came_and_no_more(row: Row, events: list[Json]) -> None:
    assert list(list_wrong_ends(_write(events), *row)) == []


def _frame(event: Json, *lines: str) -> str:
    return "\n".join((f"event: {event['type']}", *lines, "", ""))


def _dump(event: Json, **fields: object) -> str:
    return json.dumps(event | fields, ensure_ascii=False)


FIELDS = ("delta", "text", "item", "response", "annotation", "message", "content_block", "usage", "error", "index")
NULLS = dict.fromkeys((*FIELDS, "content_index"))
UNKNOWN = 'data: {"type": "new", "index": 0}\n\nevent: keepalive\ndata: {"type": "keepalive"}\n\n'
REWRITINGS: dict[str, Callable[[Json], str]] = {
    "comments": lambda event: ": ping\n\nid: 7\n" + _frame(event, f"data:{_dump(event)}", "retry: 9", ":"),
    "lines": lambda event: _frame(event, "data: {", f"data: {_dump(event)[1:]}"),
    "fields": lambda event: _frame(event, "data: " + _dump(event, new=[{}], newer=True)),
    "nulls": lambda event: _frame(event, "data: " + _dump(NULLS | event)),
    "unknown": lambda event: UNKNOWN + _frame(event, f"data: {_dump(event)}"),
    "twice": lambda event: _frame(event, f"data: {_dump(event)}") * (1 if event["type"].endswith("delta") else 2),
    "documents": lambda event: f"{_dump(event)}\n",
}


@each_case(("row", "events"), REPLIES)
def test_a_stream_says_the_same_however_it_is_written(row: Row, events: list[Json]) -> None:
    expected = read_stream(_write(events), row[0])
    for name, write in REWRITINGS.items():
        received = read_stream("".join(map(write, events)).encode(), row[0])
        assert (received.said, received.end) == (expected.said, expected.end), name


NAMED = "PARLEY_STREAMS" in os.environ
needs_named_recordings = pytest.mark.skipif(
    not NAMED or not MESSAGES.is_dir(), reason="takes a while: set PARLEY_STREAMS to the folder of recorded streams"
)


def _find_streams() -> Iterator[tuple[Row, Path]]:
    for row, folder in ((MESSAGE, MESSAGES), (RESPONSE, RESPONSES)):
        yield from ((row, path) for path in sorted(folder.glob("*/*.sse")))


@needs_named_recordings
@each_case(("row", "path"), [*_find_streams()], ids=lambda value: getattr(value, "name", ""))
def test_a_recording_that_ends_behind_any_event_tells_what_came_and_no_more(row: Row, path: Path) -> None:
    assert list(list_wrong_ends(path.read_bytes(), *row)) == []


@needs_named_recordings
@pytest.mark.skipif(not LONG, reason="takes an hour: FUZZ=long")
@each_case("path", [path for _, path in _find_streams()], ids=lambda path: path.name)
def test_every_start_of_a_recording_gives_the_events_that_are_whole(path: Path) -> None:
    assert list(list_wrong_items(path.read_bytes())) == []
