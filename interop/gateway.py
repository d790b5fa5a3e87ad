"""A gateway on a free port that remembers what it was asked."""

import asyncio
import json
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from app.config.settings import Settings
from app.main import create_app
from app.server.process import ParleyServer, config

from interop.servers import Misbehaving, settings

KEPT_HEADERS = ("content-type", "accept", "openai-beta")
"""Headers worth keeping: none of them tells a machine or a key."""


@dataclass(frozen=True, slots=True)
class Asked:
    method: str
    path: str
    headers: dict[str, str]
    body: Any
    status: int
    """What the gateway answered."""


@dataclass(slots=True)
class Gateway:
    """An application around the application."""

    app: Any
    url: str = ""
    asked: list[Asked] = field(default_factory=list)
    hits: int = 0
    """Replies that came from the cache."""

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        raw: list[bytes] = []

        async def observe_receive() -> Any:
            message = await receive()
            raw.append(message.get("body", b""))
            return message

        async def observe_send(message: Any) -> None:
            if message["type"] == "http.response.start":
                self.asked.append(_asked(scope, b"".join(raw), message["status"]))
                self.hits += (b"x-parley-cache", b"hit") in message["headers"]
            await send(message)

        # The server offers a writer that sends replies past this application.
        await self.app({**scope, "extensions": {}}, observe_receive, observe_send)


def _asked(scope: Any, body: bytes, status: int) -> Asked:
    headers = {name.decode(): value.decode("latin-1") for name, value in scope["headers"]}
    kept = {name: headers[name] for name in KEPT_HEADERS if name in headers}
    return Asked(scope["method"], scope["path"], kept, json.loads(body) if body else None, status)


@asynccontextmanager
async def serving(cache: str) -> AsyncIterator[Gateway]:
    async with Misbehaving() as server:
        what = Settings.model_validate({**settings(server.url), "cache": {"url": cache, "apply": "always"}})
        gateway = Gateway(create_app(what))
        listener = socket.create_server(("127.0.0.1", 0))
        gateway.url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        ours = config(what.server, lambda: gateway)
        ours.load()
        parley = ParleyServer(ours)
        parley.lifespan = ours.lifespan_class(ours)
        await parley.listen([listener])
        running = asyncio.create_task(parley.main_loop())
        try:
            yield gateway
        finally:
            parley.should_exit = True
            await running
            await parley.shutdown(sockets=[listener])
