"""Writes the records of all calls that this process leads to Redis, in one batch every few milliseconds while other
gateways follow them; `lease` says when.

One task makes one request to Redis at a time, however many calls there are. No reply waits for it.
"""

import asyncio
import contextlib
import logging
from collections.abc import Iterator
from weakref import WeakValueDictionary

from app.calls.shared.call_store import CallKeys, CallStore
from app.calls.shared.lease import UNFOLLOWED_SECONDS, CallLease
from app.redis.connection import RedisUnavailable

log = logging.getLogger("parley.cache")

FLUSH_SECONDS = 0.01
RETRY_SECONDS = 0.1
MAX_CALL_BYTES = 512 * 1024
MAX_CALLS_PER_WRITE = 64
CLOSE_ATTEMPTS = 20
JOIN_SECONDS = 0.5
"""How long the notice of a gateway may take that joined a call just before the end of its lease."""
MAX_UNNEEDED = 5000


class BatchWriter:
    def __init__(self, calls: CallStore) -> None:
        self._calls = calls
        self._loop = asyncio.get_running_loop()
        self.leases: set[CallLease] = set()
        self._unneeded: dict[CallLease, float] = {}
        """Calls that have ended unwritten, and until when another gateway may join them; the oldest first."""
        self._by_id: WeakValueDictionary[str, CallLease] = WeakValueDictionary()
        self._wake_event = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def begin(self, keys: CallKeys) -> CallLease:
        """Start to write the records of a call."""
        lease = CallLease(keys, self._wake_event.set, self._loop.time())
        self.leases.add(lease)
        self._by_id[keys.id] = lease
        if self._task is None:
            self._task = self._loop.create_task(self._run())
        self._wake_event.set()
        return lease

    def __len__(self) -> int:
        return len(self.leases)

    async def aclose(self) -> None:
        """Release the leases, so that other gateways learn at once that the calls end here."""
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task
        self._set_unneeded_aside(float("inf"))
        for lease in self.leases:
            lease.resign()
        for _ in range(CLOSE_ATTEMPTS):
            if not self.leases or not await self._flush(list(self.leases)):
                break
        for lease in tuple(self.leases):
            lease.drop()
        self.leases.clear()

    async def _run(self) -> None:
        while True:
            await self._wait()
            # Records that are added within this time are written together.
            await asyncio.sleep(FLUSH_SECONDS)
            self._wake_event.clear()
            now = self._loop.time()
            self._set_unneeded_aside(now)
            due = [lease for lease in self.leases if now >= self._due_at(lease)]
            if due and not await self._flush(due):
                await asyncio.sleep(RETRY_SECONDS)

    async def _wait(self) -> None:
        """Wait for a lease that is due. Leases wake this task only if they must be written at once."""
        now = self._loop.time()
        first = min((self._due_at(lease) for lease in self.leases), default=None)
        if first is not None and first <= now:
            return
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout_at(None if first is None else min(first, now + UNFOLLOWED_SECONDS)):
                await self._wake_event.wait()

    def _due_at(self, lease: CallLease) -> float:
        return lease.due_at(self._calls.lease_seconds)

    def _set_unneeded_aside(self, now: float) -> None:
        """Keep calls that need not be written as long as another gateway may join them."""
        unneeded = [lease for lease in self.leases if lease.unneeded]
        self.leases.difference_update(unneeded)
        for lease in unneeded:
            self._unneeded[lease] = lease.written_at + self._calls.lease_seconds + JOIN_SECONDS
        while self._unneeded:
            lease, until = next(iter(self._unneeded.items()))
            if until > now and len(self._unneeded) <= MAX_UNNEEDED:
                break
            del self._unneeded[lease]

    def on_joined(self, call_id: str) -> None:
        """Write a call at once that another gateway has begun to follow."""
        lease = self._by_id.get(call_id)
        if lease is None or lease.over:
            return
        if self._unneeded.pop(lease, None) is not None:
            self.leases.add(lease)
        lease.set_followed()

    async def _flush(self, due: list[CallLease]) -> bool:
        """Write the next records of these leases. Returns whether Redis answered."""
        for group in _groups(due):
            try:
                await self._write(group)
            except RedisUnavailable:
                now = self._loop.time()
                for lease in due:
                    lease.on_unavailable(now, self._calls.lease_seconds)
                return False
            except Exception:
                log.exception("defect while writing shared replies to redis")
                for lease in group:
                    lease.drop()
            finally:
                self.leases -= {lease for lease in due if lease.over}
        return True

    async def _write(self, group: list[CallLease]) -> None:
        results = await self._calls.write([lease.next_write() for lease in group])
        now = self._loop.time()
        for lease, result in zip(group, results, strict=True):
            lease.on_written(result, now)


def _groups(due: list[CallLease]) -> Iterator[list[CallLease]]:
    """Yield groups that are small enough for one request to Redis."""
    group: list[CallLease] = []
    size = 0
    for lease in due:
        record_bytes = len(lease.next_write().record)
        if group and (len(group) == MAX_CALLS_PER_WRITE or size + record_bytes > MAX_CALL_BYTES):
            yield group
            group, size = [], 0
        group.append(lease)
        size += record_bytes
    if group:
        yield group
