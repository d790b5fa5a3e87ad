"""A reply whose events are known before it is read."""

from collections.abc import Sequence

from app.chat.events import Event
from app.chat.stream import Receiver


class KnownReply:
    """A `Reply` that gives its receiver all of its events at once. The last is a `Finish` or a `Failed`."""

    fallback_model: str | None = None

    def __init__(self, events: Sequence[Event]) -> None:
        self._events = events

    def start(self, receiver: Receiver) -> None:
        receiver.on_events([*self._events])

    def pause(self) -> None: ...

    def resume(self) -> None: ...

    def tick(self, now: float) -> None: ...

    def close(self) -> None: ...
