"""A client of Responses and a server of Responses: the client's own body and the server's own events pass."""

import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from app.formats.seal import Seal, write_seal

from tests.each_case import each_case
from tests.in_process_gateway import ModelServer, Running, streamed
from tests.upstream.responses.reader import write_stream
from tests.upstream.responses.recordings import GOLDENS, REPLIES, needs_recordings, read_body

Json = dict[str, Any]
CASES = sorted(GOLDENS.glob("passthrough/responses_*.json"))
SETTINGS: Json = {
    "upstreams": {"s": {"base_url": "http://model.test/v1", "api": "responses", "kind": "openai"}},
    "models": {"m": {"upstreams": ["s"], "name": "up-model"}},
}
OUTPUT: list[Json] = [
    {"type": "web_search_call", "id": "ws_1", "status": "completed"},
    {"type": "message", "id": "msg_1", "role": "assistant", "phase": "final_answer", "future": 1}
    | {"content": [{"type": "output_text", "text": "Hé", "annotations": []}]},
]


def own_events(*more: Json, status: str = "completed", output: list[Json] = OUTPUT) -> list[Json]:
    head = {"id": "resp_up", "object": "response", "model": "up-model", "future_field": True}
    events: list[Json] = [
        {"type": "response.created", "response": head | {"status": "in_progress", "output": []}},
        {"type": "response.output_item.done", "output_index": 0, "item": OUTPUT[0]},
        {"type": "response.future.delta", "anything": [1]},
        {"type": "response.output_item.added", "output_index": 1, "item": OUTPUT[1] | {"content": []}},
        {"type": "response.output_text.delta", "output_index": 1, "item_id": "msg_1", "delta": "Hé", "logprobs": [1]},
        *more,
        {"type": "response.output_item.done", "output_index": 1, "item": OUTPUT[1]},
        {"type": f"response.{status}", "response": head | {"status": status, "output": output}},
    ]
    return [event | {"sequence_number": number} for number, event in enumerate(events)]


def serve(events: list[Json]) -> ModelServer:
    return ModelServer(lambda _: streamed(write_stream(*events)))


def frames(answer: Any) -> list[Json]:
    return [json.loads(line[6:]) for line in answer.body.decode().split("\n") if line.startswith("data: ")]


def test_the_servers_events_pass_one_to_one_and_only_the_model_has_the_name_that_was_asked_for() -> None:
    events = own_events()
    with Running(SETTINGS, serve(events)) as gateway:
        answer = gateway.post("/v1/responses", {"model": "m", "input": "Hi", "stream": True, "store": False})
    got = frames(answer)
    for event in events:
        if "response" in event:
            event["response"]["model"] = "m"
    assert got == events
    assert answer.body.count(b"event: response.future.delta\n") == 1


def test_a_whole_reply_is_the_servers_own() -> None:
    whole = {"id": "resp_up", "object": "response", "model": "up-model", "status": "completed", "output": OUTPUT}
    server = ModelServer(lambda _: httpx.Response(200, json=whole | {"x": 1}))
    with Running(SETTINGS, server) as gateway:
        answer = gateway.post("/v1/responses", {"model": "m", "input": "Hi", "store": False})
    assert answer.json == whole | {"x": 1, "model": "m"}
    assert "stream" not in json.loads(server.requests[0].content)


def test_a_stored_response_holds_the_servers_items_and_the_next_request_has_exactly_them() -> None:
    server = serve(own_events(output=[]))
    with Running({**SETTINGS, "cache": {"url": "memory:"}}, server) as gateway:
        first = frames(gateway.post("/v1/responses", {"model": "m", "input": "Hi", "stream": True}))
        id_ = first[-1]["response"]["id"]
        assert id_ != "resp_up" and first[0]["response"]["id"] == id_
        assert gateway.get(f"/v1/responses/{id_}").json["output"] == OUTPUT
        again = {"model": "m", "input": "More", "previous_response_id": id_}
        assert gateway.post("/v1/responses", again).status == 200
    body = json.loads(server.requests[1].content)
    assert body["input"][:3] == [{"type": "message", "role": "user", "content": "Hi"}, *OUTPUT]
    assert body["input"][3]["content"] == "More" and body["store"] is False
    assert "previous_response_id" not in body


