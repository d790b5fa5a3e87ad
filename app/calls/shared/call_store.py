"""All operations on the shared calls in Redis. Every method raises RedisUnavailable, or
its subclass RedisUnanswered if Redis may have executed the operation."""

import asyncio
import os
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Literal, TypeAlias, get_args

from msgspec import Struct

from app.calls.entry import VERSION
from app.calls.shared import records, scripts
from app.calls.shared.records import Record
from app.redis.connection import Client, RedisConnection, Script

Arguments: TypeAlias = Sequence[str | bytes | int]
State: TypeAlias = Literal["missing", "led", "leaderless", "ended", "given up"]
"""The state of a call. `missing`: Redis has no such call; `led`: a gateway holds its lease and writes it; `leaderless`:
the lease has expired or was released; `ended`: the reply is complete; `given up`: no gateway followed the call, so its
leader ended it early."""
After: TypeAlias = Literal["", "end", "end_unless_followed", "release"]
"""What a write does to the call: renew the lease, end the call, end it unless another gateway follows, or release the
lease because nothing more is written."""

PREFIX = f"parley:{{commons-{VERSION}}}"
"""The prefix of all keys. It has the version of the events: gateways with different versions share no calls."""
JOINED = f"{PREFIX}:joined"
"""The ids of calls that another gateway has begun to follow."""
LEASE_SECONDS = 3.0
KEEP_SECONDS = 300.0
MAX_CONCURRENT = 8
"""The maximum of short requests to Redis in progress. Others wait here, before the timeout of Redis begins."""
TIMEOUT_SECONDS = 0.5
"""The timeout of operations that no request waits for."""
RECORDS_PER_READ = 16
"""A record has at most `lease.MAX_RECORD_BYTES`."""


class CallKeys(Struct, frozen=True):
    """One shared call, and its keys in Redis."""

    cache_key: str
    number: str

    @classmethod
    def new(cls, cache_key: str) -> "CallKeys":
        return cls(cache_key, os.urandom(8).hex())

    @classmethod
    def from_id(cls, call_id: str) -> "CallKeys":
        cache_key, _, number = call_id.rpartition(".")
        return cls(cache_key, number)

    @property
    def id(self) -> str:
        return f"{self.cache_key}.{self.number}"

    @property
    def pointer(self) -> str:
        return f"{PREFIX}:{self.cache_key}"

    @property
    def listen(self) -> str:
        return f"{self.pointer}:listen"

    @property
    def state(self) -> str:
        return f"{self.pointer}:{self.number}"

    @property
    def lease(self) -> str:
        return f"{self.state}:lease"

    @property
    def stream(self) -> str:
        return f"{self.state}:stream"


class WriteRequest(Struct, frozen=True):
    """One write of a leader: its next record, or none, to renew the lease."""

    keys: CallKeys
    record_number: int = 0
    record: bytes = b""
    after: After = ""
    joinable_ms: int = 0


class WriteResult(Struct, frozen=True):
    code: Literal[0, 1, 2]
    """0: the lease is lost; 1: written; 2: no gateway followed, so the call has ended."""
    has_followers: bool
    """Another gateway follows the call."""


