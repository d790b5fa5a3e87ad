"""The demo server over a real socket."""

import asyncio
import json
import logging
import signal
import socket
import time
from collections.abc import AsyncIterator, Iterator

import httpx
import pytest
import uvicorn
from app.demo.server import DemoServer, create_app
from sse_starlette.sse import AppStatus

pytestmark = pytest.mark.anyio

BODY = {"model": "anything", "messages": [{"role": "user", "content": "Hello\u2028 🙂 there"}]}
STREAMED = {**BODY, "stream": True, "stream_options": {"include_usage": True}}


@pytest.fixture
async def base_url() -> AsyncIterator[str]:
    server = DemoServer(delay_seconds=0)
    await server.start()
    yield server.base_url
    await server.stop()


async def post(base_url: str, body: object) -> httpx.Response:
    async with httpx.AsyncClient(verify=False) as client:
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        return await client.post(f"{base_url}/chat/completions", content=content)


def events(text: str) -> list[str]:
    return [event.removeprefix("data: ") for event in text.split("\n\n") if event]


async def test_a_stream_says_what_the_whole_reply_says(base_url: str) -> None:
    whole = (await post(base_url, BODY)).json()
    response = await post(base_url, STREAMED)
    *written, done = events(response.text)
    chunks = [json.loads(chunk) for chunk in written]
    deltas = [chunk["choices"][0]["delta"] for chunk in chunks if chunk["choices"]]
    message = whole["choices"][0]["message"]
    assert response.headers["content-type"].startswith("text/event-stream")
    assert done == "[DONE]"
    assert "".join(delta.get("reasoning_content", "") for delta in deltas) == message["reasoning_content"]
    assert "".join(delta.get("content", "") for delta in deltas) == message["content"]
    assert chunks[-2]["choices"][0]["finish_reason"] == whole["choices"][0]["finish_reason"] == "stop"
    assert chunks[-1]["choices"] == []
    assert chunks[-1]["usage"] == whole["usage"]
    assert {chunk["id"] for chunk in chunks} == {whole["id"]}
    assert {chunk["model"] for chunk in chunks} == {"anything"}


async def test_usage_is_streamed_only_when_it_is_requested(base_url: str) -> None:
    response = await post(base_url, {**BODY, "stream": True})
    assert "usage" not in response.text


async def test_calls_are_streamed_as_they_are_written_whole(base_url: str) -> None:
    function = {"name": "get_weather", "parameters": {"properties": {"city": {"type": "string"}}, "required": ["city"]}}
    body = {
        "model": "m",
        "messages": [{"role": "user", "content": "weather in Paris and Rome"}],
        "tools": [{"type": "function", "function": function}],
    }
    calls = (await post(base_url, body)).json()["choices"][0]["message"]["tool_calls"]
    built: dict[int, dict[str, str]] = {}
    for event in events((await post(base_url, {**body, "stream": True})).text)[:-1]:
        for piece in json.loads(event)["choices"][0]["delta"].get("tool_calls", []):
            call = built.setdefault(piece["index"], {"id": piece.get("id", ""), "name": "", "arguments": ""})
            call["name"] += piece["function"].get("name", "")
            call["arguments"] += piece["function"]["arguments"]
    assert list(built.values()) == [{"id": call["id"], **call["function"]} for call in calls]
    assert [json.loads(call["function"]["arguments"]) for call in calls] == [{"city": "Paris"}, {"city": "Rome"}]


@pytest.mark.parametrize(
    "body", [b"", b"{", b"[]", b"[" * 200_000, {"model": "m"}, {"messages": []}, {"model": "m", "messages": [{}]}]
)
async def test_a_malformed_request_is_a_400_in_the_shape_of_openai(base_url: str, body: object) -> None:
    response = await post(base_url, body)
    assert response.status_code == 400
    assert response.json()["error"].keys() == {"message", "type", "param", "code"}