def test_a_reply_that_is_cut_off_or_fails_ends_with_a_failed_response() -> None:
    for events in (
        own_events()[:-1],
        [*own_events()[:-1], {"type": "error", "code": "server_error", "message": "No."}],
    ):
        with Running(SETTINGS, serve(events)) as gateway:
            answer = gateway.post("/v1/responses", {"model": "m", "input": "Hi", "stream": True, "store": False})
        got = frames(answer)
        assert got[:5] != [] and got[-1]["type"] == "response.failed"
        numbers = [frame["sequence_number"] for frame in got]
        assert numbers == list(range(len(got)))


def test_an_error_before_any_part_of_the_reply_leads_to_the_next_server_and_no_event_of_the_first_is_sent() -> None:
    failing = [own_events()[0], {"type": "error", "code": "server_is_overloaded", "message": "Later."}]
    replies = [failing, own_events()]
    server = ModelServer(lambda _: streamed(write_stream(*replies.pop(0))))
    row = {"base_url": "http://model.test/v1", "api": "responses", "kind": "openai"}
    two = {"upstreams": {"a": row, "b": row}, "models": {"m": {"upstreams": ["a", "b"], "name": "up-model"}}}
    with Running(two, server) as gateway:
        answer = gateway.post("/v1/responses", {"model": "m", "input": "Hi", "stream": True, "store": False})
    assert len(server.requests) == 2
    assert [frame["type"] for frame in frames(answer)] == [event["type"] for event in own_events()]


