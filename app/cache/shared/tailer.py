"""Reads the flights that this process follows, all of them with one call at a time, and watches who leads them."""

import asyncio
import contextlib
import logging
from collections.abc import Coroutine, Sequence
from typing import Any, Protocol, TypeVar

from app.cache.redis.breaker import RedisUnavailable
from app.cache.shared.call_store import CallKeys, CallStore, State
from app.cache.shared.records import Record

log = logging.getLogger("parley.cache")
T = TypeVar("T")

BLOCK_MS = 50
"""A flight that is followed from now on waits so long at most for a call that does not know of it."""
REST_SECONDS = 0.005
"""Between two calls that found something, so that many records come with one."""
RETRY_SECONDS = 0.1
MAX_STREAMS = 64


class TailFollower(Protocol):
    names: CallKeys
    last_record: int
    """The number of the last record that it has."""

    @property
    def wants_records(self) -> bool:
        """It can take more records now."""

    def on_records(self, found: Sequence[tuple[int, Record | None]]) -> None:
        """From any number on; it may have some of them."""

    def on_state(self, state: State) -> None: ...

    def on_unavailable(self, seconds: float) -> None:
        """Redis has not answered for so long."""


class StreamTailer:
    def __init__(self, ledger: CallStore) -> None:
        self._calls = ledger
        self._loop = asyncio.get_running_loop()
        self.followers: dict[TailFollower, float] = {}
        """Since when."""
        self._answered_at = self._loop.time()
        self._turn = 0
        self._woken = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []

    def add(self, one: TailFollower) -> None:
        self.followers[one] = self._loop.time()
        if not self._tasks:
            self._tasks = [self._loop.create_task(self._read_on()), self._loop.create_task(self._watch_on())]
        self._woken.set()

    def discard(self, one: TailFollower) -> None:
        self.followers.pop(one, None)

    def wake(self) -> None:
        """Somebody is hungry again."""
        self._woken.set()

    def __len__(self) -> int:
        return len(self.followers)

    async def aclose(self) -> None:
        for task in self._tasks:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
        self.followers.clear()

    # -- records ------------------------------------------------------------------------------------------------------

    async def _read_on(self) -> None:
        while True:
            self._woken.clear()
            places = self._places()
            if not places:
                await self._woken.wait()
                continue
            found = await self._run_or_none(self._calls.read(places, BLOCK_MS))
            if found is None:
                self._notify_unavailable(tuple(self.followers))
                await asyncio.sleep(RETRY_SECONDS)
                continue
            for one in tuple(self.followers):
                if one.names in found and one.wants_records:
                    self._deliver(one, found[one.names])
            if found:
                await asyncio.sleep(REST_SECONDS)

    def _places(self) -> dict[CallKeys, int]:
        """From where to read which flights; where there are very many, some of them in turn."""
        places: dict[CallKeys, int] = {}
        for one in self.followers:
            if one.wants_records:
                places[one.names] = min(one.last_record, places.get(one.names, one.last_record))
        if len(places) <= MAX_STREAMS:
            return places
        names = list(places)
        self._turn = (self._turn + MAX_STREAMS) % len(names)
        return {name: places[name] for name in (names + names)[self._turn : self._turn + MAX_STREAMS]}

    def _deliver(self, one: TailFollower, records: Sequence[tuple[int, Record | None]]) -> None:
        try:
            one.on_records(records)
        except Exception:
            log.exception("defect while a shared reply was told")
            self.discard(one)

    # -- who leads ----------------------------------------------------------------------------------------------------

    async def _watch_on(self) -> None:
        while True:
            await asyncio.sleep(self._calls.lease_seconds / 3)
            followers = tuple(self.followers)
            for start in range(0, len(followers), MAX_STREAMS):
                await self._watch(followers[start : start + MAX_STREAMS])

    async def _watch(self, followers: Sequence[TailFollower]) -> None:
        states = await self._run_or_none(self._calls.watch([one.names for one in followers]))
        if states is not None:
            for one, state in zip(followers, states, strict=True):
                if one in self.followers:
                    one.on_state(state)
            return
        self._notify_unavailable(followers)

    def _notify_unavailable(self, followers: Sequence[TailFollower]) -> None:
        now = self._loop.time()
        for one in followers:
            if one in self.followers:
                one.on_unavailable(now - max(self._answered_at, self.followers[one]))

    async def _run_or_none(self, asked: Coroutine[Any, Any, T]) -> T | None:
        """None: Redis is away."""
        try:
            answer = await asked
        except RedisUnavailable:
            return None
        except Exception:
            log.exception("defect while shared replies were read")
            return None
        self._answered_at = self._loop.time()
        return answer
