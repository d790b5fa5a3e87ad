"""A receiver that takes a reply to its end."""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Sequence

from app.chat.events import Event, is_end


class ReplyConsumer(ABC):
    """Receives a reply. A subclass keeps what it needs of the events."""

    def __init__(self) -> None:
        self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """Done when no more events are added; has the exception if the gateway has a defect."""

    @abstractmethod
    def add_events(self, events: list[Event]) -> None: ...

    def on_events(self, events: list[Event]) -> None:
        if self.ended.done():
            return
        self.add_events(events)
        if is_end(events) and not self.ended.done():
            self.ended.set_result(None)

    def on_batches(self, batches: Sequence[list[Event]]) -> None:
        for events in batches:
            self.on_events(events)

    def on_crash(self, error: Exception) -> None:
        if not self.ended.done():
            self.ended.set_exception(error)
