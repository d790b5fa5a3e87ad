"""A real gateway with a cache, a model server that counts its requests, and clients."""

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import httpx
from app.config.settings import Settings
from app.config.storage import OpenStorage, open_storage
from typing_extensions import override

from tests.light_client import light_client
from tests.live.gateway import Gateway, eventually, serving_with
from tests.live.raw_client import ASK, Frame, checked
from tests.scripted_server import Reply, Request, ScriptedServer

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    headers: httpx.Headers
    body: bytes

    @property
    def label(self) -> str:
        """What the gateway says of the cache."""
        return self.headers["x-parley-cache"]

    @property
    def json(self) -> Json:
        return dict(json.loads(self.body))

    @property
    def frames(self) -> list[Frame]:
        return checked(self.body)

    @property
    def first(self) -> Json:
        """What says of the reply what is known before it has begun."""
        return self.frames[0].data if self.streamed else self.json

    @property
    def streamed(self) -> bool:
        return self.headers["content-type"].startswith("text/event-stream")

    @property
    def last(self) -> Json:
        """What says how the reply ended."""
        return self.frames[-1].data if self.streamed else self.json


class ByQuestion(ScriptedServer):
    """Answers with what `scripts` holds for the text of a request's last message."""

    def __init__(self, scripts: Mapping[str, Reply]) -> None:
        super().__init__()
        self.scripts = dict(scripts)

    @override
    def reply_to(self, request: Request) -> Reply:
        return self.scripts[json.loads(request.body)["messages"][-1]["content"]]


def question(text: str) -> list[Json]:
    return [{"role": "user", "content": text}]


class Asker:
    def __init__(self, gateway: Gateway, upstream: ScriptedServer, client: httpx.AsyncClient) -> None:
        self.gateway = gateway
        self.upstream = upstream
        self.client = client

    @property
    def calls(self) -> int:
        return len(self.upstream.requests)

    async def ask(self, *, headers: Json | None = None, path: str = "/v1/chat", **body: Any) -> Answer:
        response = await self.client.post(path, json={**ASK, **body}, headers=headers)
        return Answer(response.status_code, response.headers, response.content)

    async def labels(self, count: int, **more: Any) -> list[str]:
        return [(await self.ask(**more)).label for _ in range(count)]

    async def stored(self) -> None:
        """Nothing is held in memory any more of a reply that has ended."""
        cache = self.gateway.context.cache
        await eventually(lambda: not cache.storing and not cache.in_memory)

    async def entries(self) -> int:
        await eventually(lambda: not self.gateway.context.cache.storing)
        return (await self.gateway.context.cache.stats()).entries


def cached_settings(url: str, cache: Json, models: Json) -> Settings:
    row = {"base_url": f"{url}/v1", "first_token_seconds": 5, "idle_seconds": 5, "connect_seconds": 5}
    server = {"port": 0, "heartbeat_seconds": 5, "commit_seconds": 5, "log_level": "error"}
    tree = {"server": server, "upstreams": {"local": row}, "cache": {"url": "memory:"} | cache}
    tree["models"] = {name: {"upstreams": ["local"]} | model for name, model in models.items()}
    return Settings.model_validate(tree)


@asynccontextmanager
async def caching(
    upstream: ScriptedServer,
    *,
    model: Json | None = None,
    models: Json | None = None,
    open_storage: OpenStorage = open_storage,
    **cache: Any,
) -> AsyncIterator[Asker]:
    """`model` is what is said of the model `m`."""
    what = cached_settings(upstream.url, cache, models or {"m": model or {}})
    async with serving_with(what, open_storage) as gateway:
        async with light_client(gateway.url) as client:
            yield Asker(gateway, upstream, client)
