"""A cache between callers and a model, both of them in the hand of a test."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from app.cache import Cache, CacheRequest, CacheRules, Join, ReplaySource
from app.cache.policy import ON, CachePolicy
from app.calls.call import InFlightCall, OpenUpstream
from app.calls.entry import Batch, StoredEntry, dump
from app.chat.events import Event, Failed
from app.chat.stream import Origin, Reply
from app.errors import UpstreamFailed
from app.stores import Store, StoredValue, StoreError, StoreLimits, StoreStats
from app.stores.memory import MemoryStore
from msgspec.structs import replace

from tests.cache.fake_calls import DONE, FakeCaller, say
from tests.cache.fake_calls import Source as Upstream

REPLY: list[list[Event]] = [*say("one", "two"), [DONE]]


class Clock:
    def __init__(self) -> None:
        self.now = 1_700_000_000.0

    def __call__(self) -> float:
        return self.now


class Model:
    """Every call is one of `calls`; those that are refused are counted too."""

    def __init__(self) -> None:
        self.calls: list[Upstream] = []
        self.asked = 0
        self.refusals: list[UpstreamFailed] = []
        self.gate: asyncio.Event | None = None
        """The server's first word waits for it."""

    async def lead(self) -> Reply:
        self.asked += 1
        refusal = self.refusals.pop(0) if self.refusals else None
        if self.gate is not None:
            await self.gate.wait()
        if refusal is not None:
            raise refusal
        self.calls.append(Upstream())
        return self.calls[-1]


@dataclass
class Ticker:
    live: set[InFlightCall] = field(default_factory=set)

    def add(self, one: InFlightCall) -> None:
        self.live.add(one)

    def discard(self, one: InFlightCall) -> None:
        self.live.discard(one)


@dataclass
class Answer:
    """What one caller got."""

    caller: FakeCaller
    origin: Origin
    found: list[ReplaySource]

    @property
    def received(self) -> tuple[str, list[list[Event]]]:
        return self.origin.label, self.caller.batches


class Bench:
    def __init__(self, rules: CacheRules | None = None, store: Store | None = None) -> None:
        self.clock = Clock()
        self.store = store or MemoryStore(StoreLimits(clock=self.clock))
        self.ticker = Ticker()
        self.cache = Cache(self.store, self.ticker, replace(rules or CacheRules(), clock=self.clock))
        self.model = Model()

    def question(self, control: CachePolicy = ON, **more: Any) -> CacheRequest:
        asked = CacheRequest("k", "m", control, 3600.0, 0.0)
        return replace(asked, **more)

    async def ask(
        self, control: CachePolicy = ON, lead: OpenUpstream | None = None, retries: int = 0, **more: Any
    ) -> Answer:
        """As far as the reply has come."""
        sources: list[ReplaySource] = []
        request, lead = self.question(control, **more), lead or self.model.lead
        found = await self.cache.find(request, lead)
        while True:
            if found.source is not None:
                sources.append(found.source)
            try:
                reply = await self.cache.open(found)
                break
            except UpstreamFailed as error:
                if not (isinstance(found, Join) and error.retryable and retries >= 0):
                    raise
            retries -= 1
            found = self.cache.join_or_start(request, lead)
        answer = Answer(FakeCaller(), replace(found.origin, fallback_model=reply.fallback_model), sources)
        answer.caller.listen(reply)
        return answer

    async def ask_and_answer(
        self, batches: Sequence[list[Event]] = REPLY, control: CachePolicy = ON, **more: Any
    ) -> Answer:
        """One whole question; the model, if it is asked, answers so."""
        before = len(self.model.calls)
        answer = await self.ask(control, **more)
        for call in self.model.calls[before:]:
            for batch in batches:
                call.push(batch)
        assert answer.caller.reply is not None
        answer.caller.leave()
        await self.settled()
        return answer

    async def settled(self) -> None:
        """What is to be stored is stored."""
        while self.cache.storing:
            await asyncio.sleep(0.001)

    async def forget_memory(self) -> None:
        """Whatever was kept in memory for a moment is forgotten."""
        await self.settled()
        await asyncio.sleep(2)
        assert not self.cache.in_memory

    async def stats(self) -> StoreStats:
        return await self.cache.stats()


class Broken:
    """A store whose operations fail, or which gives back rubbish."""

    def __init__(self, value: bytes | None = None) -> None:
        self.value = value
        self.deleted: list[str] = []

    async def get(self, key: str) -> StoredValue | None:
        if self.value is None:
            raise StoreError("no disk")
        return None if self.deleted else StoredValue(self.value, 0.0)

    async def put(self, key: str, value: bytes, *, ttl_seconds: float, model: str) -> None:
        raise StoreError("no disk")

    async def delete(self, key: str) -> None:
        self.deleted.append(key)
        if self.value is None:
            raise StoreError("no disk")

    async def purge(self, model: str | None = None) -> int:
        return 0

    async def stats(self) -> StoreStats:
        return StoreStats(0, 0, {})

    async def aclose(self) -> None: ...


def failed(caller: FakeCaller) -> bool:
    return isinstance(caller.batches[-1][-1], Failed)


ENTRY = dump(StoredEntry(1.0, [Batch(0.0, events) for events in REPLY]))
RUBBISH = {
    "empty": b"",
    "other version": bytes([ENTRY[0] + 1]) + ENTRY[1:],
    "bit": ENTRY[:-3] + bytes([ENTRY[-3] ^ 1]) + ENTRY[-2:],
    "cut": ENTRY[:-1],
}
