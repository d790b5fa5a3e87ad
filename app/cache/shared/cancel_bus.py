"""Tells every gateway of the same Redis the ids of cancelled replies."""

import asyncio
import logging
from collections.abc import Callable
from typing import Any

from app.cache.redis.breaker import RedisUnavailable
from app.cache.shared.call_store import PREFIX, CallStore, to_text

log = logging.getLogger("parley.cache")

NOTICES = f"{PREFIX}:notices"
MAX_NOTICES = 1000
"""Older notices are dropped: the gateways have read them."""
BLOCK_MS = 2000
RETRY_SECONDS = 1.0


async def publish(calls: CallStore, id_: str) -> None:
    """Tell all gateways that this reply is cancelled. Raises RedisUnavailable."""
    await calls.call(lambda redis: redis.xadd(NOTICES, {"id": id_}, maxlen=MAX_NOTICES))


class CancelBus:
    """Calls `on_cancelled` with each id that a gateway publishes, including this one, and with recent earlier ones."""

    def __init__(
        self, calls: CallStore, on_cancelled: Callable[[str], None], retry_seconds: float = RETRY_SECONDS
    ) -> None:
        self._calls = calls
        self._retry_seconds = retry_seconds
        self._on_cancelled = on_cancelled
        self._last_notice = "0-0"
        """The id of the last notice that was read. Earlier notices are about replies that this process never had."""
        self._task = asyncio.get_running_loop().create_task(self._read_on())

    async def _read_on(self) -> None:
        while True:
            try:
                for id_ in await self._read():
                    self._on_cancelled(id_)
            except RedisUnavailable:
                await asyncio.sleep(self._retry_seconds)
            except Exception:
                log.exception("defect while cancelling replies")
                await asyncio.sleep(self._retry_seconds)

    async def _read(self) -> list[str]:
        """Return the new ids. If there are none, wait at most BLOCK_MS for the first."""
        found: Any = await self._calls.call_blocking(
            lambda redis: redis.xread({NOTICES: self._last_notice}, block=BLOCK_MS), BLOCK_MS
        )
        rows = found.values() if isinstance(found, dict) else [entries for _, entries in found or []]
        entries = [entry for row in rows for entry in row]
        self._last_notice = to_text(entries[-1][0]) if entries else self._last_notice
        return [to_text(fields[b"id"]) for _, fields in entries]

    async def aclose(self) -> None:
        self._task.cancel()
        await asyncio.wait([self._task])