def test_a_seal_becomes_what_it_holds_for_this_api() -> None:
    own = {"type": "reasoning.encrypted", "data": "E", "id": "rs_1", "format": "openai-responses-v1"}
    item = {"type": "provider.item", "item": OUTPUT[0], "format": "openai-responses-v1"}
    foreign = {"type": "reasoning.text", "signature": "S", "format": "anthropic-claude-v1"}
    calls = {"c": {"openai": {"namespace": "n"}}}
    sealed: Json = {"type": "reasoning", "id": "rs_x", "summary": []}
    call = {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"}
    output = {"type": "function_call_output", "call_id": "c", "output": "r"}
    items = [
        {"role": "user", "content": "Hi"},
        sealed | {"encrypted_content": write_seal(Seal("Hm.", [own, item], calls))},
        sealed | {"encrypted_content": write_seal(Seal("Plain.", [foreign]))},
        sealed | {"encrypted_content": "native"},
        call,
        output,
    ]
    server = serve(own_events())
    with Running(SETTINGS, server) as gateway:
        gateway.post("/v1/responses", {"model": "m", "input": items, "stream": True, "store": False})
    assert json.loads(server.requests[0].content)["input"] == [
        items[0],
        {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "E"},
        OUTPUT[0],
        items[3],
        {"namespace": "n", **call},
        output,
    ]


def test_a_server_of_another_api_refuses_what_the_gateway_cannot_read() -> None:
    chat = {"upstreams": {"s": {"base_url": "http://model.test/v1"}}, "models": {"m": {"upstreams": ["s"]}}}
    with Running(chat, ModelServer()) as gateway:
        answer = gateway.post("/v1/responses", {"model": "m", "input": [{"type": "future_item"}], "store": False})
    assert answer.status == 422 or answer.status == 400


@each_case(
    ("url", "status"),
    [("http://10.0.0.1/x", 400), ("data:image/png;base64,AA==", 200), (None, 200), ({"url": "http://10.0.0.1"}, 400)],
)
def test_a_url_that_the_gateway_cannot_check_is_not_sent(url: Any, status: int) -> None:
    item = {"type": "future_item", "content": [{"image_url": url}]}
    with Running(SETTINGS, serve(own_events())) as gateway:
        body = {"model": "m", "input": [{"role": "user", "content": "Hi"}, item], "stream": True, "store": False}
        assert gateway.post("/v1/responses", body).status == status


@pytest.fixture(scope="module")
def server() -> ModelServer:
    return serve(own_events())


@pytest.fixture(scope="module")
def gateway(server: ModelServer) -> Iterator[Running]:
    with Running(SETTINGS, server) as running:
        yield running


@pytest.mark.skipif(not CASES, reason=f"no cases in {GOLDENS}")
@each_case("path", CASES, ids=lambda path: path.stem)
def test_the_cases_of_bodies_pass(path: Any, gateway: Running, server: ModelServer) -> None:
    case = json.loads(path.read_text("utf-8"))
    answer = gateway.post(case["path"], case["request"], case["headers"])
    assert answer.status == 200, answer.body
    assert json.loads(server.requests[-1].content) == case["expect"]["body"]


STREAMS = [row for row in REPLIES if row["stream"] and row["end"] == "completed"]


@needs_recordings
@each_case("row", STREAMS[::6], ids=lambda row: row["file"])
def test_every_recorded_stream_passes_event_by_event(row: Json) -> None:
    body = read_body(row)
    with Running(SETTINGS, ModelServer(lambda _: streamed(body))) as gateway:
        answer = gateway.post("/v1/responses", {"model": "m", "input": "Hi", "stream": True, "store": False})
    lines = [line[5:] for line in body.decode().splitlines() if line.startswith("data:") and "[DONE]" not in line]
    sent, got = [json.loads(line) for line in lines], frames(answer)
    assert [event["type"] for event in got] == [event["type"] for event in sent]
    assert all(len(ids) == 1 for ids in list_ids(got).values())
    for mine, own in zip(got, sent, strict=True):
        if "copilot" in row["file"]:  # which gives an item another id in each event
            mine, own = drop_ids(mine), drop_ids(own)
        if "response" in own:
            own["response"]["model"] = "m"
            own["response"]["output"] = (
                mine["response"]["output"] if not own["response"]["output"] else own["response"]["output"]
            )
        mine.pop("sequence_number", None)
        own.pop("sequence_number", None)
        assert mine == own


@each_case(
    ("reasoning", "sent"),
    [
        ({"summary": "detailed"}, {"summary": "detailed"}),
        ({"generate_summary": "concise"}, {"generate_summary": "concise"}),
        ({"effort": "low"}, {"effort": "low", "summary": "auto"}),
        ({"effort": "none", "summary": "detailed"}, {"effort": "none", "summary": "detailed"}),
        ({"effort": "none"}, {"effort": "none"}),
        ({"summary": 5}, {"summary": "auto"}),
    ],
)
def test_the_summary_that_the_client_asks_for_goes_before_that_of_the_profile(reasoning: Json, sent: Json) -> None:
    settings = SETTINGS | {"models": {"m": {"upstreams": ["s"], "profile": {"reasoning_summary": "auto"}}}}
    server = serve(own_events())
    with Running(settings, server) as gateway:
        answer = gateway.post("/v1/responses", {"model": "m", "input": "Hi", "reasoning": reasoning, "store": False})
    assert answer.status == 200
    assert json.loads(server.requests[0].content)["reasoning"] == sent


@each_case(
    ("given", "sent"),
    [
        ({}, {"effort": "low"}),
        ({"reasoning": {"effort": "high"}}, {"effort": "high"}),
        ({"reasoning": {"summary": "auto"}}, {"effort": "low", "summary": "auto"}),
        ({"reasoning": {"effort": "none"}}, {"effort": "none"}),
    ],
)
def test_the_effort_that_the_client_asks_for_goes_before_that_of_the_model(given: Json, sent: Json) -> None:
    settings = SETTINGS | {"models": {"m": {"upstreams": ["s"], "defaults": {"reasoning_effort": "low"}}}}
    server = serve(own_events())
    with Running(settings, server) as gateway:
        body = {"model": "m", "input": "Hi", "store": False, "unknown": 1, **given}
        assert gateway.post("/v1/responses", body).status == 200
    assert json.loads(server.requests[0].content)["reasoning"] == sent


THOUGHT: Json = {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "Hm."}]}
SAID: Json = {"type": "message", "role": "assistant", "content": "A"}


