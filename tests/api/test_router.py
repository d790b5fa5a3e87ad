"""Endpoints that are plain ASGI callables, as routes of the application."""

import asyncio
import gc
import logging
import weakref
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import pytest
from app.api.asgi import Receive, Scope, send_json
from app.api.middleware import RequestMiddleware, RequestRules
from app.api.origins import OriginRules
from app.api.response_writer import find_offered_writer
from app.api.router import list_reply_routes
from fastapi import FastAPI
from uvicorn.server import ServerState

from tests.client_transport import Transport, connect

pytestmark = pytest.mark.anyio

REQUEST = b"POST /a HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{}"
RULES = RequestRules(OriginRules("127.0.0.1"))


class Endpoint:
    """An endpoint that does what the test says, and counts its requests."""

    def __init__(self, answer: Callable[[Scope, Any], Awaitable[None]]) -> None:
        self.count = 0
        self._answer = answer

    async def __call__(self, scope: Scope, receive: Receive, send: Any) -> None:
        self.count += 1
        await self._answer(scope, send)


class Client:
    """A connection to an application with these endpoints, which `wrap` may put into another one."""

    def __init__(self, endpoints: Mapping[str, Endpoint], wrap: Callable[[Any], Any] = lambda app: app) -> None:
        self.transport = Transport()
        self.state = ServerState()
        app = FastAPI(openapi_url=None)
        app.add_middleware(RequestMiddleware, get_rules=lambda: RULES)
        for path, endpoint in endpoints.items():
            app.router.routes += list_reply_routes(path, endpoint)
        self.connection = connect(wrap(app), self.transport, self.state)

    async def ask(self, request: bytes = REQUEST) -> bytes:
        """Return what is written once all requests of this connection have ended."""
        self.connection.data_received(request)
        while self.state.tasks:
            await asyncio.gather(*self.state.tasks, return_exceptions=True)
            await asyncio.sleep(0)
        return b"".join(self.transport.writes)


async def answer(_: Scope, send: Any) -> None:
    await send_json(send, 200, {"ok": True})


async def answer_nothing(_: Scope, send: Any) -> None: ...


async def begin_and_fail(scope: Scope, _: Any) -> None:
    writer = find_offered_writer(scope)
    assert writer is not None
    writer.start(200, ())
    writer.write(b"a part", last=False)
    raise RuntimeError("a defect")


async def be_cancelled(_: Scope, send: Any) -> None:
    raise asyncio.CancelledError


async def test_pipelined_requests_are_answered_in_their_order_and_the_connection_stays_open() -> None:
    endpoint = Endpoint(answer)
    client = Client({"/a": endpoint})
    written = await client.ask(REQUEST + REQUEST)
    assert written.count(b"HTTP/1.1 200 OK\r\n") == written.count(b'{"ok":true}') == 2
    assert endpoint.count == 2 and not client.transport.closed


async def test_an_application_that_wraps_the_gateway_gets_every_request() -> None:
    seen: list[str] = []

    def wrap(app: Any) -> Any:
        async def wrapper(scope: Any, receive: Any, send: Any) -> None:
            seen.append(scope["path"])
            await app(scope, receive, send)

        return wrapper

    written = await Client({"/a": Endpoint(answer)}, wrap).ask()
    assert written.startswith(b"HTTP/1.1 200 OK\r\n") and seen == ["/a"]


@pytest.mark.parametrize("ending", [answer_nothing, be_cancelled])
async def test_a_request_whose_endpoint_ends_without_a_response_is_answered_with_500(
    ending: Callable[[Scope, Any], Awaitable[None]], caplog: pytest.LogCaptureFixture
) -> None:
    client = Client({"/a": Endpoint(ending)})
    with caplog.at_level(logging.ERROR):
        written = await client.ask()
    assert written.startswith(b"HTTP/1.1 500 ") and b"\r\nconnection: close\r\n" in written
    assert client.transport.closed and "without completing its response" in caplog.text


async def test_a_response_that_an_endpoint_does_not_complete_ends_with_its_connection(
    caplog: pytest.LogCaptureFixture,
) -> None:
    client = Client({"/a": Endpoint(begin_and_fail)})
    with caplog.at_level(logging.ERROR):
        written = await client.ask()
    assert b"a part" in written and b"0\r\n\r\n" not in written
    assert client.transport.closed and "a defect" in caplog.text


async def test_a_request_that_has_ended_is_freed_without_the_garbage_collector() -> None:
    requests: list[weakref.ref[Any]] = []

    class Held:
        """Compiled objects have no weak references; this is held by one."""

    async def keep_request(scope: Scope, send: Any) -> None:
        held = scope["held"] = Held()
        requests.append(weakref.ref(held))
        await answer(scope, send)

    client = Client({"/a": Endpoint(keep_request)})
    gc.disable()
    try:
        for _ in range(3):
            await client.ask()
        assert [held() is None for held in requests] == [True, True, False], "the last one is the connection's"
    finally:
        gc.enable()
