"""A client of `POST /v1/messages` and a server of the same API: body and reply pass, and nothing is lost."""

import json
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.in_process_gateway import Answer, ModelServer, Running, streamed
from tests.upstream.messages.recordings import GOLDENS, REPLIES, needs_goldens, needs_recordings, read_body
from tests.upstream.messages.replies import REPLY, SETTINGS, block, start, stop, text, write_stream

Json = dict[str, Any]
ASK: Json = {"model": "anthropic", "max_tokens": 50, "messages": [{"role": "user", "content": "Hi"}]}
FUTURE = [
    start(),
    {"type": "ping"},
    *block(0, {"type": "future_block", "x": 1}, {"type": "future_delta", "y": 2}),
    {"type": "future_event", "z": [1]},
    *text(1, "Hel", "lo"),
    *stop(context_management={"applied_edits": []}),
]


def post(server: ModelServer, body: Json, headers: dict[str, str] | None = None, **settings: Json) -> Answer:
    with Running({**SETTINGS, **settings}, server) as gateway:
        return gateway.post("/v1/messages", body, headers)


def read_events(body: bytes) -> list[Json]:
    """Return the data of the events, whose names must be those of the data."""
    found = []
    for frame in body.decode().split("\n\n"):
        if frame.strip():
            name, data = frame.split("\n")
            found.append(json.loads(data.removeprefix("data: ")))
            assert name == f"event: {found[-1]['type']}"
    return found


@needs_goldens
@pytest.mark.parametrize("path", sorted(GOLDENS.glob("passthrough/messages_*.json")), ids=lambda path: path.stem)
def test_the_body_of_the_case_reaches_the_server(path: Path) -> None:
    case = json.loads(path.read_text())
    server = ModelServer(lambda _: streamed(write_stream([start(), *text(0, "ok"), *stop()])))
    answer = post(server, {**case["request"], "model": case["kind"]}, case["headers"])
    assert answer.status == 200, answer.body
    sent = server.requests[-1]
    assert json.loads(sent.content) == case["expect"]["body"]
    assert {name: sent.headers[name] for name in case["expect"]["headers"]} == case["expect"]["headers"]


def test_the_version_of_the_client_replaces_that_of_the_gateway() -> None:
    server = ModelServer(lambda _: httpx.Response(200, json=REPLY))
    upstream = {**SETTINGS["upstreams"]["anthropic"], "headers": {"anthropic-beta": "ours"}}
    headers = {"anthropic-version": "2024-01-01", "anthropic-beta": "theirs"}
    with Running({**SETTINGS, "upstreams": {**SETTINGS["upstreams"], "anthropic": upstream}}, server) as gateway:
        for path in ("/v1/messages", "/v1/messages/count_tokens"):
            gateway.post(path, ASK, headers)
            assert server.requests[-1].headers.get_list("anthropic-version") == ["2024-01-01"]
            assert server.requests[-1].headers.get_list("anthropic-beta") == ["ours", "theirs"]


def test_the_events_of_the_server_are_sent_as_they_are_but_for_the_model() -> None:
    events = [{**FUTURE[0], "message": {**FUTURE[0]["message"], "model": "up-model"}}, *FUTURE[1:]]
    answer = post(ModelServer(lambda _: streamed(write_stream(events))), {**ASK, "stream": True})
    expected = [{**events[0], "message": {**events[0]["message"], "model": "anthropic"}}, *events[1:]]
    assert read_events(answer.body) == expected


def test_a_whole_message_is_sent_as_it_is_but_for_the_model() -> None:
    reply = {**REPLY, "id": "msg_9", "container": {"id": "c"}, "content": [{"type": "future_block"}, *REPLY["content"]]}
    answer = post(ModelServer(lambda _: httpx.Response(200, json={**reply, "model": "up-model"})), ASK)
    assert answer.json == {**reply, "model": "anthropic"}


def test_a_cut_stream_ends_with_an_error_and_no_end_of_the_message() -> None:
    events = [start(), *text(0, "Half")[:-1]]
    found = read_events(post(ModelServer(lambda _: streamed(write_stream(events))), {**ASK, "stream": True}).body)
    assert found[-1]["type"] == "error"
    assert "message_stop" not in [event["type"] for event in found]


def test_an_error_before_the_reply_begins_is_tried_again() -> None:
    error = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
    replies = [write_stream([start(), {"type": "ping"}, error]), write_stream([start(), *text(0, "ok"), *stop()])]
    server = ModelServer(lambda _: streamed(replies[len(server.requests) - 1]))
    models = {"m": {"upstreams": ["anthropic"], "max_retries": 1}}
    answer = post(server, {**ASK, "model": "m", "stream": True}, models=models)
    assert [event["type"] for event in read_events(answer.body)][-1] == "message_stop"
    assert len(server.requests) == 2


