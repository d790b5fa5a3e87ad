"""`GET /v1/responses` as a WebSocket, with an ASGI server that is not the gateway's own."""

import asyncio
import hashlib
import json
from collections.abc import Callable
from typing import Any

import httpx
import pytest
from app.config.access import make_key_ring
from app.config.settings import Settings
from app.responses_api.record import ResponseRecord
from app.responses_api.websocket import SocketMemory
from msgspec.structs import replace

from tests.asgi_socket import Frame, SocketClient
from tests.each_case import each_case
from tests.in_process_gateway import HELLO, SERVER, STOP, ModelServer, Running, streamed

HI = {"type": "response.create", "model": "m", "input": "hi", "store": False}


def sent_texts(server: ModelServer, number: int = -1) -> list[Any]:
    return [message["content"] for message in json.loads(server.requests[number].content)["messages"]]


def with_socket(use: Callable[[SocketClient], None], settings: dict[str, Any] | None = None) -> ModelServer:
    server = ModelServer()
    with Running(settings or SERVER, server) as gateway:
        client = SocketClient(gateway)
        assert client.status == 101
        use(client)
        client.leave()
    return server


def test_a_response_is_its_events_as_frames_numbered_from_zero() -> None:
    def use(client: SocketClient) -> None:
        for _ in range(2):
            frames = client.ask(HI)
            assert (frames[0]["type"], frames[-1]["type"]) == ("response.created", "response.completed")
            assert [frame["sequence_number"] for frame in frames] == [*range(len(frames))]

    with_socket(use)


def test_the_next_request_continues_a_response_that_is_not_stored() -> None:
    def use(client: SocketClient) -> None:
        id_ = client.ask(HI)[0]["response"]["id"]
        client.ask({**HI, "input": "on", "previous_response_id": id_})
        (error,) = client.ask({**HI, "previous_response_id": id_})  # it is no longer the last one
        assert (error["status"], error["error"]["code"]) == (400, "previous_response_not_found")

    assert sent_texts(with_socket(use)) == ["hi", "Hello", "on"]


def test_each_stream_has_a_last_response_of_its_own() -> None:
    def use(client: SocketClient) -> None:
        first = client.ask({**HI, "stream_id": "a"})
        assert all(frame["stream_id"] == "a" for frame in first)
        client.ask({**HI, "stream_id": "b"})
        frames = client.ask({**HI, "stream_id": "a", "previous_response_id": first[0]["response"]["id"]})
        assert frames[-1]["type"] == "response.completed"

    with_socket(use)


def test_a_request_that_generates_nothing_asks_no_model_and_uses_no_limit() -> None:
    def use(client: SocketClient) -> None:
        frames = client.ask({**HI, "input": "first", "generate": False})
        made = frames[-1]["response"]
        assert [frame["type"] for frame in frames] == ["response.created", "response.completed"]
        assert (made["output"], made["usage"]["total_tokens"]) == ([], 0)
        assert client.ask({**HI, "previous_response_id": made["id"]})[-1]["type"] == "response.completed"
        (error,) = client.ask(HI)
        assert (error["status"], "retry-after" in error["headers"]) == (429, True)

    settings = SERVER | {"limits": {"requests_per_minute": 1}}
    assert sent_texts(with_socket(use, settings)) == ["first", "hi"]


@each_case(
    ("frame", "status", "param"),
    [
        ("{", 400, None),
        ("[]", 400, None),
        ("\ud800", 400, None),
        ({"type": "response.dance"}, 400, "type"),
        ({}, 400, "type"),
        ({**HI, "background": True}, 400, "background"),
        ({**HI, "generate": 1}, 400, "generate"),
        ({**HI, "stream_id": 3}, 400, "stream_id"),
        ({**HI, "model": "none"}, 404, "model"),
        ({**HI, "model": "none", "generate": False}, 404, "model"),
        ({**HI, "input": 3}, 400, "input"),
    ],
)
def test_a_mistake_is_an_error_with_a_status_and_the_socket_goes_on(frame: Any, status: int, param: str) -> None:
    def use(client: SocketClient) -> None:
        (error,) = client.ask(frame)
        assert (error["status"], error["error"]["param"]) == (status, param)
        assert client.ask(HI)[-1]["type"] == "response.completed"

    with_socket(use)


