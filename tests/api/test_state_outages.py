"""State while its store fails: what is said to be stored or deleted is so, and what cannot be read is not missing."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import httpx
import pytest

from tests.in_process_gateway import HELLO, SERVER, STOP, Answer, ModelServer, Running, streamed
from tests.redis_server import RedisServer

Json = dict[str, Any]
BODY: Json = {"model": "m", "input": "Hi"}
CALL = (
    b'data: {"choices":[{"index":0,"delta":{"reasoning_content":"Hm.","tool_calls":[{"index":0,"id":"call_x1y2",'
    b'"type":"function","function":{"name":"f","arguments":"{}"}}]}}]}\n\n'
    b'data: {"choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]}\n\n'
)


class Gateway:
    """A gateway whose cache and state are in Redis."""

    def __init__(
        self,
        redis: RedisServer,
        loop: asyncio.AbstractEventLoop,
        answer: Callable[[], httpx.Response] = lambda: streamed(HELLO, STOP),
        profile: Json | None = None,
    ) -> None:
        self.redis = redis
        self.server = ModelServer(lambda _: answer())
        models = {"m": {"upstreams": ["local"], "profile": profile or {}}}
        tree = {**SERVER, "models": models, "cache": {"url": redis.url}}

        async def start() -> Running:
            return Running(tree, self.server, loop=loop)

        self.running = loop.run_until_complete(start())

    def post(self, path: str = "/v1/responses", **body: Any) -> Answer:
        return self.running.post(path, {**BODY, **body})

    def ask(self, method: str, path: str) -> Answer:
        return self.running.ask(method, f"/v1/responses/{path}")

    def go_on(self) -> None:
        """Let Redis go on, and wait until the gateway has noticed."""
        self.redis.go_on()
        self.running.loop.run_until_complete(asyncio.wait_for(self._until_connected(), 10))

    async def _until_connected(self) -> None:
        while not await self._finds_store():
            await asyncio.sleep(0.05)

    async def _finds_store(self) -> bool:
        return (await self.running.ask_async("GET", "/v1/responses/resp_0")).status == 404


@pytest.fixture
def loop() -> Iterator[asyncio.AbstractEventLoop]:
    loop = asyncio.new_event_loop()
    yield loop
    loop.run_until_complete(loop.shutdown_asyncgens())
    loop.close()


@pytest.fixture
def gateway(own_redis: RedisServer, loop: asyncio.AbstractEventLoop) -> Iterator[Gateway]:
    gateway = Gateway(own_redis, loop)
    with gateway.running:
        yield gateway
        own_redis.go_on()


def is_outage(answer: Answer) -> bool:
    error = answer.json["error"]
    return (answer.status, error["type"], error["retryable"]) == (503, "server_error", True)


@pytest.mark.parametrize("stream", [False, True])
def test_a_response_that_cannot_be_stored_says_so(gateway: Gateway, stream: bool) -> None:
    stored = gateway.post(stream=stream)
    gateway.redis.pause()
    for _ in range(2):
        answer = gateway.post(stream=stream)
        response = answer.frames[-1]["response"] if stream else answer.json
        assert (answer.status, response["status"], response["store"]) == (200, "completed", False)
        assert "cannot be stored" in response["parley"]["warnings"][-1]
    gateway.go_on()
    assert gateway.ask("GET", response["id"]).status == 404
    before = stored.frames[-1]["response"] if stream else stored.json
    assert before["store"] is True and gateway.ask("GET", before["id"]).json == before


def test_what_is_stored_is_not_missing_while_its_store_fails(gateway: Gateway) -> None:
    id_ = gateway.post().json["id"]
    asked = len(gateway.server.requests)
    gateway.redis.pause()
    for _ in range(2):
        assert is_outage(gateway.post(previous_response_id=id_))
        assert is_outage(gateway.post(input=[{"type": "item_reference", "id": f"msg_{id_[5:]}_0"}]))
        for method, path in (
            ("GET", id_),
            ("GET", f"{id_}?stream=true"),
            ("GET", f"{id_}/input_items"),
            ("DELETE", id_),
            ("POST", f"{id_}/cancel"),
        ):
            assert is_outage(gateway.ask(method, path)), (method, path)
    gateway.go_on()
    assert len(gateway.server.requests) == asked
    assert gateway.ask("GET", id_).status == 200
    assert gateway.ask("DELETE", id_).json["deleted"] is True
    assert gateway.ask("GET", id_).status == 404


@pytest.mark.parametrize("stream", [False, True])
def test_a_background_response_is_refused_before_its_call_if_it_cannot_be_stored(
    gateway: Gateway, stream: bool
) -> None:
    gateway.redis.pause()
    for _ in range(2):
        assert is_outage(gateway.post(background=True, stream=stream))
    context = gateway.running.context
    assert gateway.server.requests == [] and context.in_progress == 0 and not context.replies.active
    gateway.go_on()
    answer = gateway.post(background=True)
    assert (answer.status, answer.json["status"]) == (200, "queued")


class HeldBody(httpx.AsyncByteStream):
    def __init__(self, release: asyncio.Event) -> None:
        self._release = release

    async def __aiter__(self) -> AsyncIterator[bytes]:
        yield HELLO
        await self._release.wait()
        yield STOP


def test_the_end_of_a_background_response_is_stored_when_the_store_is_back(
    own_redis: RedisServer, loop: asyncio.AbstractEventLoop
) -> None:
    release, headers = asyncio.Event(), {"content-type": "text/event-stream"}
    gateway = Gateway(own_redis, loop, lambda: httpx.Response(200, headers=headers, stream=HeldBody(release)))
    with gateway.running:

        async def run() -> tuple[Json, Answer]:
            body = json.dumps({**BODY, "background": True, "stream": True}).encode()
            streaming = asyncio.create_task(gateway.running.ask_async("POST", "/v1/responses", [body]))
            while not gateway.server.requests:
                await asyncio.sleep(0.01)
            id_ = next(iter(gateway.running.context.replies.active)).info.response_id
            while (await gateway.running.ask_async("GET", f"/v1/responses/{id_}")).json["status"] != "in_progress":
                await asyncio.sleep(0.01)
            own_redis.pause()
            release.set()
            await asyncio.sleep(1.0)
            assert not streaming.done()  # the client gets the end once it is stored
            # The run answers for itself while the store fails.
            described = (await gateway.running.ask_async("GET", f"/v1/responses/{id_}")).json
            own_redis.go_on()
            return described, await streaming

        described, streamed_answer = gateway.running.loop.run_until_complete(run())
        last = streamed_answer.frames[-1]["response"]
        assert described["status"] == last["status"] == "completed" and last["store"] is True
        assert gateway.ask("GET", last["id"]).json == last


def test_a_conversation_without_its_reasoning_is_not_sent_while_the_reasoning_cannot_be_read(
    own_redis: RedisServer, loop: asyncio.AbstractEventLoop
) -> None:
    gateway = Gateway(own_redis, loop, lambda: streamed(CALL, b"data: [DONE]\n\n"), {"restore_reasoning": True})
    user = {"role": "user", "content": "Hi"}
    tools = [{"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": {}}}}]

    def ask(messages: list[Json]) -> Answer:
        body = {"model": "m", "messages": messages, "tools": tools, "cache": {"mode": "off"}}
        return gateway.running.post("/v1/chat/completions", body)

    with gateway.running:
        message = ask([user]).json["choices"][0]["message"]
        history = [user, {key: message[key] for key in ("role", "content", "tool_calls")}]
        history.append({"role": "tool", "tool_call_id": "call_x1y2", "content": "ok"})
        own_redis.pause()
        refused = ask(history)
        assert (refused.status, refused.json["error"]["code"]) == (503, "overloaded")
        assert len(gateway.server.requests) == 1
        assert ask([user]).status == 200  # it needs no reasoning, and only its own is not kept
        gateway.go_on()
        assert ask(history).status == 200
    sent = json.loads(gateway.server.requests[-1].content)["messages"]
    assert sent[1]["reasoning_content"] == "Hm."


def test_a_reply_of_another_gateway_is_not_missing_while_redis_is_down(
    own_redis: RedisServer, loop: asyncio.AbstractEventLoop
) -> None:
    one, other = Gateway(own_redis, loop), Gateway(own_redis, loop)
    with one.running, other.running:
        answer = one.running.post("/v1/chat", {"messages": [{"role": "user", "content": "Hi"}]})
        path = f"/v1/chat/{answer.headers['x-parley-response-id']}"
        while other.running.get(path).status == 202:
            pass
        assert other.running.get(path).status == 200
        own_redis.pause()
        for _ in range(2):
            for method, suffix in (("GET", ""), ("GET", "/events"), ("GET", "/events?after=1"), ("DELETE", "")):
                refused = other.running.ask(method, path + suffix)
                assert (refused.status, refused.json["error"]["retryable"]) == (503, True), (method, suffix)
        assert one.running.get(path).status == one.running.get(f"{path}/events").status == 200
        own_redis.go_on()
