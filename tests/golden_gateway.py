"""A gateway in this process in front of a model server that plays the `upstream` of a golden reply."""

import asyncio
import json
from collections.abc import Callable
from typing import Any, Self

import httpx
from app.responses_api.record import ResponseRecord, StoredResponses

from tests.in_process_gateway import STOP, Answer, ModelServer, Pieces, Running, streamed

Json = dict[str, Any]
SETTINGS: Json = {
    "upstreams": {"local": {"base_url": "http://model.test/v1"}},
    "models": {name: {"upstreams": ["local"]} for name in ("qwen3", "claude-sonnet-4-5")},
    "cache": {"url": "memory:", "apply": "on_request"},
    "server": {"log_level": "error"},
}
NOBODY = "nobody"
"""The caller of a gateway without API keys."""


class Broken(Pieces):
    """A connection that is reset after these pieces."""

    async def __aiter__(self) -> Any:
        async for piece in super().__aiter__():
            yield piece
        raise httpx.ReadError("connection reset")


class GoldenGateway:
    """`with GoldenGateway(to_bytes) as gateway`: `to_bytes` writes the stream of a case's `upstream`."""

    def __init__(self, to_bytes: Callable[[Json], bytes]) -> None:
        self._to_bytes = to_bytes
        self._upstream: Json | None = None
        self._server = ModelServer(lambda _: self._reply())
        self._running = Running(SETTINGS, self._server)

    def __enter__(self) -> Self:
        self._running.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self._running.__exit__()

    def post(self, path: str, body: Json) -> Answer:
        return self._running.post(path, body)

    @property
    def sent(self) -> list[Json]:
        """The bodies that the model server was sent."""
        return [json.loads(request.content) for request in self._server.requests]

    def answer_with(self, upstream: Json | None) -> None:
        """The model server gives this reply from now on; None: a reply without text."""
        self._upstream = upstream

    def store(self, stored: Json) -> None:
        """Store what earlier responses left."""
        context = self._running.context
        kept = StoredResponses(context.state, enabled=True, ttl_seconds=60, max_bytes=1_000_000)
        for id_, items in stored.get("responses", {}).items():
            response = {"id": id_, "model": "qwen3", "status": "completed"}
            asyncio.run(kept.put(NOBODY, ResponseRecord(response, items, 0)))

    def _reply(self) -> httpx.Response:
        upstream = self._upstream
        if upstream is None:
            return streamed(STOP)
        if "status" not in upstream:
            pieces = (Broken if upstream.get("cut") else Pieces)([self._to_bytes(upstream)])
            return httpx.Response(200, headers={"content-type": "text/event-stream"}, stream=pieces)
        if isinstance(upstream["body"], str):
            return httpx.Response(upstream["status"], html=upstream["body"])
        return httpx.Response(upstream["status"], json=upstream["body"])
