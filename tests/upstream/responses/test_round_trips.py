"""Two turns with tools through every client format: the server gets back what it sent, at its place."""

import json
from typing import Any

import httpx

from tests.each_case import each_case
from tests.in_process_gateway import ModelServer, Running, streamed
from tests.upstream.client_turns import FORMATS, converse
from tests.upstream.responses.reader import write_stream

Json = dict[str, Any]

SETTINGS = {
    "upstreams": {"s": {"base_url": "http://model.test/v1", "api": "responses", "kind": "openai"}},
    "models": {"m": {"upstreams": ["s"]}},
}
FIRST: list[Json] = [
    {
        "type": "reasoning",
        "id": "rs_1",
        "summary": [{"type": "summary_text", "text": "Hm."}],
        "encrypted_content": "E1",
    },
    {"type": "message", "id": "msg_1", "role": "assistant", "content": [{"type": "output_text", "text": "I look."}]}
    | {"phase": "commentary"},
    {"type": "reasoning", "id": "rs_2", "summary": [], "encrypted_content": "E2" * 4000},
    {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "look", "arguments": '{"a":1}'}
    | {"namespace": "eyes", "caller": {"type": "program", "caller_id": "p_1"}},
    {"type": "reasoning", "id": "rs_3", "summary": [], "encrypted_content": "E3"},
    {"type": "custom_tool_call", "id": "ctc_1", "call_id": "call_2", "name": "shell", "input": "ls é"},
]
SECOND: list[Json] = [
    {"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {"type": "search", "query": "x"}},
    {"type": "reasoning", "id": "rs_4", "summary": [], "encrypted_content": "E4"},
    {"type": "message", "id": "msg_2", "role": "assistant", "content": [{"type": "output_text", "text": "Done."}]}
    | {"phase": "final_answer"},
]


def answer(items: list[Json]) -> httpx.Response:
    events = [event for index, item in enumerate(items) for event in write_item(index, item)]
    return streamed(write_stream(*events, {"type": "response.completed", "response": {"output": items}}))


def write_item(index: int, item: Json) -> list[Json]:
    """The events of an item, those of a message with its text."""
    done = {"type": "response.output_item.done", "output_index": index, "item": item}
    if item["type"] != "message":
        return [done]
    text = item["content"][0]["text"]
    return [
        {"type": "response.output_item.added", "output_index": index, "item": item | {"content": []}},
        {"type": "response.output_text.delta", "output_index": index, "content_index": 0, "delta": text},
        done,
    ]


def sent_back(items: list[Json]) -> list[Json]:
    """The items as the writer sends them."""
    written: list[Json] = []
    for item in items:
        if item["type"] == "message":
            item = item | {"content": item["content"][0]["text"]}
        if item["type"] == "reasoning":
            item = item | {"summary": []}
        keep_id = item["type"] not in ("message", "function_call", "custom_tool_call")
        written.append({key: value for key, value in item.items() if key != "id" or keep_id})
    return written


@each_case("stream", [False, True])
@each_case("format_", FORMATS)
def test_what_a_server_sent_comes_back_at_its_place(format_: str, stream: bool) -> None:
    replies = map(answer, (FIRST, SECOND, SECOND))
    sent = converse(SETTINGS, [*replies], format_, stream=stream, custom=True)["input"]
    outputs = [
        {"type": "function_call_output", "call_id": "call_1", "output": "seen"},
        {"type": "custom_tool_call_output", "call_id": "call_2", "output": "total 0"},
    ]
    hi, more_ = ({"type": "message", "role": "user", "content": text} for text in ("Hi", "More"))
    first = sent_back(FIRST)
    if format_ == "anthropic":  # its calls have an object in place of JSON text
        first[3] = first[3] | {"arguments": '{"a": 1}'}
    if format_ == "openai":  # it has one list for all that is opaque in a turn
        first = [first[0], first[2], first[4], first[1], first[3], first[5]]
    assert sent == [hi, *first, *outputs, *sent_back(SECOND), more_]


NATIVE: list[Json] = [
    {"role": "user", "content": "Hi"},
    {"type": "compaction", "id": "cmp_1", "encrypted_content": "C"},
    {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "E1"},
    {"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {"type": "search", "query": "x"}},
    {"type": "message", "role": "assistant", "id": "msg_1", "phase": "final_answer", "content": "A"},
    {"role": "user", "content": "Go on"},
]


def test_a_conversation_that_began_at_the_server_goes_on_through_the_gateway() -> None:
    server = ModelServer(lambda _: answer(SECOND))
    with Running(SETTINGS, server) as gateway:
        reply = gateway.post("/v1/responses", {"model": "m", "input": NATIVE, "store": False})
    assert "x-parley-warnings" not in reply.headers
    assert json.loads(server.requests[0].content)["input"] == NATIVE
    assert reply.json["output"] == SECOND


def test_items_of_a_provider_keep_their_place_in_a_translation() -> None:
    server = ModelServer(lambda _: answer(SECOND))
    with Running(SETTINGS, server) as gateway:
        reply = gateway.post("/v1/chat", {"model": "m", "format": "responses", "messages": NATIVE, "stream": False})
    assert json.loads(server.requests[0].content)["input"] == [
        {"type": "message", "role": "user", "content": "Hi"},
        *NATIVE[1:4],
        {"type": "message", "role": "assistant", "content": "A", "phase": "final_answer"},
        {"type": "message", "role": "user", "content": "Go on"},
    ]
    # What a tool of the server did is an item of its own for a client of the same API.
    assert reply.json["output"][0] == SECOND[0]