@each_case(
    ("kind", "item", "passes"),
    [
        ("openai", THOUGHT, False),
        ("openai", THOUGHT | {"encrypted_content": None}, False),
        ("openai", THOUGHT | {"encrypted_content": "E"}, True),
        ("openai_compatible", THOUGHT, True),
    ],
)
def test_reasoning_that_a_server_would_have_to_look_up_is_not_sent(kind: str, item: Json, passes: bool) -> None:
    upstream = SETTINGS["upstreams"]["s"] | {"kind": kind}
    server = serve(own_events())
    with Running(SETTINGS | {"upstreams": {"s": upstream}}, server) as gateway:
        given = [{"role": "user", "content": "Hi"}, item, SAID, {"role": "user", "content": "Go on"}]
        answer = gateway.post("/v1/responses", {"model": "m", "input": given, "store": False})
    sent = json.loads(server.requests[0].content)
    assert (item in sent["input"]) is passes
    assert [one for one in given if one is not item] == [one for one in sent["input"] if one != item]
    assert ("warnings" in answer.json.get("parley", {})) is not passes


@each_case(
    ("include", "sent"),
    [
        (None, ["reasoning.encrypted_content"]),
        (["x"], ["x", "reasoning.encrypted_content"]),
        (["reasoning.encrypted_content"], ["reasoning.encrypted_content"]),
    ],
)
def test_a_server_that_stores_nothing_is_asked_for_its_reasoning(include: Any, sent: Any) -> None:
    model = {"upstreams": ["s"], "profile": {"encrypted_reasoning": True}}
    server = serve(own_events())
    with Running(SETTINGS | {"models": {"m": model}}, server) as gateway:
        gateway.post("/v1/responses", {"model": "m", "input": "Hi", "include": include})
    assert [json.loads(request.content)["include"] for request in server.requests] == [sent]


def test_events_without_numbers_get_none() -> None:
    events = [{name: event[name] for name in event if name != "sequence_number"} for event in own_events()]
    with Running(SETTINGS, serve(events)) as gateway:
        answer = gateway.post("/v1/responses", {"model": "m", "input": "Hi", "stream": True, "store": False})
    assert [frame.get("sequence_number") for frame in frames(answer)] == [None] * len(events)


def test_custom_tools_and_namespaces_are_functions_for_a_server_that_knows_only_those() -> None:
    settings = {**SETTINGS, "upstreams": {"s": {**SETTINGS["upstreams"]["s"], "kind": "sglang"}}}
    patch = {"type": "custom", "name": "apply_patch", "description": "d"}
    inner = {"type": "function", "name": "js", "parameters": {"type": "object", "properties": {}}}
    tools = [patch, {"type": "namespace", "name": "mcp__repl", "description": "d", "tools": [inner]}]
    calls = [
        {
            "type": "function_call",
            "id": "a",
            "call_id": "a",
            "name": "apply_patch",
            "arguments": '{"input": "*** Begin"}',
        },
        {"type": "function_call", "id": "b", "call_id": "b", "name": "mcp__repl__js", "arguments": "{}"},
    ]
    whole = {"object": "response", "status": "completed", "output": calls}
    server = ModelServer(lambda _: httpx.Response(200, json=whole))
    with Running(settings, server) as gateway:
        answer = gateway.post("/v1/responses", {"model": "m", "input": "Hi", "store": False, "tools": tools}).json
        gateway.post("/v1/responses", {"model": "m", "input": "Hi", "store": False, "tools": [inner], "future": 1})
    sent, plain = (json.loads(request.content) for request in server.requests)
    assert [tool["type"] for tool in sent["tools"]] == ["function", "function"]
    assert [tool["name"] for tool in sent["tools"]] == ["apply_patch", "mcp__repl__js"]
    first, second = answer["output"]
    assert first["type"] == "custom_tool_call" and first["input"] == "*** Begin"
    assert second["name"] == "js" and second["namespace"] == "mcp__repl"
    assert any("become functions" in warning for warning in answer["parley"]["warnings"])
    assert plain["tools"] == [inner] and plain["future"] == 1


