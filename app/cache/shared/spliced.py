"""A reply that goes on where another one to the same request broke off."""

from collections.abc import Iterable, Sequence

from app.cache.shared.splice import Splice
from app.chat.events import Event, Failed, Finish
from app.chat.stream import Receiver, Reply


class SplicedReply:
    """What repeats the reply before it only shows that the server lives."""

    def __init__(self, source: Reply, told: Iterable[list[Event]]) -> None:
        self._source = source
        self._splice = Splice(told)
        self._receiver: Receiver | None = None

    def start(self, receiver: Receiver) -> None:
        self._receiver = receiver
        self._source.start(self)

    def pause(self) -> None:
        self._source.pause()

    def resume(self) -> None:
        self._source.resume()

    def tick(self, now: float) -> None:
        self._source.tick(now)

    def close(self) -> None:
        self._receiver = None
        self._source.close()

    def on_events(self, events: list[Event]) -> None:
        if self._receiver is not None:
            rest = self._splice.feed(events)
            receiver = self._ended(rest)
            receiver.on_events(rest)

    def on_batches(self, batches: Sequence[list[Event]]) -> None:
        if self._receiver is not None:
            rest = [self._splice.feed(events) for events in batches]
            end = next((at for at, events in enumerate(rest) if _last(events)), len(rest) - 1)
            receiver = self._ended(rest[end])
            receiver.on_batches(rest[: end + 1])

    def on_crash(self, error: Exception) -> None:
        receiver, self._receiver = self._receiver, None
        if receiver is not None:
            receiver.on_crash(error)

    def _ended(self, events: list[Event]) -> Receiver:
        receiver = self._receiver
        assert receiver is not None
        if _last(events):
            self.close()
        return receiver


def _last(events: list[Event]) -> bool:
    return bool(events) and isinstance(events[-1], Finish | Failed)
