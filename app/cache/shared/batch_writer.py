"""Writes the records of all calls that this process leads to Redis, in one batch every few milliseconds.

One task makes one request to Redis at a time, however many calls there are. No reply waits for it.
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
CLOSE_ATTEMPTS = 20


class BatchWriter:
    def __init__(self, calls: CallStore) -> None:
        self._calls = calls
        self._loop = asyncio.get_running_loop()
        self.leases: set[CallLease] = set()
        self._wake_event = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def begin(self, keys: CallKeys, fence: int, last_record: int = 0) -> CallLease:
        """Start to write the records of a call. `last_record` is the number of the last record that is written."""
        lease = CallLease(keys, fence, last_record, self._wake_event.set, self._loop.time())
        self.leases.add(lease)
        if self._task is None:
            self._task = self._loop.create_task(self._run())
        self._wake_event.set()
        return lease

    def __len__(self) -> int:
        return len(self.leases)

    async def aclose(self) -> None:
        """Release the leases, so that other gateways can take the calls over."""
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task
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
            due = [lease for lease in self.leases if lease.urgent or now >= self._renewal_time(lease)]
            if due and not await self._flush(due):
                await asyncio.sleep(RETRY_SECONDS)

    async def _wait(self) -> None:
        if any(lease.urgent for lease in self.leases):
            return
        first = min((self._renewal_time(lease) for lease in self.leases), default=None)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout_at(first):
                await self._wake_event.wait()

    def _renewal_time(self, lease: CallLease) -> float:
        return lease.written_at + self._calls.lease_seconds / 3

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