COMPATIBLE: Json = {
    "upstreams": {"s": {**SETTINGS["upstreams"]["s"], "kind": "openai_compatible"}},
    "models": SETTINGS["models"],
    "cache": {"url": "memory:", "apply": "always"},
}


def text_events(text: str) -> list[Json]:
    part = {"type": "output_text", "text": ""}
    item = {"type": "message", "id": "msg_1", "role": "assistant", "content": [{**part, "text": text}]}
    place = {"output_index": 0, "item_id": "msg_1", "content_index": 0}
    events: list[Json] = [
        {"type": "response.created", "response": {"id": "resp_up", "status": "in_progress", "extra": 1, "output": []}},
        {"type": "response.output_item.added", "output_index": 0, "item": {**item, "content": []}},
        {"type": "response.content_part.added", **place, "part": part},
        *({"type": "response.output_text.delta", **place, "delta": text[at : at + 6]} for at in range(0, len(text), 6)),
        {"type": "response.output_text.done", **place, "text": text},
        {"type": "response.output_item.done", "output_index": 0, "item": item},
        {"type": "response.completed", "response": {"id": "resp_up", "status": "completed", "output": [item]}},
    ]
    return [event | {"sequence_number": number} for number, event in enumerate(events)]


def test_reasoning_in_the_text_becomes_an_item_also_when_it_is_stored_and_repeated() -> None:
    server = serve(text_events("<think>Hm</think>Hello"))
    with Running(COMPATIBLE, server) as gateway:
        ask = {"model": "m", "input": "Hi", "stream": True, "store": False}
        first, second = (frames(gateway.post("/v1/responses", ask)) for _ in range(2))
        stored = frames(gateway.post("/v1/responses", ask | {"store": True}))[-1]["response"]
        kept = gateway.get(f"/v1/responses/{stored['id']}").json
    assert [frame["type"] for frame in first] == [frame["type"] for frame in second]
    assert len(server.requests) == 1
    assert [frame["sequence_number"] for frame in first] == list(range(len(first)))
    end = first[-1]["response"]
    assert (end["id"], end["extra"], end["status"]) == ("resp_up", 1, "completed")
    assert [item["type"] for item in end["output"]] == ["reasoning", "message"]
    assert [item["type"] for item in kept["output"]] == ["reasoning", "message"]


def test_a_document_in_place_of_a_stream_becomes_one_with_items_of_the_server() -> None:
    thought = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAA"}
    called = {"type": "function_call", "id": "fc_1", "call_id": "c", "name": "f", "arguments": "{}", "namespace": "n"}
    picture = {"type": "image_generation_call", "id": "ig_1", "status": "completed", "result": "AAAA"}
    output = [thought, OUTPUT[0], OUTPUT[1], picture, called]
    whole = {"id": "resp_up", "object": "response", "status": "completed", "output": output}
    with Running(SETTINGS, ModelServer(lambda _: httpx.Response(200, json=whole))) as gateway:
        got = frames(gateway.post("/v1/responses", {"model": "m", "input": "Hi", "stream": True, "store": False}))
    assert [got[0]["type"], got[-1]["type"]] == ["response.created", "response.completed"]
    items = got[-1]["response"]["output"]
    assert [item["type"] for item in items] == [item["type"] for item in output]
    assert items[0] == thought and items[1] == OUTPUT[0] and items[3] == picture and items[4]["namespace"] == "n"