USER = [{"role": "user", "content": "hi"}]


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "model"),
        ({"model": 3, "messages": USER}, "model"),
        ({"model": "m"}, "messages"),
        ({"model": "m", "messages": []}, "messages"),
        ({"model": "m", "messages": ["hi"]}, "messages.0"),
        ({"model": "m", "messages": [{"content": "hi"}]}, "messages.0.role"),
        ({"model": "m", "messages": [{"role": "user", "content": 3}]}, "messages.0.content"),
        ({"model": "m", "messages": USER, "tools": [{"type": "function"}]}, "tools.0.function"),
        ({"model": "m", "messages": USER, "tool_choice": "sometimes"}, "tool_choice"),
        ({"model": "m", "messages": USER, "max_tokens": 0}, "max_tokens"),
        ({"model": "m", "messages": USER, "response_format": {"type": "xml"}}, "response_format.type"),
    ],
)
async def test_the_error_for_a_malformed_request_names_the_field(base_url: str, body: object, field: str) -> None:
    response = await post(base_url, body)
    assert response.status_code == 400
    path, _, problem = response.json()["error"]["message"].partition(": ")
    assert path.startswith(field)
    assert problem


@pytest.mark.parametrize("body", [
    b'{"model":"m","messages":[{"role":"user","content":"x\\ud83d"}]}',
    b'{"model":"m","seed":' + b"9" * 5000 + b',"messages":[{"role":"user","content":"x"}]}',
])  # fmt: skip
async def test_text_and_numbers_that_cannot_be_written_are_no_server_error(base_url: str, body: object) -> None:
    assert (await post(base_url, body)).status_code in (200, 400)


@pytest.mark.parametrize("schema", [
    '{"type":"integer","minimum":1e400}', '{"type":"number","default":NaN}', '{"const":1e400}',
    '{"type":"integer","maximum":-' + "9" * 400 + "}",
])  # fmt: skip
async def test_a_schema_of_contradictory_numbers_is_no_server_error(base_url: str, schema: str) -> None:
    body = (
        f'{{"model":"m","messages":[{{"role":"user","content":"x"}}],"response_format":{{"type":"json_schema",'
        f'"json_schema":{{"schema":{schema}}}}}}}'
    )
    assert (await post(base_url, body.encode())).status_code in (200, 400)


async def test_it_lists_itself_as_the_only_model_and_knows_no_other_place(base_url: str) -> None:
    async with httpx.AsyncClient(verify=False) as client:
        models = await client.get(f"{base_url}/models")
        nowhere = await client.get(f"{base_url}/nowhere")
        wrong = await client.get(f"{base_url}/chat/completions")
    assert [model["id"] for model in models.json()["data"]] == ["parley-demo"]
    assert (nowhere.status_code, wrong.status_code) == (404, 405)


def list_tasks() -> set[str]:
    """The tasks of this loop, without the one that looks for a shutdown, which sse-starlette keeps for its streams."""
    names = (str(task.get_coro()) for task in asyncio.all_tasks())
    return {name for name in names if "_shutdown_watcher" not in name}


async def test_two_starts_and_stops_leave_no_task() -> None:
    before = list_tasks()
    server = DemoServer(delay_seconds=0)
    urls = []
    for _ in range(2):
        await server.start()
        urls.append(server.base_url)
        assert (await post(server.base_url, STREAMED)).text.endswith("data: [DONE]\n\n")
        await server.stop()
    await server.stop()
    assert list_tasks() == before
    for url in urls:
        with pytest.raises(httpx.ConnectError):
            await post(url, BODY)


async def test_it_cannot_be_started_twice(base_url: str) -> None:
    server = DemoServer()
    await server.start()
    with pytest.raises(RuntimeError):
        await server.start()
    await server.stop()


