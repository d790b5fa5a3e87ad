"""Two turns with tools through every client format: the server gets back what it sent, at its place."""

import json
from typing import Any

import httpx

from tests.each_case import each_case
from tests.in_process_gateway import streamed
from tests.upstream.client_turns import FORMATS, converse
from tests.upstream.messages.replies import block, start, stop, write_stream

Json = dict[str, Any]
SETTINGS: Json = {
    "upstreams": {"s": {"base_url": "http://model.test/v1", "api": "messages", "kind": "anthropic"}},
    "models": {"m": {"upstreams": ["s"]}},
}
FIRST: list[Json] = [
    {"type": "thinking", "thinking": "Hm.", "signature": "S1" * 4000},
    {"type": "text", "text": "I look."},
    {"type": "redacted_thinking", "data": "R1" * 4000},
    {"type": "tool_use", "id": "call_1", "name": "look", "input": {"a": 1}},
    {"type": "tool_use", "id": "call_2", "name": "shell", "input": {"b": "é"}}
    | {"caller": {"type": "code_execution_20250825", "tool_id": "srv_1"}},
]
SECOND: list[Json] = [
    {"type": "server_tool_use", "id": "srv_2", "name": "web_search", "input": {"query": "x"}},
    {"type": "web_search_tool_result", "tool_use_id": "srv_2", "content": [{"encrypted_content": "W" * 4000}]},
    {"type": "thinking", "thinking": "Now.", "signature": "S2"},
    {"type": "text", "text": "Done."},
]
RESULTS: list[Json] = [
    {"type": "tool_result", "tool_use_id": "call_1", "content": "seen"},
    {"type": "tool_result", "tool_use_id": "call_2", "content": "total 0"},
]


def answer(blocks: list[Json]) -> httpx.Response:
    reason = "tool_use" if blocks is FIRST else "end_turn"
    events = [event for index, item in enumerate(blocks) for event in write_block(index, item)]
    return streamed(write_stream([start(), *events, *stop(reason)]))


def write_block(index: int, item: Json) -> list[Json]:
    if item["type"] == "text":
        return block(index, {"type": "text", "text": ""}, {"type": "text_delta", "text": item["text"]})
    if item["type"] == "thinking":
        deltas = ({"type": f"{name}_delta", name: item[name]} for name in ("thinking", "signature"))
        return block(index, {"type": "thinking", "thinking": "", "signature": ""}, *deltas)
    if item["type"] == "tool_use":
        delta = {"type": "input_json_delta", "partial_json": json.dumps(item["input"], ensure_ascii=False)}
        return block(index, item | {"input": {}}, delta)
    return block(index, item)


@each_case("stream", [False, True])
@each_case("format_", FORMATS)
def test_what_a_server_sent_comes_back_at_its_place(format_: str, stream: bool) -> None:
    replies = map(answer, (FIRST, SECOND, SECOND))
    sent = converse(SETTINGS, [*replies], format_, stream=stream)["messages"]
    first, outputs = FIRST, RESULTS
    if format_ == "openai":  # it has one list for all that is opaque in a turn
        first = [FIRST[0], FIRST[2], FIRST[1], *FIRST[3:]]
    if format_ in ("agentscope2", "autogen"):  # their results say so
        outputs = [result | {"is_error": False} for result in RESULTS]
    assert sent == [
        {"role": "user", "content": "Hi"},
        {"role": "assistant", "content": first},
        {"role": "user", "content": outputs},
        {"role": "assistant", "content": SECOND},
        {"role": "user", "content": "More"},
    ], format_