def test_an_item_without_an_index_or_a_name_ends_the_servers_own_events() -> None:
    call: Json = {"type": "function_call", "id": "fc_1", "call_id": "c", "name": "f", "arguments": '{"a":1}'}
    added: Json = {"type": "response.output_item.added", "output_index": 0, "item": call | {"arguments": ""}}
    place: Json = {"output_index": 0, "item_id": "fc_1"}
    delta: Json = {"type": "response.function_call_arguments.delta", **place, "delta": '{"a":1}'}
    done: Json = {"type": "response.output_item.done", "output_index": 0, "item": call}
    created: Json = {"type": "response.created", "response": {"id": "r", "status": "in_progress", "output": []}}
    end: Json = {"type": "response.completed", "response": {"id": "r", "status": "completed", "output": [call]}}
    lacking: Json = {**done, "item": call | {"name": ""}}
    no_place = {name: delta[name] for name in delta if name != "output_index"}
    for events in ([created, added, delta, lacking, end], [created, added, no_place, done, end]):
        numbered = [event | {"sequence_number": number} for number, event in enumerate(events)]
        with Running(SETTINGS, serve(numbered)) as gateway:
            got = frames(gateway.post("/v1/responses", {"model": "m", "input": "Hi", "stream": True, "store": False}))
        assert [frame["sequence_number"] for frame in got] == list(range(len(got)))
        [item] = got[-1]["response"]["output"]
        assert (item["name"], item["arguments"], item["id"]) == ("f", '{"a":1}', "fc_1")
        assert [frame["type"] for frame in got].count("response.output_item.added") == 1


_MISSING: list[list[Json]] = [
    [],
    [{"type": "response.output_text.done", "item_id": "msg_1", "output_index": 0, "content_index": 0, "text": "Hi"}],
]