async def test_it_leaves_the_signals_and_the_logging_settings_of_the_process_alone() -> None:
    access = logging.getLogger("uvicorn.access")
    before = signal.getsignal(signal.SIGTERM), access.level, list(access.handlers), access.propagate
    server = DemoServer(delay_seconds=0)
    await server.start()
    during = signal.getsignal(signal.SIGTERM), access.level, list(access.handlers), access.propagate
    await server.stop()
    assert before == during


async def test_stopping_cuts_an_open_stream_at_once() -> None:
    server = DemoServer(delay_seconds=60)
    await server.start()
    url = f"{server.base_url}/chat/completions"
    received = b""
    async with httpx.AsyncClient(verify=False) as client, client.stream("POST", url, json=STREAMED) as response:
        pieces = response.aiter_bytes()
        received += await anext(pieces)
        began = time.monotonic()
        await server.stop()
        with pytest.raises(httpx.TransportError):
            async for piece in pieces:
                received += piece
    assert time.monotonic() - began < 1
    assert b"[DONE]" not in received


async def test_stopping_closes_the_connection_of_a_client_that_does_not_read() -> None:
    before = list_tasks()
    server = DemoServer(delay_seconds=0)
    await server.start()
    schema = {"const": "x" * 8_000_000}
    form = {"type": "json_schema", "json_schema": {"schema": schema}}
    body = json.dumps({**STREAMED, "response_format": form}).encode()
    request = b"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n\r\n" % len(body) + body
    with socket.create_connection(("127.0.0.1", httpx.URL(server.base_url).port)) as deaf:
        deaf.setblocking(False)
        await asyncio.get_running_loop().sock_sendall(deaf, request)
        assert await read_head(deaf) == b"HTTP/1.1 200 OK"
        began = time.monotonic()
        await server.stop()
    assert time.monotonic() - began < 1
    assert list_tasks() == before


async def read_head(connection: socket.socket) -> bytes:
    return (await asyncio.get_running_loop().sock_recv(connection, 64)).partition(b"\r\n")[0]


@pytest.mark.parametrize("depth", [100, 400, 900, 1_000, 3_000, 100_000])
async def test_however_deep_a_request_is_nested_it_is_no_server_error(base_url: str, depth: int) -> None:
    schema = '{"properties":{"a":' * depth + "{}" + '},"required":["a"]}' * depth
    tool = '{"function":{"name":"f","parameters":' + schema + "}}"
    body = '{"model":"m","messages":[{"role":"user","content":"call f"}],"tools":[' + tool + "]}"
    assert (await post(base_url, body.encode())).status_code in (200, 400)


@pytest.fixture
def spared() -> Iterator[None]:
    """SIGTERM does nothing to this process, and what sse-starlette remembers of it is forgotten."""
    former = signal.signal(signal.SIGTERM, lambda *_: None)
    yield
    signal.signal(signal.SIGTERM, former)
    AppStatus.should_exit = False


class Announced(uvicorn.Server):
    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.listening = asyncio.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.listening.set()


async def test_streams_outlive_a_sigterm_to_the_gateway_until_their_own_end(spared: None) -> None:
    demo = DemoServer(delay_seconds=0.015)
    await demo.start()
    gateway = Announced(uvicorn.Config(create_app(), port=0, log_config=None, lifespan="off"))
    serving = asyncio.create_task(gateway.serve())
    await gateway.listening.wait()
    async with httpx.AsyncClient(verify=False) as client:
        async with client.stream(
            "POST", f"{demo.base_url}/chat/completions", json={**BODY, "stream": True}
        ) as response:
            pieces = response.aiter_bytes()
            first = await anext(pieces)
            signal.raise_signal(signal.SIGTERM)
            await serving
            assert AppStatus.should_exit
            text = first + b"".join([piece async for piece in pieces])
        later = await client.post(f"{demo.base_url}/chat/completions", json={**BODY, "stream": True})
    await demo.stop()
    assert text.endswith(b"data: [DONE]\n\n")
    assert later.text.endswith("data: [DONE]\n\n")
