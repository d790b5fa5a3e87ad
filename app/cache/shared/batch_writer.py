"""Writes what the flights of this process have to say, of all of them at once, every few milliseconds.

One task and one call to Redis at a time, however many flights there are; nobody waits for it.
"""

import asyncio
import contextlib
import logging
from collections.abc import Iterator

from app.cache.redis.breaker import RedisUnavailable
from app.cache.shared.call_store import CallKeys, CallStore
from app.cache.shared.lease import CallLease

log = logging.getLogger("parley.cache")

FLUSH_SECONDS = 0.01
RETRY_SECONDS = 0.1
MAX_CALL_BYTES = 512 * 1024
MAX_CALLS_PER_WRITE = 64
LAST_ROUNDS = 20


class BatchWriter:
    def __init__(self, ledger: CallStore) -> None:
        self._calls = ledger
        self._loop = asyncio.get_running_loop()
        self.leases: set[CallLease] = set()
        self._woken = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def begin(self, names: CallKeys, fence: int, place: int = 0) -> CallLease:
        """`place`: the number of the last record that is there."""
        tenure = CallLease(names, fence, place, self._woken.set, self._loop.time())
        self.leases.add(tenure)
        if self._task is None:
            self._task = self._loop.create_task(self._run())
        self._woken.set()
        return tenure

    def __len__(self) -> int:
        return len(self.leases)

    async def aclose(self) -> None:
        """Everybody else may lead what was led here."""
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task
        for tenure in self.leases:
            tenure.resign()
        for _ in range(LAST_ROUNDS):
            if not self.leases or not await self._flush(list(self.leases)):
                break
        for tenure in tuple(self.leases):
            tenure.drop()
        self.leases.clear()

    async def _run(self) -> None:
        while True:
            await self._wait()
            # What comes within these milliseconds goes out together.
            await asyncio.sleep(FLUSH_SECONDS)
            self._woken.clear()
            now = self._loop.time()
            due = [one for one in self.leases if one.urgent or now >= self._renewal(one)]
            if due and not await self._flush(due):
                await asyncio.sleep(RETRY_SECONDS)

    async def _wait(self) -> None:
        if any(one.urgent for one in self.leases):
            return
        first = min((self._renewal(one) for one in self.leases), default=None)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout_at(first):
                await self._woken.wait()

    def _renewal(self, tenure: CallLease) -> float:
        return tenure.written_at + self._calls.lease_seconds / 3

    async def _flush(self, due: list[CallLease]) -> bool:
        """Whether Redis took it."""
        for group in _groups(due):
            try:
                await self._write(group)
            except RedisUnavailable:
                now = self._loop.time()
                for tenure in due:
                    tenure.on_unavailable(now, self._calls.lease_seconds)
                return False
            except Exception:
                log.exception("defect while replies were shared")
                for tenure in group:
                    tenure.drop()
            finally:
                self.leases -= {one for one in due if one.over}
        return True

    async def _write(self, group: list[CallLease]) -> None:
        answers = await self._calls.write([tenure.next_write() for tenure in group])
        now = self._loop.time()
        for tenure, answer in zip(group, answers, strict=True):
            tenure.on_written(answer, now)


def _groups(due: list[CallLease]) -> Iterator[list[CallLease]]:
    """As many as one call may carry."""
    group: list[CallLease] = []
    size = 0
    for tenure in due:
        parcel = len(tenure.next_write().record)
        if group and (len(group) == MAX_CALLS_PER_WRITE or size + parcel > MAX_CALL_BYTES):
            yield group
            group, size = [], 0
        group.append(tenure)
        size += parcel
    if group:
        yield group