def test_a_binary_frame_closes_the_socket_and_a_long_one_too() -> None:
    with Running(SERVER | {"server": {"max_body_bytes": 1024}}) as gateway:
        client = SocketClient(gateway)
        client.send_bytes(b"x")
        assert (client.read(), client.close_code) == (None, 1003)
        client = SocketClient(gateway)
        client.send({**HI, "input": "x" * 2000})
        assert (client.read(), client.close_code) == (None, 1009)


def test_requests_of_one_stream_are_answered_in_order() -> None:
    def use(client: SocketClient) -> None:
        for text in ("one", "two"):
            client.send({**HI, "input": text})
        ids = [client.read_response()[-1]["response"]["id"] for _ in range(2)]
        assert len(set(ids)) == 2

    server = with_socket(use)
    assert [sent_texts(server, at) for at in range(2)] == [["one"], ["two"]]


def test_too_many_waiting_requests_are_refused() -> None:
    def use(client: SocketClient) -> None:
        for _ in range(40):
            client.send(HI)
        errors = [frames[0] for frames in (client.read_response() for _ in range(40)) if frames[0]["type"] == "error"]
        assert {error["status"] for error in errors} == {429}

    with_socket(use)


def test_a_cut_stream_ends_with_a_failed_response_and_replaces_nothing() -> None:
    answers = [streamed(HELLO, STOP), streamed(HELLO), streamed(HELLO, STOP)]
    server = ModelServer(lambda _: answers.pop(0))
    with Running(SERVER, server) as gateway:
        client = SocketClient(gateway)
        id_ = client.ask(HI)[0]["response"]["id"]
        frames = client.ask({**HI, "previous_response_id": id_})
        assert [frame["type"] for frame in frames if frame["type"] in ("error", "response.failed")] == [
            "response.failed"
        ]
        assert client.ask({**HI, "previous_response_id": id_})[-1]["type"] == "response.completed"
        client.leave()


def test_it_can_be_switched_off_and_is_limited_and_drains() -> None:
    with Running(SERVER | {"responses": {"websocket": False}}) as gateway:
        client = SocketClient(gateway)
        assert (client.status, client.error["code"] if client.error else None) == (426, "websocket_disabled")
    with Running(SERVER | {"responses": {"max_websockets": 1}}) as gateway:
        first = SocketClient(gateway)
        assert SocketClient(gateway).status == 503
        gateway.context.draining = True
        first.send(HI)
        frame = first.read()
        assert frame is not None
        assert (frame["status"], frame["error"]["code"]) == (503, "draining")
        assert (first.read(), first.close_code) == (None, 1012)


def test_what_runs_ends_while_the_gateway_drains() -> None:
    gate, started = asyncio.Event(), asyncio.Event()

    class Slow(ModelServer):
        async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
            started.set()
            await gate.wait()
            return await super().handle_async_request(request)

    with Running(SERVER, Slow()) as gateway:
        client = SocketClient(gateway)
        client.send(HI)
        gateway.loop.run_until_complete(asyncio.wait_for(started.wait(), 10))
        gateway.context.draining = True
        client.send({**HI, "stream_id": "b"})
        frame = client.read()
        assert frame is not None and (frame["status"], frame["stream_id"]) == (503, "b")
        gate.set()
        assert client.read_response()[-1]["type"] == "response.completed"
        client.leave()


def test_a_server_that_drains_ends_the_socket_behind_what_runs() -> None:
    gate, started = asyncio.Event(), asyncio.Event()

    class Slow(ModelServer):
        async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
            started.set()
            await gate.wait()
            return await super().handle_async_request(request)

    server = Slow()
    with Running(SERVER, server) as gateway:
        client = SocketClient(gateway)
        client.send(HI)
        client.send({**HI, "input": "waits, and is not begun"})
        gateway.loop.run_until_complete(asyncio.wait_for(started.wait(), 10))
        client.drain()
        gateway.loop.call_later(0.05, gate.set)
        assert client.read_response()[-1]["type"] == "response.completed"
        assert (client.read(), client.close_code) == (None, 1012)
        client.wait()
    assert len(server.requests) == 1


