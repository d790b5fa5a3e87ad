"""What answers a question: a stored reply, a call that is under way, or a new one.

Equal questions at one time are one call. A reply is stored when it has ended well, whoever still listens by then.
"""

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Callable, Sequence

from app.cache.entry import Batch, Damaged, Entry, Unstorable, dump, load, storable
from app.cache.flight import Beat, Flight, Listener, Place
from app.cache.question import Commons, Lead, Question, Rules, Source
from app.cache.recorded import Recorded
from app.cache.stores import Stats, Store
from app.chat.reply import Reply
from app.errors import CacheMiss, UpstreamFailed

log = logging.getLogger("parley.cache")

AFTERGLOW_SECONDS = 1.0
"""How long a reply that is stored can still be had from memory: for whoever looked it up just before it was stored."""
LARGE_ENTRY = 256 * 1024
"""Entries of more bytes than this are packed in a thread."""


class Cache:
    def __init__(self, store: Store, beat: Beat, rules: Rules, commons: Commons | None = None) -> None:
        self._store = store
        self._beat = beat
        self._rules = rules
        self._commons = commons
        self._flights: dict[str, Flight] = {}
        self._all: set[Flight] = set()
        self._storing: set[asyncio.Task[None]] = set()
        self.counts: Counter[str] = Counter()
        """Questions by where their reply came from."""

    @property
    def calls(self) -> int:
        """All that are under way."""
        return len(self._all)

    @property
    def calls_without_caller(self) -> int:
        """Those that nobody listens to, but that go on for callers who may come back. Takes a look at each call."""
        return sum(not flight.heard for flight in self._all)

    async def reply(self, question: Question, lead: Lead) -> Reply:
        """Raises CacheMiss where only a stored reply was wanted, UpstreamFailed."""
        control, origin = question.control, question.origin
        stored = await self._stored(question) if control.read else None
        if stored is None and control.only:
            origin.label = "miss"
            raise CacheMiss("no reply is cached")
        if stored is not None:
            reply: Reply = self._hit(question, stored)
        elif control.share and control.read:
            reply = await self._shared(question, lead)
        else:
            origin.label = "refresh" if control.write else "bypass"
            reply = await self._joined(question, self._launch(question, lead))
        self.counts[origin.label] += 1
        return reply

    def _hit(self, question: Question, stored: Recorded) -> Reply:
        question.origin.label = "hit"
        question.found(stored)
        return stored.listen(self._rules.pace)

    # -- what is stored -----------------------------------------------------------------------------------------------

    async def _stored(self, question: Question) -> Recorded | None:
        flight = self._flights.get(question.key)
        if flight is not None and flight.ended:
            return _young(question, flight.log, flight.finished_at)
        if flight is not None and flight.whole and not question.control.only:
            return None
        entry = await self._entry(question.key)
        return None if entry is None else _young(question, entry.batches, entry.created)

    async def _entry(self, key: str) -> Entry | None:
        stored = await self._store.get(key)
        if stored is None:
            return None
        try:
            return load(stored.value)
        except Damaged as error:
            log.warning("a cached reply is not read: %s", error)
            await self._store.delete(key)
            return None

    # -- calls --------------------------------------------------------------------------------------------------------

    async def _shared(self, question: Question, lead: Lead) -> Reply:
        """Join the call that is under way, or make it. Somebody else's failure is not the end of it."""
        chances = 1 + question.retries
        while True:
            flight = self._flights.get(question.key)
            if flight is not None and flight.ended:
                recorded = _young(question, flight.log, flight.finished_at)
                if recorded is not None:
                    return self._hit(question, recorded)
            if flight is not None and (flight.ended or not flight.whole):
                flight = None
            led = flight is None
            question.origin.label = "miss" if led else "shared"
            try:
                return await self._joined(question, flight or self._launch(question, lead))
            except UpstreamFailed as error:
                if led or not error.retryable or not chances:
                    raise
                chances -= 1

    async def _joined(self, question: Question, flight: Flight) -> Listener:
        if question.stays:
            flight.hold()
        question.found(flight)
        listener = await flight.again()
        if flight.followed:
            question.origin.label = "shared"
        return listener

    def _launch(self, question: Question, lead: Lead) -> Flight:
        """A new call, which equal questions may join from now on where this one shares."""

        async def start() -> Reply:
            return await self._begun(question, flight, lead)

        flight = self._take_off(start, lambda flight: self._over(question, flight))
        if question.control.share:
            self._flights[question.key] = flight
        return flight

    async def _begun(self, question: Question, flight: Flight, lead: Lead) -> Reply:
        if self._commons is None:
            return await lead()
        if not (question.control.share and question.control.read):
            reply, _, flight.id = await self._commons.lead_private(lead)
            return reply
        for chance in (True, False):
            led = False

            async def leading() -> Reply:
                nonlocal led
                led = True
                return await lead()

            try:
                reply, led, flight.id = await self._commons.open(question.key, leading)
            except UpstreamFailed as error:
                if led or not error.retryable or not chance:
                    raise
            else:
                flight.followed = not led
                return reply
        raise AssertionError("the second chance returns or raises")

    def _take_off(self, start: Lead, over: Callable[[Flight], None]) -> Flight:
        """`over` sees to it that the flight is `_landed`."""
        flight = Flight(start, over)
        self._beat.add(flight)
        self._all.add(flight)
        return flight

    def _landed(self, flight: Flight) -> None:
        self._beat.discard(flight)
        self._all.discard(flight)

    def _over(self, question: Question, flight: Flight) -> None:
        self._landed(flight)
        good = flight.whole and storable(flight.log, length=self._rules.store_length)
        if good and question.control.write:
            self._succeed(question.key, flight)
            task = asyncio.get_running_loop().create_task(self._keep(question, flight))
            self._storing.add(task)
            task.add_done_callback(self._storing.discard)
        else:
            self._forget(question.key, flight)

    async def _keep(self, question: Question, flight: Flight) -> None:
        try:
            assert flight.finished_at is not None
            entry = Entry(flight.finished_at, flight.log)
            data = dump(entry) if flight.size < LARGE_ENTRY else await asyncio.to_thread(dump, entry)
            if not flight.followed:
                await self._store.put(question.key, data, ttl_seconds=question.ttl_seconds, model=question.model)
        except Unstorable as error:
            log.warning("a reply is not stored: %s", error)
        finally:
            asyncio.get_running_loop().call_later(AFTERGLOW_SECONDS, self._forget, question.key, flight)

    def _succeed(self, key: str, flight: Flight) -> None:
        """Its reply is the newest there is; a call that is under way will be newer still."""
        known = self._flights.get(key)
        if known is None or known.ended:
            self._flights[key] = flight

    def _forget(self, key: str, flight: Flight) -> None:
        if self._flights.get(key) is flight:
            del self._flights[key]

    # -- what was asked for before ------------------------------------------------------------------------------------

    @property
    def common(self) -> bool:
        """Other processes can know of what happens here."""
        return self._commons is not None

    async def note(self, reply_id: str, data: bytes, ttl_seconds: float) -> None:
        if self._commons is not None:
            await self._commons.note(reply_id, data, ttl_seconds)

    async def noted(self, reply_id: str) -> bytes | None:
        return None if self._commons is None else await self._commons.noted(reply_id)

    async def live(self, place: Place) -> bool:
        """What another process told of has not ended."""
        kind, name = place
        return kind == "flight" and self._commons is not None and await self._commons.live(name)

    async def stop(self, reply_id: str) -> bool:
        """Let every other process know that this reply is cancelled. False: that cannot be."""
        return self._commons is None or await self._commons.stop(reply_id)

    def heed(self, stopped: Callable[[str], None]) -> None:
        """`stopped` is told of replies that are cancelled anywhere."""
        if self._commons is not None:
            self._commons.heed(stopped)

    async def recalled(self, place: Place) -> Source | None:
        """What another process told of, where it still is."""
        kind, name = place
        if kind == "entry":
            key, _, at = name.rpartition("@")
            entry = await self._entry(key)
            # Another reply to the same question may have taken its place.
            return None if entry is None or at != repr(entry.created) else Recorded(key, entry.batches, entry.created)
        followed = None if self._commons is None else await self._commons.follow(name)
        if followed is None:
            return None

        async def start() -> Reply:
            return followed

        return self._take_off(start, self._landed)

    # -- looking after it ---------------------------------------------------------------------------------------------

    async def purge(self, model: str | None = None) -> int:
        """How many entries went. Raises StoreError."""
        for key in [key for key, flight in self._flights.items() if flight.ended]:
            del self._flights[key]
        return await self._store.purge(model)

    async def stats(self) -> Stats:
        """Raises StoreError."""
        return await self._store.stats()

    async def aclose(self) -> None:
        for flight in tuple(self._all):
            flight.abort()
        if self._storing:
            await asyncio.wait(self._storing, timeout=5)
        if self._commons is not None:
            await self._commons.aclose()
        await self._store.aclose()


def _young(question: Question, batches: Sequence[Batch], finished_at: float | None) -> Recorded | None:
    """The kept reply, unless the caller wants a newer one."""
    assert finished_at is not None
    age, bound = max(0.0, time.time() - finished_at), question.control.max_age
    if bound is not None and age > bound:
        return None
    question.origin.age_seconds = int(age)
    return Recorded(question.key, batches, finished_at)
