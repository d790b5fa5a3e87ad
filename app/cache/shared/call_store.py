"""The flights in Redis: every operation on them, bounded and fenced. All raise Away."""

import asyncio
import os
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Literal, TypeAlias

from msgspec import Struct

from app.cache.codec import VERSION
from app.cache.redis.breaker import Client, RedisCircuitBreaker
from app.cache.shared import records, scripts
from app.cache.shared.records import Record

Arguments: TypeAlias = Sequence[str | bytes | int]
State: TypeAlias = Literal["gone", "led", "unled", "ended", "given up"]
After: TypeAlias = Literal["", "ended", "leave", "left"]
"""What becomes of a flight: it goes on, has ended, is given up unless others listen, or is free to be led."""

PREFIX = f"parley:{{commons-{VERSION}}}"
"""Gateways that say events in another way share nothing."""
LEASE_SECONDS = 3.0
KEEP_SECONDS = 300.0
MAX_AT_ONCE = 8
"""Questions asked of Redis at one time; the others wait here, where the wait counts as nobody's delay of Redis."""
TIMEOUT_SECONDS = 0.5
"""For what no request waits for."""
RECORDS_A_READ = 16
"""Records are of `press.MAX_RECORD_BYTES` at most."""


class CallKeys(Struct, frozen=True):
    """One flight, and its keys."""

    cache_key: str
    number: str

    @classmethod
    def new(cls, question: str) -> "CallKeys":
        return cls(question, os.urandom(8).hex())

    @classmethod
    def from_id(cls, flight_id: str) -> "CallKeys":
        question, _, number = flight_id.rpartition(".")
        return cls(question, number)

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
    """What a leader has to say at once; without a record, that it still leads."""

    names: CallKeys
    fence: int
    record_number: int = 0
    record: bytes = b""
    after: After = ""
    joinable_ms: int = 0


class WriteResult(Struct, frozen=True):
    code: Literal[0, 1, 2]
    """0: it leads no more; 1: written; 2: nobody listened, so it is over."""
    has_followers: bool
    """Somebody follows elsewhere."""


class CallStore:
    def __init__(
        self, link: RedisCircuitBreaker, *, lease_seconds: float = LEASE_SECONDS, keep_seconds: float = KEEP_SECONDS
    ) -> None:
        self._breaker = link
        self._gate, self._aside = asyncio.Semaphore(MAX_AT_ONCE), asyncio.Semaphore(MAX_AT_ONCE)
        self.lease_seconds = lease_seconds
        self._lease_ms = int(lease_seconds * 1000)
        self._keep_ms = int(max(keep_seconds, lease_seconds * 4) * 1000)

    async def claim(self, names: CallKeys) -> str | None:
        """None: it is led under this number, with fence 1, from now on; else the number of the one to follow."""
        keys = [names.pointer, names.listen, names.state, names.lease]
        arguments: Arguments = [names.number, self._lease_ms, self._keep_ms, self._lease_ms]
        held = await self.ask(lambda redis: scripts.CLAIM.run(redis, keys, arguments))
        return None if held is None else to_text(held)

    async def write(self, parcels: Sequence[WriteRequest]) -> list[WriteResult]:
        keys: list[str] = []
        arguments: list[str | bytes | int] = [self._lease_ms, self._keep_ms]
        for one in parcels:
            names = one.names
            keys += (names.pointer, names.listen, names.state, names.lease, names.stream)
            arguments += (names.number, one.fence, one.record_number, one.record, one.after, one.joinable_ms)
        answers = await self._run(scripts.WRITE, keys, arguments)
        return [WriteResult(code, bool(others)) for code, others in answers]

    async def take_over(self, names: CallKeys) -> int:
        """The fence under which this process leads now; 0: somebody else does; -1: there is nothing to lead."""
        keys = [names.pointer, names.state, names.lease]
        return int(await self._run(scripts.TAKE_OVER, keys, [names.number, self._lease_ms, self._keep_ms]))

    async def watch(self, flights: Sequence[CallKeys]) -> list[State]:
        """Says of all of them that somebody listens."""
        keys = [key for names in flights for key in (names.listen, names.state, names.lease)]
        answers: list[Any] = await self._run(scripts.WATCH, keys, [self._lease_ms])
        return [_STATES[to_text(one)] for one in answers]

    async def is_running(self, names: CallKeys) -> bool:
        """Its end was not written; unlike `watch`, it says of nobody that they listen."""
        state = await self.ask(lambda redis: redis.hget(names.state, "state"))
        return state is not None and to_text(state) == "live"

    async def read_history(self, names: CallKeys, after: int) -> list[tuple[int, Record | None]]:
        """Some of the records behind the one with this number; none: that was the last."""
        found = await self.ask(lambda redis: redis.xrange(names.stream, f"({after}-0", "+", count=RECORDS_A_READ))
        return _parse_records(found or [])

    async def read(self, places: dict[CallKeys, int], block_ms: int) -> dict[CallKeys, list[tuple[int, Record | None]]]:
        """The same of many flights; where there is none yet, the first that come within this time."""
        streams = {names.stream: names for names in places}
        asked: dict[Any, Any] = {names.stream: f"{after}-0" for names, after in places.items()}
        found = await self.wait(lambda redis: redis.xread(asked, count=RECORDS_A_READ, block=block_ms), block_ms)
        rows = found.items() if isinstance(found, dict) else found or []
        return {streams[to_text(stream)]: _parse_records(entries) for stream, entries in rows}

    async def put(self, key: str, value: bytes, ttl_seconds: float) -> None:
        """Nobody waits for it; of many at once, each waits for its turn rather than taking a connection of its own."""
        async with self._aside:
            await self.wait(lambda redis: redis.set(key, value, px=max(1, int(ttl_seconds * 1000))), 0)

    async def get(self, key: str) -> bytes | None:
        value: Any = await self.ask(lambda redis: redis.get(key))
        return value.encode() if isinstance(value, str) else value

    async def forget(self, key: str) -> None:
        await self.ask(lambda redis: redis.delete(key))

    async def ask(self, op: Callable[[Client], Awaitable[Any]]) -> Any:
        async with self._gate:
            return await self._breaker.call(op)

    async def wait(self, op: Callable[[Client], Awaitable[Any]], block_ms: int) -> Any:
        """For what may take so long as to come at all."""
        return await self._breaker.call(op, timeout=TIMEOUT_SECONDS + block_ms / 1000)

    async def _run(self, script: scripts.Script, keys: Sequence[str], arguments: Arguments) -> Any:
        return await self._breaker.call(lambda redis: script.run(redis, keys, arguments), timeout=TIMEOUT_SECONDS)


_STATES: dict[str, State] = {"gone": "gone", "led": "led", "unled": "unled", "ended": "ended", "given up": "given up"}


def _parse_records(entries: Any) -> list[tuple[int, Record | None]]:
    return [(int(to_text(id).partition("-")[0]), records.read(fields[b"r"])) for id, fields in entries]


def to_text(value: bytes | str) -> str:
    return value.decode() if isinstance(value, bytes) else value