def test_an_old_socket_takes_no_further_request() -> None:
    with Running(SERVER | {"responses": {"websocket_seconds": 1e-9}}) as gateway:
        client = SocketClient(gateway)
        client.send(HI)
        frame = client.read()
        assert frame is not None
        assert (frame["status"], frame["error"]["code"]) == (400, "websocket_connection_limit_reached")
        assert (client.read(), client.close_code) == (None, 1000)


def test_a_response_that_is_too_old_for_the_memory_is_forgotten() -> None:
    with Running() as gateway:
        budget = gateway.context.budget
        memory = SocketMemory(budget.lease(), 100)
        memory.put("a", make_record("r1", "x" * 10))
        memory.put("b", make_record("r2", "x" * 20))
        assert (memory.find("r1"), memory.find("r2")) == ((["x" * 10], 14), (["x" * 20], 24))
        memory.put("b", make_record("r3", "x", status="failed"))
        assert memory.find("r2") is not None
        assert budget.held_bytes == 38
        memory.put("b", make_record("r4", "x" * 200))  # longer than the limit of one
        assert (memory.find("r2"), memory.find("r4"), budget.held_bytes) == (None, None, 14)
        other = budget.lease()
        other.change(budget.max_bytes // 2 - 20)
        memory.put("b", make_record("r5", "y" * 10))
        assert (memory.find("r1"), memory.find("r5")) == (None, (["y" * 10], 14))
        other.change(budget.max_bytes // 2)
        memory.put("b", make_record("r6", "z"))
        assert (memory.find("r5"), memory.find("r6")) == (None, None)
        other.release()
        memory.put("b", make_record("r7", "z"))
        memory.close()
        assert budget.held_bytes == 0
        memory.put("b", make_record("r8", "z"))
        assert (memory.find("r8"), budget.held_bytes) == (None, 0)


def make_record(id_: str, item: str, status: str = "completed") -> ResponseRecord:
    return ResponseRecord({"id": id_, "status": status}, [item], 1)


def test_requests_that_wait_count_their_memory() -> None:
    gate, started = asyncio.Event(), asyncio.Event()

    class Slow(ModelServer):
        async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
            started.set()
            await gate.wait()
            return await super().handle_async_request(request)

    with Running(SERVER, Slow()) as gateway:
        client, budget = SocketClient(gateway), gateway.context.budget
        client.send(HI)
        gateway.loop.run_until_complete(asyncio.wait_for(started.wait(), 10))
        client.send({**HI, "input": "x" * 100_000})
        gateway.loop.run_until_complete(asyncio.sleep(0.01))
        assert budget.held_bytes >= 100_000
        client.leave()
        assert budget.held_bytes == 0


def test_a_request_is_logged_and_counted_with_its_transport(capsys: pytest.CaptureFixture[str]) -> None:
    with Running(SERVER, ModelServer()) as gateway:
        client = SocketClient(gateway)
        client.ask({**HI, "generate": False})
        frames = client.ask({**HI, "dance": 1})
        assert any("dance" in text for text in frames[-1]["response"]["parley"]["warnings"])
        assert gateway.context.websockets == 1
        client.leave()
        assert gateway.context.websockets == 0
        metrics = gateway.get("/metrics").body.decode()
    lines = [json.loads(line) for line in capsys.readouterr().err.splitlines() if '"message":"request"' in line]
    (reply,) = [line for line in lines if line.get("transport") == "websocket"]
    assert (reply["endpoint"], reply["status"]) == ("responses", 200)
    assert [(line["method"], line["status"]) for line in lines if "method" in line][:2] == [("POST", 200), ("GET", 101)]
    assert len({line["request_id"] for line in lines}) == len(lines)
    assert 'parley_websocket_frames_total{direction="in"} 2.0' in metrics
    assert "parley_websockets 0.0" in metrics
    assert 'parley_requests_total{endpoint="responses",fault="",key="",model="m",outcome="completed"} 1.0' in metrics


def test_a_request_that_generates_nothing_is_stored_if_it_says_so() -> None:
    with Running(SERVER | {"cache": {"url": "memory:"}}, ModelServer()) as gateway:
        client = SocketClient(gateway)
        made = client.ask({**HI, "store": True, "generate": False})[-1]["response"]
        assert gateway.get(f"/v1/responses/{made['id']}").json["id"] == made["id"]
        client.leave()
    with Running(SERVER | {"responses": {"store": False}}, ModelServer()) as gateway:
        client = SocketClient(gateway)
        made = client.ask({**HI, "store": True, "generate": False})[-1]["response"]
        assert made["store"] is False
        client.leave()


def test_codex_gets_the_etag_of_its_list_at_the_handshake() -> None:
    with Running(SERVER, ModelServer()) as gateway:
        listed = gateway.get("/v1/models?client_version=1")
        client = SocketClient(gateway, {"originator": "codex_cli_rs"})
        assert client.headers["x-models-etag"] == listed.headers["etag"]
        client.leave()


def test_a_socket_of_another_path_is_refused_and_a_prefix_is_removed() -> None:
    with Running(SERVER | {"server": {"base_path": "/parley"}}, ModelServer()) as gateway:
        assert SocketClient(gateway, path="/v1/chat").status == 403
        client = SocketClient(gateway, path="/parley/v1/responses")
        assert client.ask(HI)[-1]["type"] == "response.completed"
        client.leave()


def test_a_server_that_has_closed_the_socket_itself_ends_it() -> None:
    with Running(SERVER, ModelServer()) as gateway:
        client = SocketClient(gateway)
        client.raises = RuntimeError("after close")
        client.send({"type": "response.dance"})
        client.wait()
        assert gateway.context.websockets == 0


def test_a_revoked_key_closes_the_socket() -> None:
    keys = {"k": {"sha256": hashlib.sha256(b"pk").hexdigest()}}
    with Running(SERVER | {"keys": keys}, ModelServer()) as gateway:
        client = SocketClient(gateway, {"authorization": "Bearer pk"})
        live = gateway.context.live
        other = Settings.model_validate(SERVER | {"keys": {"l": {"sha256": "0" * 64}}})
        ring = make_key_ring(other, None, gateway.context.jwks)
        gateway.context.live = replace(live, rules=replace(live.rules, keys=ring))
        (error,) = client.ask(HI)
        assert (error["status"], error["error"]["code"]) == (401, "invalid_api_key")
        assert (client.read(), client.close_code) == (None, 1008)
        client.wait()


def test_keys_and_origins_are_checked_at_the_handshake() -> None:
    keys = {"k": {"sha256": hashlib.sha256(b"pk").hexdigest()}}
    with Running(SERVER | {"keys": keys}, ModelServer()) as gateway:
        assert SocketClient(gateway).status == 401
        assert SocketClient(gateway, {"authorization": "Bearer pk", "origin": "https://evil.example"}).status == 403
        client = SocketClient(gateway, {"authorization": "Bearer pk"})
        assert client.ask(HI)[-1]["type"] == "response.completed"
        client.leave()


def test_a_model_server_gets_the_bytes_that_it_gets_over_http() -> None:
    tools = [{"type": "function", "name": "f", "parameters": {"type": "object", "properties": {}}}]
    settings = SERVER | {"upstreams": {"local": {"base_url": "http://model.test/v1", "kind": "vllm"}}}
    call = {"index": 0, "id": "c1", "function": {"name": "f", "arguments": "{}"}}
    pieces = [{"reasoning_content": "so"}, {"content": "Hello"}, {"tool_calls": [call]}]
    chunks = [json.dumps({"choices": [{"index": 0, "delta": delta}]}).encode() for delta in pieces]
    answer = lambda _: streamed(*(b"data: " + one + b"\n\n" for one in chunks), STOP)  # noqa: E731
    first = {**HI, "tools": tools, "include": ["reasoning.encrypted_content"]}
    more = [{"type": "function_call_output", "call_id": "c1", "output": "done"}]
    server = ModelServer(answer)
    with Running(settings, server) as gateway:
        client = SocketClient(gateway)
        made = client.ask(first)[-1]["response"]
        client.ask({**first, "input": more, "previous_response_id": made["id"]})
        client.leave()
        body = {name: value for name, value in first.items() if name != "type"} | {"stream": True}
        items = gateway.post("/v1/responses", body).frames[-1]["response"]["output"]
        user = {"type": "message", "role": "user", "content": "hi"}
        gateway.post("/v1/responses", {**body, "input": [user, *items, *more]})
    sent = [request.content for request in server.requests]
    assert sent[:2] == sent[2:]


GIVEN: list[Frame] = [
    {"role": "user", "content": "hi"},
    {"content": [{"type": "input_text", "text": "this"}], "type": "message", "role": "developer"},
    {"type": "reasoning", "summary": [], "encrypted_content": "E"},
    {"type": "message", "role": "assistant", "content": "well"},
    {"type": "function_call", "call_id": "c0", "name": "f", "arguments": "{}"},
    {"type": "function_call_output", "call_id": "c0", "output": "done"},
    {"type": "message", "id": "msg_own", "role": "user", "content": "on", "status": "completed"},
]


@each_case("passed_bodies", [True, False])
@each_case("stored", [True, False])
def test_remembered_items_are_sent_to_a_server_of_the_same_api_as_they_came(passed_bodies: bool, stored: bool) -> None:
    profile = {"passed_bodies": passed_bodies}
    upstream = {"base_url": "http://model.test/v1", "api": "responses", "kind": "openai"}
    models = {"m": {"upstreams": ["local"], "profile": profile}}
    settings = SERVER | {"upstreams": {"local": upstream}, "models": models, "cache": {"url": "memory:"}}
    text = {"type": "output_text", "text": "Hé", "annotations": []}
    said = {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": [text]}
    reply = {"id": "resp_up", "object": "response", "status": "completed", "model": "m", "output": [said]}
    server = ModelServer(
        lambda _: streamed(
            *(
                b"data: " + json.dumps(event).encode() + b"\n\n"
                for event in (
                    {"type": "response.output_item.done", "output_index": 0, "item": said},
                    {"type": "response.completed", "response": reply},
                )
            )
        )
    )
    more = [{"role": "user", "content": "more"}]
    with Running(settings, server) as gateway:
        client = SocketClient(gateway)
        first = {**HI, "input": GIVEN, "store": stored}
        made = client.ask(first)[-1]["response"]
        again = client.ask({**first, "input": more, "previous_response_id": made["id"]})[-1]["response"]
        client.ask({**first, "input": more, "previous_response_id": again["id"]})
        client.leave()
        body = {name: value for name, value in first.items() if name != "type"} | {"stream": True, "store": False}
        turns = [*GIVEN, *made["output"], *more]
        gateway.post("/v1/responses", {**body, "input": turns})
        gateway.post("/v1/responses", {**body, "input": [*turns, *again["output"], *more]})
        if stored:
            shown = gateway.get(f"/v1/responses/{made['id']}/input_items?order=asc").json["data"]
            assert [item["type"] for item in shown] == [item.get("type", "message") for item in GIVEN]
            assert shown[0]["content"] == [{"type": "input_text", "text": "hi"}] and all(item["id"] for item in shown)
            reference = {"type": "item_reference", "id": shown[0]["id"]}
            gateway.post("/v1/responses", {**body, "input": [reference]})
            assert json.loads(server.requests[-1].content)["input"][0]["content"] == "hi"
    sent = [request.content for request in server.requests]
    assert sent[1:3] == sent[3:5]
