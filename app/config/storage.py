"""Where replies, what later requests rely on, and usage are kept, from the settings."""

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from app.cache import Cache, CacheRules
from app.config.settings import CacheSettings, UsageSettings
from app.redis.urls import NullUrl, RedisUrl, parse_cache_url
from app.runtime.ticker import Ticker
from app.stores import StateStore, StoreLimits, open_state_store, open_store
from app.usage.ledger import UsageLedger
from app.usage.stores import open_usage_store
from app.usage.urls import NoUrl, parse_usage_url

if TYPE_CHECKING:
    from app.calls.shared import Coordinator
    from app.redis.connection import RedisConnection

STORE_LINGER_SECONDS = 0.05
"""How long a reply waits for others, to be written to a file with them. A process that is killed loses its replies of
this time."""


class Storage(Struct, frozen=True):
    """Where replies are kept, what later requests rely on, and the counters of limits."""

    cache: Cache
    state: StateStore
    redis: "RedisConnection | None"
    """The only one of the process; None if the cache is not in Redis. The counters of limits are there, too."""


OpenStorage: TypeAlias = Callable[[CacheSettings, Ticker], Storage]
ConnectRedis: TypeAlias = "Callable[[RedisUrl, float], tuple[RedisConnection, Coordinator]]"


def connect_redis(address: RedisUrl, keep_seconds: float) -> "tuple[RedisConnection, Coordinator]":
    """Return a connection, and the coordinator that uses it. Its packages are imported here: that takes time."""
    from app.calls.shared import Coordinator
    from app.redis.connection import RedisConnection

    redis = RedisConnection(address)
    return redis, Coordinator(redis, keep_seconds=keep_seconds)


def open_storage(
    settings: CacheSettings, ticker: Ticker, rules: CacheRules | None = None, connect: ConnectRedis = connect_redis
) -> Storage:
    """Return the storage that the settings name. `rules` and `connect` are for tests."""
    limits = StoreLimits(max_bytes=settings.max_bytes, max_entry_bytes=settings.max_entry_bytes)
    rules = rules or CacheRules(settings.replay, settings.store_length)
    address = parse_cache_url(settings.url or "memory:")
    if isinstance(address, RedisUrl):
        redis, coordinator = connect(address, settings.resume_seconds)
        store = open_store(redis, limits)
        return Storage(Cache(store, ticker, rules, coordinator), open_state_store(redis, limits), redis)
    store = open_store(address, replace(limits, linger_seconds=STORE_LINGER_SECONDS))
    return Storage(Cache(store, ticker, rules), open_state_store(address, limits), None)


def keeps_state(settings: CacheSettings) -> bool:
    """Whether something is kept for later requests."""
    return not isinstance(parse_cache_url(settings.url or "memory:"), NullUrl)


def make_usage_ledger(settings: UsageSettings) -> UsageLedger | None:
    """Return the ledger of usage; None if usage is not counted."""
    address = parse_usage_url(settings.url or "memory:")
    return None if isinstance(address, NoUrl) else UsageLedger(open_usage_store(address))
