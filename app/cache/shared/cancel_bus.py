"""Tells every gateway of the same Redis the ids of cancelled replies, and the leader of a call that it is followed."""

import asyncio
import logging
from collections.abc import Callable
from typing import Any

from app.cache.redis.breaker import RedisUnavailable
from app.cache.shared.call_store import JOINED, PREFIX, CallStore, to_text

log = logging.getLogger("parley.cache")

NOTICES = f"{PREFIX}:notices"
MAX_NOTICES = 1000
"""Older notices are dropped: the gateways have read them."""
BLOCK_MS = 2000
RETRY_SECONDS = 1.0


async def publish(calls: CallStore, id_: str) -> None:
    """Tell all gateways that this reply is cancelled. Raises RedisUnavailable."""
    await calls.call(lambda redis: redis.xadd(NOTICES, {"id": id_}, maxlen=MAX_NOTICES))


class NoticeReader:
    """Calls `on_cancelled` with the id of each reply that a gateway cancels, including this one, and `on_joined` with
    the id of each call that a gateway begins to follow; also with recent earlier ones."""

    def __init__(
        self,
        calls: CallStore,
        on_cancelled: Callable[[str], None],
        on_joined: Callable[[str], None],
        retry_seconds: float = RETRY_SECONDS,
    ) -> None:
        self._calls = calls
        self._retry_seconds = retry_seconds
        self._handlers = {NOTICES: on_cancelled, JOINED: on_joined}
        self._last = dict.fromkeys(self._handlers, "0-0")
        """The id of the last notice that was read of each stream. Earlier ones are about replies that this process
        never had."""
        self._task = asyncio.get_running_loop().create_task(self._read_on())

    async def _read_on(self) -> None:
        while True:
            try:
                await self._read()
            except RedisUnavailable:
                await asyncio.sleep(self._retry_seconds)
            except Exception:
                log.exception("defect while reading notices of other gateways")
                await asyncio.sleep(self._retry_seconds)

    async def _read(self) -> None:
        """Handle the new notices. If there are none, wait at most BLOCK_MS for the first."""
        last: dict[Any, Any] = dict(self._last)
        found: Any = await self._calls.call_blocking(lambda redis: redis.xread(last, block=BLOCK_MS), BLOCK_MS)
        for stream, entries in found.items() if isinstance(found, dict) else found or []:
            name = to_text(stream)
            for id_, fields in entries:
                self._last[name] = to_text(id_)
                self._handlers[name](to_text(fields[b"id"]))

    async def aclose(self) -> None:
        self._task.cancel()
        await asyncio.wait([self._task])
