"""The models that sessions keep."""

import asyncio
import logging

import pytest
from app.api import kept_routes
from app.api.kept_routes import KeptRoutes, make_session_key
from app.stores import StoreError
from app.stores.base import StoredValue, StoreLimits
from app.stores.memory import MemoryStore
from typing_extensions import override

from tests.each_case import each_case


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


class FragileStore(MemoryStore):
    down = False
    writes = 0

    @override
    async def get(self, key: str) -> StoredValue | None:
        if self.down:
            raise StoreError("gone")
        return await super().get(key)

    @override
    async def put(self, key: str, value: bytes, *, ttl_seconds: float, model: str) -> None:
        if self.down:
            raise StoreError("gone")
        self.writes += 1
        await super().put(key, value, ttl_seconds=ttl_seconds, model=model)


def make() -> tuple[KeptRoutes, FragileStore, Clock]:
    clock = Clock()
    store = FragileStore(StoreLimits(clock=clock))
    return KeptRoutes(store, clock), store, clock


def test_a_session_keeps_its_model_for_its_time_after_the_last_request() -> None:
    routes, store, clock = make()

    async def run() -> list[str | None]:
        await routes.keep("a", "small", 100)
        found = []
        for step in (20, 60, 60, 60, 101):
            clock.now += step
            found.append(await routes.find("a", 100))
        return [*found, await routes.find("b", 100)]

    assert asyncio.run(run()) == ["small", "small", "small", "small", None, None]
    assert store.writes == 4  # not for the look after 20 seconds


def test_another_worker_finds_it() -> None:
    routes, store, clock = make()
    asyncio.run(routes.keep("a", "small", 100))
    assert asyncio.run(KeptRoutes(store, clock).find("a", 100)) == "small"


def test_while_the_store_fails_a_worker_knows_its_own_sessions(caplog: pytest.LogCaptureFixture) -> None:
    routes, store, clock = make()
    store.down = True

    async def run() -> list[str | None]:
        await routes.keep("a", "small", 100)
        return [await routes.find("a", 100), await routes.find("b", 100)]

    with caplog.at_level(logging.WARNING):
        assert asyncio.run(run()) == ["small", None]
    assert "the model of a session cannot be stored" in caplog.text
    clock.now += 101
    assert asyncio.run(routes.find("a", 100)) is None


def test_memory_holds_the_sessions_that_were_used_last(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept_routes, "MAX_KEPT", 2)
    routes, store, _ = make()
    store.down = True

    async def run() -> list[str | None]:
        await routes.keep("a", "small", 100)
        await routes.keep("b", "small", 100)
        await routes.find("a", 100)
        await routes.keep("c", "small", 100)
        return [await routes.find(key, 100) for key in "abc"]

    assert asyncio.run(run()) == ["small", None, "small"]


@each_case(
    "other",
    [
        ("bob", b"s", b"", "auto", "auto"),
        ("ann", b"t", b"", "auto", "auto"),
        ("ann", b"s", b"1", "auto", "auto"),
        ("ann", b"s", b"", "auto2", "auto"),
        ("ann", b"s", b"", "auto", "claude-haiku"),
        ("an", b"ns", b"", "auto", "auto"),
    ],
)
def test_each_part_makes_another_session(other: tuple[str, bytes, bytes, str, str]) -> None:
    assert make_session_key(*other) != make_session_key("ann", b"s", b"", "auto", "auto")
