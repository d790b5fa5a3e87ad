"""What every gateway must hear: replies that are cancelled, by their ids, wherever somebody is told them."""

import asyncio
import logging
from collections.abc import Callable
from typing import Any

from app.cache.redis.breaker import RedisUnavailable
from app.cache.shared.call_store import PREFIX, CallStore, to_text

log = logging.getLogger("parley.cache")

NOTICES = f"{PREFIX}:notices"
MAX_NOTICES = 1000
"""Older ones are forgotten: whom they concern has read them."""
BLOCK_MS = 2000
RETRY_SECONDS = 1.0


async def publish(ledger: CallStore, id_: str) -> None:
    """Raises Away."""
    await ledger.ask(lambda redis: redis.xadd(NOTICES, {"id": id_}, maxlen=MAX_NOTICES))


class CancelBus:
    """`cancelled` is told each id that any gateway posts, this one too, and not long ago did."""

    def __init__(
        self, ledger: CallStore, cancelled: Callable[[str], None], retry_seconds: float = RETRY_SECONDS
    ) -> None:
        self._calls = ledger
        self._retry_seconds = retry_seconds
        self._on_cancelled = cancelled
        self._place = "0-0"
        """Of the last notice that was read. Those of before are of replies that nobody here knows."""
        self._task = asyncio.get_running_loop().create_task(self._read_on())

    async def _read_on(self) -> None:
        while True:
            try:
                for id_ in await self._read():
                    self._on_cancelled(id_)
            except RedisUnavailable:
                await asyncio.sleep(self._retry_seconds)
            except Exception:
                log.exception("defect while replies were cancelled")
                await asyncio.sleep(self._retry_seconds)

    async def _read(self) -> list[str]:
        """Those that are new; where there are none, the first that come."""
        found: Any = await self._calls.wait(lambda redis: redis.xread({NOTICES: self._place}, block=BLOCK_MS), BLOCK_MS)
        rows = found.values() if isinstance(found, dict) else [entries for _, entries in found or []]
        entries = [entry for row in rows for entry in row]
        self._place = to_text(entries[-1][0]) if entries else self._place
        return [to_text(fields[b"id"]) for _, fields in entries]

    async def aclose(self) -> None:
        self._task.cancel()
        await asyncio.wait([self._task])