class CallStore:
    def __init__(
        self, redis: RedisConnection, *, lease_seconds: float = LEASE_SECONDS, keep_seconds: float = KEEP_SECONDS
    ) -> None:
        self._redis = redis
        self._call_limit = asyncio.Semaphore(MAX_CONCURRENT)
        self.lease_seconds = lease_seconds
        self._lease_ms = int(lease_seconds * 1000)
        self._keep_ms = int(max(keep_seconds, lease_seconds * 4) * 1000)

    async def claim(self, keys: CallKeys, *, resumable: bool = True) -> str | None:
        """Claim the lead of a call. Returns None when this process leads it now, under this number; else the number of
        the call to follow. With `resumable`, other gateways can follow the call by its id from
        now on; else when one has joined it or it was written."""
        lease_ms = self._lease_ms
        if not resumable and await self._redis.execute("SET", keys.pointer, keys.number, "PX", lease_ms, "NX"):
            return None
        arguments: Arguments = [keys.number, lease_ms, self._keep_ms, lease_ms, keys.cache_key, int(resumable)]
        number = await self.call(lambda redis: scripts.CLAIM.run(redis, [keys.pointer, JOINED], arguments))
        return None if number is None else to_text(number)

    async def write(self, requests: Sequence[WriteRequest]) -> list[WriteResult]:
        """Write the next records of several calls in one request."""
        redis_keys: list[str] = []
        arguments: list[str | bytes | int] = [self._lease_ms, self._keep_ms]
        for request in requests:
            keys = request.keys
            redis_keys += (keys.pointer, keys.listen, keys.state, keys.lease, keys.stream)
            arguments += (keys.number, request.record_number, request.record, request.after, request.joinable_ms)
        results = await self._run(scripts.WRITE, redis_keys, arguments)
        return [WriteResult(code, bool(followed)) for code, followed in results]

    async def watch(self, calls: Sequence[CallKeys]) -> list[State]:
        """Return the states of these calls, and mark those in progress as followed."""
        redis_keys = [JOINED, *(key for keys in calls for key in (keys.listen, keys.state, keys.lease))]
        arguments: Arguments = [self._lease_ms, self._keep_ms, *(keys.id for keys in calls)]
        states: list[Any] = await self._run(scripts.WATCH, redis_keys, arguments)
        return [_STATES[to_text(state)] for state in states]

    async def is_running(self, keys: CallKeys) -> bool:
        """Whether the call has not ended. Unlike `watch`, this does not mark it as followed."""
        state = await self._redis.execute("HGET", keys.state, "state")
        return state is not None and to_text(state) == "live"

    async def read_history(self, keys: CallKeys, after: int) -> list[tuple[int, Record | None]]:
        """Return some of the records after the one with this number; an empty list when that was the last."""
        entries = await self.call(lambda redis: redis.xrange(keys.stream, f"({after}-0", "+", count=RECORDS_PER_READ))
        return _parse_records(entries or [])

    async def read(
        self, positions: dict[CallKeys, int], block_ms: int
    ) -> dict[CallKeys, list[tuple[int, Record | None]]]:
        """Return the next records of several calls. If there are none, wait at most `block_ms` for the first."""
        streams = {keys.stream: keys for keys in positions}
        ids: dict[Any, Any] = {keys.stream: f"{after}-0" for keys, after in positions.items()}
        found = await self.call_blocking(
            lambda redis: redis.xread(ids, count=RECORDS_PER_READ, block=block_ms), block_ms
        )
        rows = found.items() if isinstance(found, dict) else found or []
        return {streams[to_text(stream)]: _parse_records(entries) for stream, entries in rows}

    async def put(self, key: str, value: bytes, ttl_seconds: float) -> None:
        await self._redis.execute("SET", key, value, "PX", max(1, int(ttl_seconds * 1000)))

    async def get(self, key: str) -> bytes | None:
        value: Any = await self._redis.execute("GET", key)
        return value.encode() if isinstance(value, str) else value

    async def delete(self, key: str) -> None:
        await self._redis.execute("DEL", key)

    async def call(self, op: Callable[[Client], Awaitable[Any]]) -> Any:
        async with self._call_limit:
            return await self._redis.call(op)

    async def call_blocking(self, op: Callable[[Client], Awaitable[Any]], block_ms: int) -> Any:
        """Run an operation that may block for `block_ms`."""
        return await self._redis.call(op, timeout=TIMEOUT_SECONDS + block_ms / 1000)

    async def _run(self, script: Script, redis_keys: Sequence[str], arguments: Arguments) -> Any:
        return await self._redis.call(lambda redis: script.run(redis, redis_keys, arguments), timeout=TIMEOUT_SECONDS)


_STATES: dict[str, State] = {state: state for state in get_args(State)}


def _parse_records(entries: Any) -> list[tuple[int, Record | None]]:
    return [(int(to_text(id_).partition("-")[0]), records.read(fields[b"r"])) for id_, fields in entries]


def to_text(value: bytes | str) -> str:
    return value.decode() if isinstance(value, bytes) else value
