"""A reply that another gateway receives, read from the stream of its flight; taken over when that gateway dies."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol, TypeAlias

from app.cache.commons.ledger import Names, State
from app.cache.commons.outlet import Outlet
from app.cache.commons.reader import Reader
from app.cache.commons.records import Begun, Left, Record, Refused, Spoken
from app.cache.flight import GIVEN_UP
from app.chat.events import Event, Failed, Fault
from app.chat.reply import Receiver, Reply
from app.errors import UpstreamFailed

Lead: TypeAlias = Callable[[], Awaitable[Reply]]
"""Makes the call to the model. Raises UpstreamFailed."""

MAX_AHEAD = 64
"""Batches that are read for a receiver that cannot take them yet."""
MOMENT_SECONDS = 0.1
"""How long Redis may be away before a reply of which nothing was told is asked for here."""
ORPHANED = Fault("upstream_incomplete", "the gateway that received this reply is gone", True)


class Rescue(Protocol):
    """How a flight goes on whose leader is gone."""

    async def __call__(self, followed: "Followed", lead: Lead, *, shared: bool) -> Reply | None:
        """The rest of the reply; None: somebody else leads. Not `shared`: by a call that only this process has.
        Raises UpstreamFailed."""


class Followed:
    """Without a `lead` it fails when nobody else takes over in time."""

    def __init__(self, names: Names, reader: Reader, rescue: Rescue, lead: Lead | None, patience: float) -> None:
        self.names = names
        self.place = 0
        self.told: list[list[Event]] = []
        """All that was read, whether or not the receiver has it yet."""
        self.led = False
        """It goes on by a call of this process."""
        self.shared = True
        """Redis knows all of it."""
        self.begun: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """Raises where the reply never began."""
        self._reader = reader
        self._rescue = rescue
        self._lead = lead
        self._patience = patience
        self._outlet = Outlet()
        self._rest: Reply | None = None
        self._rescuing: asyncio.Task[None] | None = None
        self._unled_since: float | None = None
        self._idle = False
        reader.add(self)

    # -- for whoever listens ------------------------------------------------------------------------------------------

    def start(self, receiver: Receiver) -> None:
        self._outlet.start(receiver)

    def pause(self) -> None:
        self._outlet.pause()
        if self._rest is not None:
            self._rest.pause()

    def resume(self) -> None:
        self._outlet.resume()
        if self._rest is not None:
            self._rest.resume()
        self._reader.wake()

    def tick(self, now: float) -> None:
        if self._rest is not None:
            self._rest.tick(now)

    def close(self) -> None:
        self._outlet.close()
        self._reader.discard(self)
        if self._rescuing is not None:
            self._rescuing.cancel()
        if self._rest is not None:
            self._rest.close()
        if not self.begun.cancel() and not self.begun.cancelled():
            self.begun.exception()

    # -- what is told -------------------------------------------------------------------------------------------------

    def on_events(self, events: list[Event]) -> None:
        self._outlet.tell([events])

    def on_batches(self, batches: Sequence[list[Event]]) -> None:
        self._outlet.tell(batches)

    def on_crash(self, error: Exception) -> None:
        self._outlet.crash(error)

    def note_begun(self) -> None:
        if not self.begun.done():
            self.begun.set_result(None)

    def _fail(self, error: Exception) -> None:
        """Before it has begun, for whoever waits for that; then as its end."""
        self._reader.discard(self)
        if not self.begun.done():
            self.begun.set_exception(error)
        elif isinstance(error, UpstreamFailed):
            self._outlet.tell([[Failed(error.fault)]])
        else:
            self._outlet.crash(error)

    # -- from the stream ----------------------------------------------------------------------------------------------

    @property
    def over(self) -> bool:
        return self._outlet.over

    @property
    def hungry(self) -> bool:
        outlet = self._outlet
        return not (outlet.over or outlet.paused or self._rescuing or len(outlet) > MAX_AHEAD)

    def on_records(self, found: Sequence[tuple[int, Record | None]]) -> None:
        for place, record in found:
            if place <= self.place or self._outlet.over:
                continue
            if place != self.place + 1 or record is None:
                self._save(shared=False)
                return
            self.place, self._idle = place, False
            self._read(record)

    def _read(self, record: Record) -> None:
        match record:
            case Begun():
                self.note_begun()
            case Spoken(batches):
                self.note_begun()
                self.told += (batch.events for batch in batches)
                self._outlet.tell([batch.events for batch in batches])
                if self._outlet.over:
                    self._reader.discard(self)
            case Refused(fault):
                self._fail(UpstreamFailed(fault))
            case Left():
                self._save(shared=True)

    def on_state(self, state: State) -> None:
        if state != "unled":
            self._unled_since = None
        if not self.hungry:
            return
        if state == "unled":
            self._save(shared=True)
        elif state == "given up" and self._lead is None:
            self._fail(UpstreamFailed(GIVEN_UP))
        elif state in ("gone", "given up") or (state == "ended" and self._idle):
            self._save(shared=False)
        self._idle = state == "ended"

    def on_away(self, seconds: float) -> None:
        # Another call may say something else: that is no risk where nothing was told.
        free = self._lead is not None and not any(self.told)
        if seconds > (MOMENT_SECONDS if free else self._patience) and self.hungry:
            self._save(shared=False)

    # -- when its leader is gone --------------------------------------------------------------------------------------

    def _save(self, *, shared: bool) -> None:
        if self._rescuing is not None or self._outlet.over:
            return
        if self._lead is not None:
            self._rescuing = asyncio.get_running_loop().create_task(self._go_on(self._lead, shared))
        elif not shared or self._patience_over():
            self._fail(UpstreamFailed(ORPHANED))

    def _patience_over(self) -> bool:
        now = asyncio.get_running_loop().time()
        if self._unled_since is None:
            self._unled_since = now
        return now - self._unled_since > self._patience

    async def _go_on(self, lead: Lead, shared: bool) -> None:
        try:
            rest = await self._rescue(self, lead, shared=shared)
        except Exception as error:
            self._fail(error)
            return
        if rest is None:
            self._rescuing = None
            self._reader.wake()
            return
        self._rest, self.led, self.told = rest, True, []
        self._reader.discard(self)
        self.note_begun()
        if self._outlet.paused:
            rest.pause()
        rest.start(self)
