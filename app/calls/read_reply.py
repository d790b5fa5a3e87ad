"""Reads a reply to its end."""

import asyncio
from collections.abc import Sequence

from app.chat.events import Event, is_end
from app.chat.stream import Reply


class _Collector:
    def __init__(self) -> None:
        self.batches: list[list[Event]] = []
        self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def on_events(self, events: list[Event]) -> None:
        if not self.ended.done():
            self.batches.append(events)
            if is_end(events):
                self.ended.set_result(None)

    def on_batches(self, batches: Sequence[list[Event]]) -> None:
        for events in batches:
            self.on_events(events)

    def on_crash(self, error: Exception) -> None:
        if not self.ended.done():
            self.ended.set_exception(error)


async def read_reply(reply: Reply, *, tick_seconds: float | None = None) -> list[list[Event]]:
    """Return all batches of a reply once it has ended, and close it. Its timeouts are checked every `tick_seconds`;
    None: it checks them itself, or the caller limits the time. Raises what ended it, if that is a defect of the
    gateway."""
    collector = _Collector()
    try:
        reply.start(collector)
        if tick_seconds is not None:
            await _wait_and_tick(reply, collector.ended, tick_seconds)
        await collector.ended
    finally:
        reply.close()
    return collector.batches


async def _wait_and_tick(reply: Reply, ended: asyncio.Future[None], seconds: float) -> None:
    loop = asyncio.get_running_loop()
    while not ended.done():
        await asyncio.wait([ended], timeout=seconds)
        reply.tick(loop.time())
