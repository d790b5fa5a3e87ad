"""A real gateway on a loopback port, in the loop of the test, and what a model server would stream to it."""

import asyncio
import json
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, cast

from app.api.context import AppContext
from app.config.settings import Settings
from app.config.storage import OpenStorage, open_storage
from app.main import create_app
from app.routing import RetryBudget
from app.server.connection import ClientConnection
from app.server.process import ParleyServer, config
from app.upstream.http.client import GRACE_SECONDS
from app.upstream.http.transport import PushTransport
from fastapi import FastAPI

from tests.live.raw_client import DEADLINE_SECONDS
from tests.scripted_server import ScriptedServer

DONE = b"data: [DONE]\n\n"


def chunk(delta: dict[str, Any], finish_reason: str | None = None) -> bytes:
    choice = {"index": 0, "delta": delta, "finish_reason": finish_reason}
    return b"data: " + json.dumps({"choices": [choice]}).encode() + b"\n\n"


def say(text: str) -> bytes:
    return chunk({"content": text})


def end(reason: str = "stop") -> bytes:
    return chunk({}, reason)


class Gateway:
    def __init__(
        self, app: FastAPI, server: ParleyServer, transport: PushTransport, port: int, open_storage: OpenStorage
    ) -> None:
        self.open_storage = open_storage
        self._server = server
        self.context: AppContext = app.state.context
        self.transport = transport
        self.address = ("127.0.0.1", port)
        self.url = f"http://127.0.0.1:{port}"

    @property
    def callers(self) -> int:
        """Connections of callers that are open."""
        return len(self._server.server_state.connections)

    def pass_time(self, seconds: float) -> None:
        """Let this time pass for the connections of callers."""
        for connection in list(self._server.server_state.connections):
            cast(ClientConnection, connection).tick(seconds)

    def quiet(self) -> bool:
        """Nothing is left of any request but connections that are kept for the next one."""
        context = self.context
        return (
            not context.replies.active
            and not len(context.replies.ticker)
            and not context.in_progress
            and self.transport.idle_connections == self.transport.open_connections
        )


async def eventually(true: Callable[[], bool], seconds: float = DEADLINE_SECONDS) -> None:
    """For what no event announces."""
    async with asyncio.timeout(seconds):
        while not true():
            await asyncio.sleep(0.002)


def settings(url: str, server: dict[str, Any], upstream: dict[str, Any]) -> Settings:
    defaults = {"port": 0, "heartbeat_seconds": 5, "commit_seconds": 5, "log_level": "error"}
    row = {"base_url": f"{url}/v1", "first_token_seconds": 5, "idle_seconds": 5, "connect_seconds": 5}
    tree = {"server": defaults | server, "upstreams": {"local": row | upstream}, "passthrough": "local"}
    tree["cache"] = {"url": "null:"}
    return Settings.model_validate(tree)


def make_server(what: Settings, app: FastAPI) -> ParleyServer:
    """A server of the application that does not listen yet."""
    ours = config(what.server, lambda: app)
    ours.load()
    server = ParleyServer(ours)
    server.lifespan = ours.lifespan_class(ours)
    return server


@asynccontextmanager
async def serving(
    upstream: ScriptedServer | str,
    *,
    server: dict[str, Any] | None = None,
    upstream_row: dict[str, Any] | None = None,
    grace_seconds: float = GRACE_SECONDS,
) -> AsyncIterator[Gateway]:
    """A gateway in front of the upstream. When it is left, nothing may be left of any request."""
    url = upstream if isinstance(upstream, str) else upstream.url
    async with serving_with(settings(url, server or {}, upstream_row or {}), grace_seconds=grace_seconds) as gateway:
        yield gateway


@asynccontextmanager
async def serving_with(
    what: Settings,
    open_storage: OpenStorage = open_storage,
    grace_seconds: float = GRACE_SECONDS,
    retry_budget: RetryBudget | None = None,
) -> AsyncIterator[Gateway]:
    before = asyncio.all_tasks()
    transport = PushTransport()
    app = create_app(what, transport, open_storage=open_storage, grace_seconds=grace_seconds, retry_budget=retry_budget)
    listener = socket.create_server(("127.0.0.1", 0))
    server = make_server(what, app)
    await server.listen([listener])
    running = asyncio.create_task(server.main_loop())
    gateway = Gateway(app, server, transport, listener.getsockname()[1], open_storage)
    try:
        yield gateway
        await eventually(gateway.quiet)
    finally:
        server.should_exit = True
        await running
        server.drop_connections()
        await server.shutdown(sockets=[listener])
    assert transport.open_connections == 0
    names = ("_deliver", "_left", "_flush", "__call__", "serve")
    await eventually(lambda: not [task for task in asyncio.all_tasks() - before if _name(task) in names])


def _name(task: asyncio.Task[Any]) -> str:
    return str(getattr(task.get_coro(), "__name__", ""))
