"""Reads the streams of all calls that this process follows, with one request at a time, and watches their leases."""

import asyncio
import contextlib
import logging
from collections.abc import Coroutine, Sequence
from typing import Any, Protocol, TypeVar

from app.calls.shared.call_store import CallKeys, CallStore, State
from app.calls.shared.records import Record
from app.redis.connection import RedisUnavailable

log = logging.getLogger("parley.cache")
T = TypeVar("T")

BLOCK_MS = 50
"""How long one read may block. A call that is added meanwhile is read only after it."""
PAUSE_SECONDS = 0.005
"""The pause after a read that returned records, so that the next one returns many."""
RETRY_SECONDS = 0.1
MAX_STREAMS = 64


class TailFollower(Protocol):
    keys: CallKeys
    last_record: int
    """The number of the last record that it has received."""

    @property
    def wants_records(self) -> bool:
        """Whether it can receive records now."""

    def on_records(self, found: Sequence[tuple[int, Record | None]]) -> None:
        """Receive records with their numbers. It may have received some of them before."""

    def on_state(self, state: State) -> None: ...

    def on_unavailable(self, seconds: float) -> None:
        """Redis has not answered for this time."""


class StreamTailer:
    def __init__(self, calls: CallStore) -> None:
        self._calls = calls
        self._loop = asyncio.get_running_loop()
        self.followers: dict[TailFollower, float] = {}
        """The time when each follower was added."""
        self._answered_at = self._loop.time()
        self._turn = 0
        self._wake_event = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []

    def add(self, follower: TailFollower) -> None:
        self.followers[follower] = self._loop.time()
        if not self._tasks:
            self._tasks = [self._loop.create_task(self._read_on()), self._loop.create_task(self._watch_on())]
        self._wake_event.set()

    def discard(self, follower: TailFollower) -> None:
        self.followers.pop(follower, None)

    def wake(self) -> None:
        """Read at once: a follower wants records again."""
        self._wake_event.set()

    def __len__(self) -> int:
        return len(self.followers)

    async def aclose(self) -> None:
        for task in self._tasks:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
        self.followers.clear()

    # Reading records.

    async def _read_on(self) -> None:
        while True:
            self._wake_event.clear()
            positions = self._positions()
            if not positions:
                await self._wake_event.wait()
                continue
            found = await self._run_or_none(self._calls.read(positions, BLOCK_MS))
            if found is None:
                self._notify_unavailable(tuple(self.followers))
                await asyncio.sleep(RETRY_SECONDS)
                continue
            for follower in tuple(self.followers):
                if follower.keys in found and follower.wants_records:
                    self._deliver(follower, found[follower.keys])
            if found:
                await asyncio.sleep(PAUSE_SECONDS)

    def _positions(self) -> dict[CallKeys, int]:
        """Return the calls to read, with the last record of each. Of more than MAX_STREAMS calls, some in turn."""
        positions: dict[CallKeys, int] = {}
        for follower in self.followers:
            if follower.wants_records:
                last_record = follower.last_record
                positions[follower.keys] = min(last_record, positions.get(follower.keys, last_record))
        if len(positions) <= MAX_STREAMS:
            return positions
        calls = list(positions)
        self._turn = (self._turn + MAX_STREAMS) % len(calls)
        return {keys: positions[keys] for keys in (calls + calls)[self._turn : self._turn + MAX_STREAMS]}

    def _deliver(self, follower: TailFollower, records: Sequence[tuple[int, Record | None]]) -> None:
        try:
            follower.on_records(records)
        except Exception:
            log.exception("defect while following a shared reply")
            self.discard(follower)

    # Watching the leases.

    async def _watch_on(self) -> None:
        while True:
            await asyncio.sleep(self._calls.lease_seconds / 3)
            followers = tuple(self.followers)
            for start in range(0, len(followers), MAX_STREAMS):
                await self._watch(followers[start : start + MAX_STREAMS])

    async def _watch(self, followers: Sequence[TailFollower]) -> None:
        states = await self._run_or_none(self._calls.watch([follower.keys for follower in followers]))
        if states is not None:
            for follower, state in zip(followers, states, strict=True):
                if follower in self.followers:
                    follower.on_state(state)
            return
        self._notify_unavailable(followers)

    def _notify_unavailable(self, followers: Sequence[TailFollower]) -> None:
        now = self._loop.time()
        for follower in followers:
            if follower in self.followers:
                follower.on_unavailable(now - max(self._answered_at, self.followers[follower]))

    async def _run_or_none(self, operation: Coroutine[Any, Any, T]) -> T | None:
        """Return the result of an operation; None if Redis is down."""
        try:
            answer = await operation
        except RedisUnavailable:
            return None
        except Exception:
            log.exception("defect while reading shared replies from redis")
            return None
        self._answered_at = self._loop.time()
        return answer