@each_case("events", _MISSING)
def test_a_text_and_a_call_that_only_the_end_has_are_streamed(events: list[Json]) -> None:
    call = {
        "type": "function_call",
        "id": "fc_1",
        "call_id": "c1",
        "name": "f",
        "arguments": "{}",
        "status": "completed",
    }
    text = {"type": "output_text", "text": "Hi", "annotations": []}
    message = {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": [text]}
    head = {"id": "resp_up", "object": "response", "model": "up-model"}
    given: list[Json] = [
        {"type": "response.created", "response": head | {"status": "in_progress", "output": []}},
        *events,
        {"type": "response.completed", "response": head | {"status": "completed", "output": [message, call]}},
    ]
    with Running(SETTINGS, serve(given)) as gateway:
        answer = gateway.post("/v1/responses", {"model": "m", "input": "Hi", "stream": True, "store": False})
    got = frames(answer)
    types = [event["type"] for event in got]
    assert "".join(event["delta"] for event in got if event["type"] == "response.output_text.delta") == "Hi"
    assert types.count("response.output_item.added") == types.count("response.output_item.done") == 2
    output = got[-1]["response"]["output"]
    assert [item["type"] for item in output] == ["message", "function_call"]
    assert output[0]["content"][0]["text"] == "Hi"


@each_case(("output", "count"), [([], 2), ([OUTPUT[0]], 1)])
def test_an_empty_response_is_asked_for_again_and_one_with_an_item_of_the_server_is_none(
    output: list[Json], count: int
) -> None:
    replies = [[own_events()[0], own_events(output=output)[-1]], own_events()]
    server = ModelServer(lambda _: streamed(write_stream(*replies.pop(0))))
    settings = SETTINGS | {"models": {"m": {"upstreams": ["s"], "max_retries": 1}}}
    with Running(settings, server) as gateway:
        gateway.post("/v1/responses", {"model": "m", "input": "Hi", "stream": True, "store": False})
    assert len(server.requests) == count


def events_of_changing_ids(*texts: str) -> list[Json]:
    """Reasoning, a text and a call, whose items have another id in each event (GitHub Copilot)."""
    thought: Json = {"type": "reasoning", "summary": [{"type": "summary_text", "text": "I look it up."}]}
    message: Json = {"type": "message", "role": "assistant", "status": "completed"}
    part: Json = {"type": "output_text", "text": "".join(texts), "annotations": []}
    called: Json = {"type": "function_call", "call_id": "call_1", "name": "search", "status": "completed"}
    items = [
        {**thought, "encrypted_content": "E"},
        {**message, "content": [part]},
        {**called, "arguments": '{"q": "x"}'},
    ]
    summary = {"output_index": 0, "summary_index": 0}
    place = {"output_index": 1, "content_index": 0}
    head: Json = {"id": "r", "object": "response", "model": "up-model"}
    events: list[Json] = [
        {"type": "response.created", "response": head | {"status": "in_progress", "output": []}},
        {"type": "response.output_item.added", "output_index": 0, "item": {**thought, "summary": []}},
        {"type": "response.reasoning_summary_part.added", **summary, "part": {"type": "summary_text", "text": ""}},
        {"type": "response.reasoning_summary_text.delta", **summary, "delta": "I look "},
        {"type": "response.reasoning_summary_text.delta", **summary, "delta": "it up."},
        {"type": "response.output_item.done", "output_index": 0, "item": items[0]},
        {"type": "response.output_item.added", "output_index": 1, "item": {**message, "content": []}},
        {"type": "response.content_part.added", **place, "part": {**part, "text": ""}},
        *[{"type": "response.output_text.delta", **place, "delta": text} for text in texts],
        {"type": "response.output_text.done", **place, "text": "".join(texts)},
        {"type": "response.content_part.done", **place, "part": part},
        {"type": "response.output_item.done", "output_index": 1, "item": items[1]},
        {"type": "response.output_item.added", "output_index": 2, "item": {**called, "arguments": ""}},
        {"type": "response.function_call_arguments.delta", "output_index": 2, "delta": '{"q": '},
        {"type": "response.function_call_arguments.delta", "output_index": 2, "delta": '"x"}'},
        {"type": "response.function_call_arguments.done", "output_index": 2, "arguments": '{"q": "x"}'},
        {"type": "response.output_item.done", "output_index": 2, "item": items[2]},
        {"type": "response.completed", "response": head | {"status": "completed", "output": items}},
    ]
    for number, event in enumerate(events):
        event["sequence_number"] = number
        if "item" in event:
            event["item"] = {**event["item"], "id": f"id_{number}"}
        elif "output_index" in event:
            event["item_id"] = f"id_{number}"
    events[-1]["response"]["output"] = [{**item, "id": f"last_{place}"} for place, item in enumerate(items)]
    return events


def drop_ids(event: Json) -> Json:
    """Return an event without the ids of its items and of its response."""
    kept = {name: value for name, value in event.items() if name != "item_id"}
    if "item" in event:
        kept["item"] = {**event["item"], "id": ""}
    if "response" in event:
        output = [{**one, "id": ""} for one in event["response"]["output"]]
        kept["response"] = {**event["response"], "id": "", "output": output}
    return kept


def list_ids(events: list[Json]) -> dict[int, set[str]]:
    """Return the ids of each item, by its place."""
    found: dict[int, set[str]] = {}
    for event in events:
        if "output_index" in event:
            found.setdefault(event["output_index"], set()).add(
                event["item"]["id"] if "item" in event else event["item_id"]
            )
        for place, item in enumerate(event.get("response", {}).get("output", [])):
            found.setdefault(place, set()).add(item["id"])
    return found


TOOLS = [{"type": "function", "name": "search", "parameters": {"type": "object"}}]


@each_case("size", [1, 7, 400, 100_000])
def test_a_client_gets_one_id_for_each_item_whatever_a_server_calls_it(size: int) -> None:
    # BerriAI/litellm#30071, EricLBuehler/mistral.rs#2309, emotionscientific/verlet-kernel#153
    own = events_of_changing_ids(*"The words of a longer answer, one by one.")
    body = write_stream(*own)
    server = ModelServer(lambda _: streamed(*[body[at : at + size] for at in range(0, len(body), size)]))
    with Running(SETTINGS, server) as gateway:
        asked = {"model": "m", "input": "Hi", "stream": True, "store": False, "tools": TOOLS}
        got = frames(gateway.post("/v1/responses", asked))
    assert list_ids(got) == {0: {"id_1"}, 1: {"id_6"}, 2: {f"id_{len(own) - 6}"}}
    own[0]["response"]["model"] = own[-1]["response"]["model"] = "m"
    assert [*map(drop_ids, got)] == [*map(drop_ids, own)]


@each_case("size", [1, 7, 400, 100_000])
def test_an_item_with_changing_ids_goes_on_where_the_gateway_writes_the_rest(size: int) -> None:
    texts = ["I look. ", "<tool_call>\n", '{"name": "search", "arguments": {"q": "y"}}', "\n</tool_call>"]
    own = events_of_changing_ids(*texts)
    body = write_stream(
        *own[:-6], own[-1] | {"response": {**own[-1]["response"], "output": own[-1]["response"]["output"][:2]}}
    )
    server = ModelServer(lambda _: streamed(*[body[at : at + size] for at in range(0, len(body), size)]))
    with Running(SETTINGS, server) as gateway:
        asked = {"model": "m", "input": "Hi", "stream": True, "store": False, "tools": TOOLS}
        got = frames(gateway.post("/v1/responses", asked))
    assert all(len(ids) == 1 for ids in list_ids(got).values())
    output = got[-1]["response"]["output"]
    assert [item["type"] for item in output] == ["reasoning", "message", "function_call"]
    assert output[1]["content"][0]["text"].strip() == "I look."
    assert (
        "".join(event["delta"] for event in got if event["type"] == "response.output_text.delta").strip() == "I look."
    )


def test_a_client_gets_one_id_of_a_response_that_a_server_names_anew_in_each_event() -> None:
    # duolahypercho/codex-router#814
    own = own_events()
    own[-1]["response"]["id"] = "resp_other"
    own.insert(1, {"type": "response.in_progress", "response": {**own[0]["response"], "id": "resp_third"}})
    with Running(SETTINGS, serve(own)) as gateway:
        asked = {"model": "m", "input": "Hi", "stream": True, "store": False}
        got = frames(gateway.post("/v1/responses", asked))
    assert [event["response"]["id"] for event in got if "response" in event] == ["resp_up"] * 3


@each_case("size", [1, 7, 400, 100_000])
def test_items_that_a_server_does_not_end_have_all_that_came_of_them(size: int) -> None:
    # anomalyco/opencode#40171
    def call(place: int) -> Json:
        return {"type": "function_call", "id": f"fc_{place}", "call_id": f"c{place}", "name": "search", "arguments": ""}

    thought: Json = {"type": "reasoning", "id": "rs_0", "summary": []}
    texts: list[Json] = [{"type": "message", "id": f"msg_{n}", "role": "assistant", "content": []} for n in (1, 2)]
    head: Json = {"id": "r", "object": "response", "model": "up-model"}
    items = [thought, *texts, call(3), {**texts[0], "id": "msg_4"}, call(5)]
    told = ["Hm.", "I look.", "And more.", '{"q": 1}', "Again.", '{"q": 2}']
    kinds = {"reasoning": "reasoning_text", "message": "output_text", "function_call": "function_call_arguments"}
    events: list[Json] = [{"type": "response.created", "response": head | {"status": "in_progress", "output": []}}]
    for place, (item, text) in enumerate(zip(items, told, strict=True)):
        events.append({"type": "response.output_item.added", "output_index": place, "item": item})
        for part in (text[:3], text[3:]):
            delta = {"type": f"response.{kinds[item['type']]}.delta", "item_id": item["id"], "delta": part}
            events += [delta | {"output_index": place, "content_index": 0}] if part else []
    events.append({"type": "response.completed", "response": head | {"status": "completed", "output": []}})
    body = write_stream(*events)
    server = ModelServer(lambda _: streamed(*[body[at : at + size] for at in range(0, len(body), size)]))
    with Running(SETTINGS, server) as gateway:
        asked = {"model": "m", "input": "Hi", "stream": True, "store": False, "tools": TOOLS}
        got = frames(gateway.post("/v1/responses", asked))
    ended = {event["output_index"]: event["item"] for event in got if event["type"] == "response.output_item.done"}
    output = got[-1]["response"]["output"]
    assert [ended[place] for place in range(6)] == output
    given = [one.get("arguments") or "".join(part["text"] for part in one["content"]) for one in output]
    assert (given, [one["id"] for one in output]) == (told, [item["id"] for item in items])
    assert {one.get("status", "completed") for one in output} == {"completed"}