def test_a_stored_reply_repeats_the_events_of_the_server() -> None:
    server = ModelServer(lambda _: streamed(write_stream(FUTURE)))
    asked = {**ASK, "stream": True, "temperature": 0}
    with Running({**SETTINGS, "cache": {"url": "memory:", "apply": "always"}}, server) as gateway:
        first, second = (gateway.post("/v1/messages", asked) for _ in range(2))
        other = gateway.post("/v1/messages", asked, {"anthropic-beta": "other"})
    assert read_events(first.body) == read_events(second.body) == read_events(other.body)
    assert len(server.requests) == 2


def test_what_the_gateway_cannot_read_is_refused_for_a_server_of_another_api() -> None:
    settings: dict[str, Any] = {
        "upstreams": {"chat": {"base_url": "http://model.test/v1"}},
        "models": {"m": {"upstreams": ["chat"]}},
    }
    messages = [{"role": "user", "content": [{"type": "future_block"}]}]
    server = ModelServer()
    assert post(server, {**ASK, "model": "m", "messages": messages}, None, **settings).status == 400
    assert post(server, {**ASK, "messages": messages}).status != 400
    assert len(server.requests) == 1


def test_a_step_changes_only_what_it_is_about() -> None:
    models = {"m": {"upstreams": ["anthropic"], "profile": {"max_input_tokens": 1000}}}
    server = ModelServer(lambda _: httpx.Response(200, json=REPLY))
    last = {"role": "user", "content": [{"type": "text", "text": "Hi", "future": 1}], "mood": 2}
    turns = [
        {"role": "user", "content": "word " * 900},
        {"role": "assistant", "content": "b " * 400},
        last,
    ]
    answer = post(server, {**ASK, "model": "m", "messages": turns, "metadata": {"user_id": "u"}}, models=models)
    sent = json.loads(server.requests[-1].content)
    assert sent["metadata"] == {"user_id": "u"} and sent["messages"][-1] == last
    assert sent["messages"] != turns and answer.json["parley"]["warnings"]


@needs_recordings
def test_recorded_streams_pass_event_by_event() -> None:
    rows = [row for row in REPLIES if row["file"].endswith(".sse")][::12]
    body = b""
    with Running(SETTINGS, ModelServer(lambda _: streamed(body))) as gateway:
        for row in rows:
            body = read_body(row)
            lines = [line[5:] for line in body.decode().splitlines() if line.startswith("data:")]
            expected = [json.loads(line) for line in lines if line.strip() != "[DONE]"]
            for event in expected:
                if event["type"] == "message_start":
                    event["message"]["model"] = "anthropic"
            found = read_events(gateway.post("/v1/messages", {**ASK, "stream": True}).body)
            found[-1].pop("parley", None)
            assert found == expected, row["file"]


def ask_compatible(server: ModelServer, *, stream: bool = True, **settings: Json) -> Answer:
    return post(server, {**ASK, "model": "anthropic_compatible", "stream": stream}, **settings)


def test_reasoning_in_the_text_is_written_as_a_block_of_its_own() -> None:
    sent = write_stream([start(), *block(0, {"type": "future_block"}), *text(1, "<think>Hm</think>", "Hello"), *stop()])
    events = read_events(ask_compatible(ModelServer(lambda _: streamed(sent))).body)
    starts = [(one["index"], one["content_block"]["type"]) for one in events if one["type"] == "content_block_start"]
    assert starts == [(0, "future_block"), (1, "thinking"), (2, "text")]
    whole = {**REPLY, "content": [{"type": "text", "text": "<think>Hm</think>Hello"}]}
    blocks = ask_compatible(ModelServer(lambda _: httpx.Response(200, json=whole)), stream=False).json["content"]
    assert [(one["type"], one.get("text", one.get("thinking"))) for one in blocks] == [
        ("thinking", "Hm"),
        ("text", "Hello"),
    ]


def test_an_empty_reply_is_asked_for_again() -> None:
    replies = [write_stream([start(), *text(0), *stop()]), write_stream([start(), *text(0, "ok"), *stop()])]
    server = ModelServer(lambda _: streamed(replies[len(server.requests) - 1]))
    models = {"m": {"upstreams": ["anthropic"], "max_retries": 1}}
    answer = post(server, {**ASK, "model": "m", "stream": True}, models=models)
    assert len(server.requests) == 2 and b'"ok"' in answer.body


