"""Where replies, what later requests rely on, and usage are kept, from the settings."""

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from app.cache import Cache, CacheRules
from app.config.settings import Settings
from app.config.tables.storage import CacheSettings, StateSettings
from app.redis.urls import NullUrl, RedisUrl, SqliteUrl, parse_cache_url
from app.runtime.ticker import Ticker
from app.state import Database, open_database
from app.state.urls import NoUrl, parse_state_url
from app.state.watched import WatchedDatabase
from app.stores import StateStore, StoreLimits, find_state_file, open_state_store, open_store
from app.stores.database import DatabaseStore
from app.stores.memory import NullStore
from app.stores.succeeding import SucceedingStore
from app.usage.ledger import LedgerRules, UsageLedger
from app.usage.store import UsageStore

if TYPE_CHECKING:
    from app.calls.shared import Coordinator
    from app.redis.connection import RedisConnection

STORE_LINGER_SECONDS = 0.05
"""How long a reply waits for others, to be written to a file with them. A process that is killed loses its replies of
this time."""


class Storage(Struct, frozen=True):
    """Where replies are kept, what later requests rely on, and the counters of limits per minute."""

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


def open_state(settings: StateSettings) -> WatchedDatabase | None:
    """Return the state database; None if there is none. It connects with its first use."""
    address = parse_state_url(settings.url or "null:")
    return None if isinstance(address, NoUrl) else WatchedDatabase(open_database(address))


def with_state(storage: Storage, settings: Settings, database: Database | None) -> Storage:
    """Return the storage in which later requests rely on the state database. What was stored beside the cache before is
    still read. Without `state.url`, the storage stays as it is."""
    cache, url = settings.cache, settings.state.url
    if url is None:
        return storage
    if database is None:
        return replace(storage, state=NullStore())
    store = DatabaseStore(database, StoreLimits(max_entry_bytes=cache.max_entry_bytes))
    address = parse_cache_url(cache.url or "memory:")
    has_older = isinstance(address, RedisUrl) or (isinstance(address, SqliteUrl) and find_state_file(address).exists())
    return replace(storage, state=SucceedingStore(store, storage.state) if has_older else store)


def keeps_state(settings: Settings) -> bool:
    """Whether something is kept for later requests."""
    if settings.state.url is not None:
        return not isinstance(parse_state_url(settings.state.url), NoUrl)
    return not isinstance(parse_cache_url(settings.cache.url or "memory:"), NullUrl)


def open_usage(settings: Settings, state: WatchedDatabase | None) -> WatchedDatabase | None:
    """Return the database in which usage is counted: the state, unless `usage.url` names another. None if usage is not
    counted."""
    url = settings.usage.url or settings.state.url or "memory:"
    address = parse_state_url(url)
    if isinstance(address, NoUrl):
        return None
    shared = state if url == settings.state.url else None
    return shared or WatchedDatabase(open_database(address))


def make_usage_ledger(settings: Settings, database: Database | None) -> UsageLedger | None:
    """Return the ledger of usage; None if usage is not counted."""
    if database is None:
        return None
    rules = LedgerRules(zone=settings.usage.zone, keep_days=settings.usage.keep_days)
    return UsageLedger(UsageStore(database), rules)
