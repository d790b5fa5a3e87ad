"""A reply that is told here at once, and to whoever follows it elsewhere through Redis."""

import asyncio
from collections.abc import Iterable, Sequence

from app.cache.commons.tenure import Tenure
from app.cache.entry import Batch, storable
from app.chat.events import Event, Failed, Fault, Finish
from app.chat.reply import Receiver, Reply

GLOW_MS = 2000
"""How long a reply that ended well can still be joined: until it can be found in the store."""
MAX_AHEAD_BYTES = 8 * 1024 * 1024
"""What a local receiver that cannot take more is given all the same, so that others need not wait for it."""

CRASHED = Fault("upstream_protocol", "the gateway that received this reply could not read it", False)


class Nobody:
    """Takes what nobody wants."""

    def on_events(self, events: list[Event]) -> None: ...

    def on_batches(self, batches: Sequence[list[Event]]) -> None: ...

    def on_crash(self, error: Exception) -> None: ...


class Published:
    """Closed by its receiver, it goes on while somebody else listens. `asked_at` is the loop's time; `before` is what
    was told of the flight until now."""

    def __init__(self, source: Reply, tenure: Tenure, asked_at: float, before: Iterable[list[Event]] = ()) -> None:
        self._source = source
        self._tenure = tenure
        self._loop = asyncio.get_running_loop()
        self._asked_at = asked_at
        self._receiver: Receiver = Nobody()
        self._batches = [Batch(0.0, events) for events in before]
        self._over = self._deserted = self._paused = self._held = False
        self._ahead = 0
        tenure.leader = self

    # -- for whoever listens here -------------------------------------------------------------------------------------

    def start(self, receiver: Receiver) -> None:
        self._receiver = receiver
        self._source.start(self)

    def pause(self) -> None:
        self._paused = True
        self._balance()

    def resume(self) -> None:
        self._paused, self._ahead = False, 0
        self._balance()

    def tick(self, now: float) -> None:
        self._source.tick(now)

    def close(self) -> None:
        if self._over:
            self._source.close()
        elif not self._deserted:
            self._deserted, self._receiver = True, Nobody()
            if self._tenure.over:
                self._stop()
            else:
                self._tenure.leave()

    def _balance(self) -> None:
        """Who is slow here holds the server back only while nobody waits elsewhere, or far behind."""
        wanted = self._tenure.others and self._ahead < MAX_AHEAD_BYTES
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
        if self._tenure.over:
            self._batches.clear()
            return
        at = self._loop.time() - self._asked_at
        for events in batches:
            self._batches.append(Batch(at, events))
            size = self._tenure.speak(self._batches[-1])
            self._ahead += size if self._paused else 0
        if self._over:
            good = storable(self._batches, length=False)
            self._tenure.end(GLOW_MS if good else 0)
            self._batches.clear()
        elif self._paused:
            self._balance()

    # -- from Redis ---------------------------------------------------------------------------------------------------

    def on_beat(self, others: bool) -> None:
        if self._over:
            return
        self._balance()
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
            self._balance()