def test_a_document_in_place_of_a_stream_becomes_one() -> None:
    call = {"type": "tool_use", "id": "t", "name": "f", "input": {"a": 1}, "caller": {"type": "x"}}
    cited = {"type": "text", "text": "Hi", "citations": [{"type": "char_location", "cited_text": "c"}]}
    thought = {"type": "thinking", "thinking": "Hm", "signature": "sig"}
    message = {**REPLY, "content": [thought, cited, call], "stop_reason": "tool_use"}
    server = ModelServer(lambda _: httpx.Response(200, json=message))
    with Running({**SETTINGS, "cache": {"url": "memory:", "apply": "always"}}, server) as gateway:
        streams = [gateway.post("/v1/messages", {**ASK, "stream": True}) for _ in range(2)]
        whole = gateway.post("/v1/messages", ASK).json
    events, again = (read_events(stream.body) for stream in streams)
    assert len(server.requests) == 1 and events[1:] == again[1:]
    assert [events[0]["type"], events[-1]["type"]] == ["message_start", "message_stop"]
    deltas = [one["delta"] for one in events if one["type"] == "content_block_delta"]
    assert {"type": "signature_delta", "signature": "sig"} in deltas
    assert {"type": "citations_delta", "citation": cited["citations"][0]} in deltas
    starts = [one["content_block"] for one in events if one["type"] == "content_block_start"]
    assert starts[-1] == {**call, "input": {}}
    assert whole["content"] == message["content"]


def test_a_stream_without_indexes_is_completed_and_repeated_so_from_the_cache() -> None:
    events = [{key: one[key] for key in one if key != "index"} for one in [start(), *text(0, "Hel", "lo"), *stop()]]
    server = ModelServer(lambda _: streamed(write_stream(events)))
    with Running({**SETTINGS, "cache": {"url": "memory:", "apply": "always"}}, server) as gateway:
        first, second = (gateway.post("/v1/messages", {**ASK, "stream": True}) for _ in range(2))
        whole = gateway.post("/v1/messages", ASK).json
    assert len(server.requests) == 1 and first.body == second.body
    found = read_events(first.body)
    assert all(type(one["index"]) is int for one in found if one["type"].startswith("content_block"))
    assert whole["content"] == [{"type": "text", "text": "Hello"}]


def test_renamed_functions_have_the_names_of_the_client_in_the_servers_reply() -> None:
    name = "a.tool"
    ask = {**ASK, "stream": True, "tools": [{"name": name, "input_schema": {"type": "object"}}]}
    called: list[str] = []

    def answer(request: httpx.Request) -> httpx.Response:
        called.append(json.loads(request.content)["tools"][0]["name"])
        item = {"type": "tool_use", "id": "t", "name": called[-1], "input": {}}
        empty = {"type": "input_json_delta", "partial_json": ""}
        return streamed(write_stream([start(), *block(0, item, empty), *stop("tool_use")]))

    models = {"m": {"upstreams": ["anthropic"], "profile": {"max_function_name": 64}}}
    events = read_events(post(ModelServer(answer), {**ask, "model": "m"}, models=models).body)
    starts = [one["content_block"]["name"] for one in events if one["type"] == "content_block_start"]
    assert starts == [name]


@pytest.mark.parametrize("caller", [None, {"type": "code_execution_20250825", "tool_id": "s"}])
def test_the_input_in_the_start_of_a_call_becomes_deltas_but_for_calls_of_code(caller: Json | None) -> None:
    use = {"type": "tool_use", "id": "c", "name": "f", "input": {"a": 1}, **({"caller": caller} if caller else {})}
    events = [start(), *block(0, use), *stop("tool_use")]
    found = read_events(ask_compatible(ModelServer(lambda _: streamed(write_stream(events)))).body)
    parts = [event for event in found if event["type"] in ("content_block_start", "content_block_delta")]
    blocks = [part.get("content_block") or part["delta"] for part in parts]
    plain = [{**use, "input": {}}, {"type": "input_json_delta", "partial_json": '{"a": 1}'}]
    assert blocks == ([use] if caller else plain)


def test_a_stream_without_its_start_gets_one() -> None:
    stream = write_stream([*text(0, "Hel", "lo"), *stop()])
    events = read_events(post(ModelServer(lambda _: streamed(stream)), {**ASK, "stream": True}).body)
    assert events[0]["type"] == "message_start"
    assert [one["delta"]["text"] for one in events if one["type"] == "content_block_delta"] == ["Hel", "lo"]
