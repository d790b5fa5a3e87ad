"""Caches of the gateways of live tests: what a gateway makes itself, but for its waits and the clock."""

import time
from collections.abc import Callable

from app.cache import Cache, CacheRules
from app.calls.shared import Coordinator
from app.calls.shared.call_store import LEASE_SECONDS
from app.config.storage import OpenStorage, Storage, open_storage
from app.config.tables.storage import CacheSettings
from app.redis.connection import RedisConnection
from app.redis.urls import RedisUrl
from app.runtime.ticker import Ticker
from app.stores import Store, StoreLimits
from app.stores.memory import MemoryStore
from typing_extensions import override

from tests.live.gateway import Gateway


class StorageMaker:
    """For `create_app`; keeps the connection to Redis of the cache that it made last. With a `store`, whatever the
    settings name."""

    def __init__(
        self,
        *,
        linger_seconds: float = CacheRules().linger_seconds,
        clock: Callable[[], float] = time.time,
        store: Store | None = None,
        link_of: Callable[[RedisUrl], RedisConnection] = RedisConnection,
        joinable_ms: int = 2000,
        retry_seconds: float = 1.0,
        lease_seconds: float = LEASE_SECONDS,
    ) -> None:
        self._linger_seconds = linger_seconds
        self._clock = clock
        self._store = store
        self._link_of = link_of
        self._joinable_ms, self._retry_seconds, self._lease_seconds = joinable_ms, retry_seconds, lease_seconds
        self.links: list[RedisConnection] = []
        self.coordinators: list[Coordinator] = []
        """Of each cache that was made, in Redis."""

    def __call__(self, settings: CacheSettings, ticker: Ticker) -> Storage:
        rules = CacheRules(settings.replay, settings.store_length, self._linger_seconds, clock=self._clock)
        if self._store is not None:
            return Storage(Cache(self._store, ticker, rules), MemoryStore(), None)
        return open_storage(settings, ticker, rules, self._connect)

    def _connect(self, address: RedisUrl, keep_seconds: float) -> tuple[RedisConnection, Coordinator]:
        link = self._link_of(address)
        coordinator = Coordinator(
            link,
            lease_seconds=self._lease_seconds,
            keep_seconds=keep_seconds,
            joinable_ms=self._joinable_ms,
            retry_seconds=self._retry_seconds,
        )
        self.links.append(link)
        self.coordinators.append(coordinator)
        return link, coordinator


class Clock:
    """Stands still until a test moves it."""

    def __init__(self) -> None:
        self.now = time.time()

    def __call__(self) -> float:
        return self.now


class KnownStore(MemoryStore):
    """Knows what was put into it last, which a test may put into it again in another form."""

    def __init__(self, limits: StoreLimits | None = None) -> None:
        super().__init__(limits)
        self._last: tuple[str, bytes, float, str] | None = None

    @override
    async def put(self, key: str, value: bytes, *, ttl_seconds: float, model: str) -> None:
        self._last = (key, value, ttl_seconds, model)
        await super().put(key, value, ttl_seconds=ttl_seconds, model=model)

    async def change_last(self, change: Callable[[bytes], bytes]) -> None:
        assert self._last is not None
        key, value, ttl_seconds, model = self._last
        await self.put(key, change(value), ttl_seconds=ttl_seconds, model=model)


FROM_STORE = StorageMaker(linger_seconds=0.0)
"""What was stored is had from the store alone."""


def cache_for(later: bool) -> OpenStorage:
    """For a reply that is asked for again at once, when it may still be in memory, or later, from the store alone."""
    return FROM_STORE if later else open_storage


def link_of(gateway: Gateway) -> RedisConnection:
    """The connection to Redis of a gateway whose cache a `StorageMaker` of its own made."""
    assert isinstance(gateway.open_storage, StorageMaker)
    (link,) = gateway.open_storage.links
    return link


def coordinator_of(gateway: Gateway) -> Coordinator:
    assert isinstance(gateway.open_storage, StorageMaker)
    (coordinator,) = gateway.open_storage.coordinators
    return coordinator
