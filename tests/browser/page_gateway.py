"""A gateway and a scripted model server in a thread of their own, for tests that drive a browser."""

import asyncio
import json
import threading
from collections.abc import Sequence
from contextlib import AsyncExitStack
from types import TracebackType
from typing import Any, Self

from app.config.settings import Settings

from tests.scripted_server import Reply
from tests.uvicorn_gateway import ByModel, serving


def delta(**fields: Any) -> bytes:
    """A chunk of a model server's stream."""
    return b"data: " + json.dumps({"choices": [{"index": 0, "delta": fields}]}).encode() + b"\n\n"


def end(reason: str, **usage: Any) -> bytes:
    chunk = {"choices": [{"index": 0, "delta": {}, "finish_reason": reason}], "usage": usage or None}
    return b"data: " + json.dumps(chunk).encode() + b"\n\ndata: [DONE]\n\n"


def stream(*chunks: bytes | asyncio.Event) -> Reply:
    return Reply(chunks=chunks, chunked=True)


class PageGateway:
    """`with PageGateway({...}, models={"m": reply}) as gateway`: its settings are those given and the models."""

    def __init__(self, settings: dict[str, Any], models: dict[str, Reply] | None = None) -> None:
        self._tree = settings
        self._models = models or {}
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._stack = AsyncExitStack()
        self.server = ByModel()
        self.url = ""

    def set(self, event: asyncio.Event) -> None:
        """Set an event that a reply waits for."""
        self._loop.call_soon_threadsafe(event.set)

    def set_in_turn(self, events: Sequence[asyncio.Event]) -> None:
        """Set one event after the other, some 10 milliseconds apart, as a model writes."""

        async def set_each() -> None:
            for number, event in enumerate(events):
                await asyncio.sleep(0.006 + 0.004 * (number % 3) + 0.03 * (number % 17 == 16))
                event.set()

        asyncio.run_coroutine_threadsafe(set_each(), self._loop)

    def __enter__(self) -> Self:
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self._start(), self._loop).result(60)
        return self

    def __exit__(self, kind: type[BaseException] | None, _: BaseException | None, __: TracebackType | None) -> None:
        asyncio.run_coroutine_threadsafe(self._stack.aclose(), self._loop).result(60)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(60)
        self._loop.close()

    async def _start(self) -> None:
        await self._stack.enter_async_context(self.server)
        self.server.scripts.update(self._models)
        tree = dict(self._tree)
        if self._models:
            given = tree.get("models", {})
            rows = {name: {"upstreams": ["local"]} | given.get(name, {}) for name in self._models}
            tree["upstreams"] = {"local": {"base_url": f"{self.server.url}/v1"}} | tree.get("upstreams", {})
            tree["models"] = given | rows
        client = await self._stack.enter_async_context(serving(Settings.model_validate(tree)))
        self.url = str(client.base_url).rstrip("/")
