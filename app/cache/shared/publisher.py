"""A reply that is told here at once, and to whoever follows it elsewhere through Redis."""

import asyncio
from collections.abc import Iterable, Sequence

from app.cache.codec import Batch, is_cacheable
from app.cache.shared.lease import CallLease
from app.chat.events import Event, Failed, Fault, Finish
from app.chat.stream import Receiver, Reply

JOINABLE_AFTER_END_MS = 2000
"""How long a reply that ended well can still be joined: until it can be found in the store."""
MAX_AHEAD_BYTES = 8 * 1024 * 1024
"""What a local receiver that cannot take more is given all the same, so that others need not wait for it."""

CRASHED = Fault("upstream_protocol", "the gateway that received this reply could not read it", False)


class DiscardReceiver:
    """Takes what nobody wants."""

    def on_events(self, events: list[Event]) -> None: ...

    def on_batches(self, batches: Sequence[list[Event]]) -> None: ...

    def on_crash(self, error: Exception) -> None: ...


class PublishedReply:
    """Closed by its receiver, it goes on while somebody else listens. `asked_at` is the loop's time; `before` is what
    was told of the flight until now."""

    def __init__(self, source: Reply, tenure: CallLease, asked_at: float, before: Iterable[list[Event]] = ()) -> None:
        self._source = source
        self._lease = tenure
        self._loop = asyncio.get_running_loop()
        self._asked_at = asked_at
        self._receiver: Receiver = DiscardReceiver()
        self._batches = [Batch(0.0, events) for events in before]
        self._over = self._deserted = self._paused = self._held = False
        self._ahead = 0
        tenure.holder = self

    # -- for whoever listens here -------------------------------------------------------------------------------------

    def start(self, receiver: Receiver) -> None:
        self._receiver = receiver
        self._source.start(self)

    def pause(self) -> None:
        self._paused = True
        self._update_backpressure()

    def resume(self) -> None:
        self._paused, self._ahead = False, 0
        self._update_backpressure()

    def tick(self, now: float) -> None:
        self._source.tick(now)

    def close(self) -> None:
        if self._over:
            self._source.close()
        elif not self._deserted:
            self._deserted, self._receiver = True, DiscardReceiver()
            if self._lease.over:
                self._stop()
            else:
                self._lease.leave_unless_followed()

    def _update_backpressure(self) -> None:
        """Who is slow here holds the server back only while nobody waits elsewhere, or far behind."""
        wanted = self._lease.has_followers and self._ahead < MAX_AHEAD_BYTES
        held = self._paused and not self._over and not (self._deserted or wanted)
        if held is not self._held:
            self._held = held
            (self._source.pause if held else self._source.resume)()

    def _stop(self) -> None:
        self._over = True
        self._source.close()

    # -- from the source ----------------------------------------------------------------------------------------------

    def on_events(self, events: list[Event]) -> None:
        self._note_end(events)
        self._receiver.on_events(events)
        self._publish([events])

    def on_batches(self, batches: Sequence[list[Event]]) -> None:
        self._note_end(batches[-1])
        self._receiver.on_batches(batches)
        self._publish(batches)

    def on_crash(self, error: Exception) -> None:
        self._over = True
        self._receiver.on_crash(error)
        self._publish([[Failed(CRASHED)]])

    def _note_end(self, events: list[Event]) -> None:
        self._over = self._over or (bool(events) and isinstance(events[-1], Finish | Failed))

    def _publish(self, batches: Sequence[list[Event]]) -> None:
        if self._lease.over:
            self._batches.clear()
            return
        at = self._loop.time() - self._asked_at
        for events in batches:
            self._batches.append(Batch(at, events))
            size = self._lease.append(self._batches[-1])
            self._ahead += size if self._paused else 0
        if self._over:
            good = is_cacheable(self._batches, length=False)
            self._lease.end(JOINABLE_AFTER_END_MS if good else 0)
            self._batches.clear()
        elif self._paused:
            self._update_backpressure()

    # -- from Redis ---------------------------------------------------------------------------------------------------

    def on_beat(self, others: bool) -> None:
        if self._over:
            return
        self._update_backpressure()
        if self._deserted:
            self._source.tick(self._loop.time())

    def on_alone(self) -> None:
        if self._deserted and not self._over:
            self._stop()

    def on_lost(self) -> None:
        self._batches.clear()
        if self._deserted and not self._over:
            self._stop()
        else:
            self._update_backpressure()
