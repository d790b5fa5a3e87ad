"""Stores for tests: each kind behind one face, a clock that a test sets, values that tell whether they are whole."""

import asyncio
import dataclasses
import hashlib
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeVar

from app.redis.connection import RedisConnection
from app.redis.urls import RedisUrl, parse_cache_url
from app.stores import Store, StoreLimits, open_store
from app.stores.redis import RedisStore
from typing_extensions import override

T = TypeVar("T")

LINGER_SECONDS = 0.0005
"""Of a store of the kind `sqlite lingering`."""


class Clock:
    def __init__(self) -> None:
        self.now = 1_700_000_000.0

    def __call__(self) -> float:
        return self.now


@dataclasses.dataclass
class Rig:
    """One kind of store, opened as often as a test likes, on one event loop."""

    kind: str
    url: str
    runner: asyncio.Runner
    clock: Clock = dataclasses.field(default_factory=Clock)
    opened: list[Store] = dataclasses.field(default_factory=list)

    def open(self, **limits: int) -> Store:
        linger_seconds = LINGER_SECONDS if self.kind == "sqlite lingering" else 0.0
        store = patient_store(self.url, StoreLimits(clock=self.clock, linger_seconds=linger_seconds, **limits))
        self.opened.append(store)
        return store

    def run(self, scenario: Callable[[], Awaitable[T]]) -> T:
        async def run_scenario() -> T:
            return await scenario()

        return self.runner.run(run_scenario())

    def close(self) -> None:
        async def all_of_them() -> None:
            for store in self.opened:
                await store.aclose()

        self.runner.run(all_of_them())


class LonelyStore(RedisStore):
    """It alone uses its connection, and closes it."""

    @override
    async def aclose(self) -> None:
        await super().aclose()
        await self._redis.aclose()


def patient_store(url: str, limits: StoreLimits | None = None) -> Store:
    """What `open_store` opens, with so much time for Redis that a busy machine never looks like an outage."""
    if url.startswith("redis"):
        return LonelyStore(RedisConnection(url, timeout_seconds=20), limits)
    address = parse_cache_url(url)
    assert not isinstance(address, RedisUrl)
    return open_store(address, limits)


def url_of(kind: str, folder: Path, redis_url: str = "") -> str:
    return {"memory": "memory:", "redis": redis_url}.get(kind, f"sqlite:///{folder}/cache.db")


def sealed(content: bytes) -> bytes:
    """A value that `is_whole` recognises."""
    return hashlib.sha256(content).digest() + content


def is_whole(value: bytes) -> bool:
    return hashlib.sha256(value[32:]).digest() == value[:32]
