"""Gateways that share a Redis, reduced to their coordinators; replies that come when a test says so."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from typing import Any, TypeVar

from app.calls.call import LOST, InFlightCall, OpenUpstream
from app.calls.log import LOG_LIMITS, LogLimits, LogReader
from app.calls.shared import Coordinator
from app.calls.shared.batch_writer import BatchWriter
from app.calls.shared.tailer import StreamTailer
from app.chat.events import Event, Failed, Finish, ReasoningDelta, TextDelta
from app.chat.stream import Receiver, Reply
from app.errors import UpstreamFailed
from app.redis.connection import Client, RedisConnection, RedisUnavailable
from app.redis.urls import RedisUrl
from app.runtime.ticker import Ticker

from tests.calls.shared.reply_strategies import DONE, flat

T = TypeVar("T")

LEASE_SECONDS = 3.0
QUICK = 0.8
"""A lease where a test waits for it to run out."""
DEADLINE_SECONDS = 20.0
REPLY: list[list[Event]] = [
    [ReasoningDelta("Let me ")],
    [ReasoningDelta("see."), TextDelta("One")],
    [],
    [TextDelta(", two"), TextDelta(", three")],
    [TextDelta(" and four.")],
    [DONE],
]


def play(scene: Coroutine[Any, Any, None]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(DEADLINE_SECONDS * 2):
            await scene
        left = asyncio.all_tasks() - {asyncio.current_task()}
        assert not left, left

    asyncio.run(bounded())


class Scripted:
    """A model server's reply: `push` brings its next batches."""

    fallback_model: str | None = None

    def __init__(self, batches: Sequence[list[Event]] = REPLY) -> None:
        self.left = list(batches)
        self._receiver: Receiver | None = None
        self.paused = self.started = False
        self.closed = asyncio.Event()
        self.ticks = 0
        self.changed = asyncio.Event()

    def start(self, receiver: Receiver) -> None:
        assert not self.started
        self.started = True
        self._receiver = receiver
        self.changed.set()

    def push(self, count: int = 1000) -> None:
        for _ in range(min(count, len(self.left))):
            if self._receiver is not None and not self.closed.is_set():
                self._receiver.on_events(self.left.pop(0))

    def crash(self, error: Exception) -> None:
        assert self._receiver
        self._receiver.on_crash(error)

    def pause(self) -> None:
        self.paused = True

    def resume(self) -> None:
        self.paused = False
        self.changed.set()

    def tick(self, now: float) -> None:
        self.ticks += 1

    def close(self) -> None:
        self.closed.set()


class Model:
    """What leads ask: every call is one reply of `calls`. With `own`, they come to their end by themselves."""

    def __init__(self, batches: Sequence[list[Event]] = REPLY, *, own: bool = False) -> None:
        self.batches = batches
        self.own = own
        self.calls: list[Scripted] = []
        self.refusal: UpstreamFailed | None = None
        self.fallback_model: str | None = None
        self.asked = asyncio.Event()
        self.answers = asyncio.Event()
        self.answers.set()

    async def lead(self) -> Reply:
        self.asked.set()
        await self.answers.wait()
        if self.refusal is not None:
            raise self.refusal
        reply = Scripted(self.batches)
        reply.fallback_model = self.fallback_model
        self.calls.append(reply)
        if self.own:
            asyncio.get_running_loop().call_soon(self._push_soon, reply)
        return reply

    def _push_soon(self, reply: Scripted) -> None:
        if reply.started:
            reply.push()
        else:
            asyncio.get_running_loop().call_later(0.005, self._push_soon, reply)


class ReplyReader:
    """A caller."""

    def __init__(self) -> None:
        self.batches: list[list[Event]] = []
        self.error: Exception | None = None
        self._news = asyncio.Event()

    def on_events(self, events: list[Event]) -> None:
        self.on_batches([events])

    def on_batches(self, batches: Sequence[list[Event]]) -> None:
        assert not self.over, "told behind the end"
        self.batches += batches
        self._news.set()

    def on_crash(self, error: Exception) -> None:
        assert not self.over
        self.error = error
        self._news.set()

    @property
    def events(self) -> list[Event]:
        return [event for events in self.batches for event in events]

    @property
    def over(self) -> bool:
        return self.error is not None or (bool(self.events) and isinstance(self.events[-1], Finish | Failed))

    async def reach(self, letters: int) -> None:
        async with asyncio.timeout(DEADLINE_SECONDS):
            while len(flat([self.events])) < letters:
                await self.more()

    async def end(self) -> list[Event]:
        async with asyncio.timeout(DEADLINE_SECONDS):
            while not self.over:
                await self.more()
        return flat([self.events])

    async def more(self) -> None:
        self._news.clear()
        await self._news.wait()


def is_lost(received: list[Event], whole: list[Event]) -> bool:
    """Whether these are the first events of the whole reply, and the failure that says so."""
    return received[-1] == Failed(LOST) and received[:-1] == whole[: len(received) - 1]


async def until(true: Callable[[], object]) -> None:
    """For what no event announces."""
    async with asyncio.timeout(DEADLINE_SECONDS):
        while not true():
            await asyncio.sleep(0.001)


def listen(reply: Reply) -> ReplyReader:
    reader = ReplyReader()
    reply.start(reader)
    return reader


class PatientLink(RedisConnection):
    """For a machine that is busy with other tests. While it is asleep, what is asked of it waits, as in a process that
    is not given any time."""

    def __init__(self, address: RedisUrl | str) -> None:
        super().__init__(address)
        self._awake = asyncio.Event()
        self._awake.set()
        self._dead = False

    def sleep(self) -> None:
        self._awake.clear()

    def wake(self) -> None:
        self._awake.set()

    @property
    def asleep(self) -> bool:
        return not self._awake.is_set()

    def die(self) -> None:
        """Whatever is asked of it fails."""
        self._dead = True
        self.wake()

    async def call(self, op: Callable[[Client], Awaitable[T]], *, timeout: float | None = None) -> T:  # noqa: ASYNC109
        await self._awake.wait()
        if self._dead:
            raise RedisUnavailable("this process was killed")
        return await super().call(op, timeout=(timeout or 0.0) + DEADLINE_SECONDS)


class SharingGateway:
    """A gateway, reduced to its coordinator and its calls."""

    def __init__(self, link: RedisConnection, coordinator: Coordinator, limits: LogLimits = LOG_LIMITS) -> None:
        self.link = link
        self.coordinator = coordinator
        self._limits = limits
        self.calls: list[InFlightCall] = []
        self._ticker = Ticker(0.05)

    async def claim_or_follow(self, key: str, lead: OpenUpstream) -> tuple[LogReader, bool, str]:
        """(a reader of the call, whether this gateway makes it, its id), once the reply has begun."""
        return await self._opened(self.add_call(key, lead))

    def add_call(self, key: str, lead: OpenUpstream) -> InFlightCall:
        return self._add(lambda call: self.coordinator.open_call(call, key, lead))

    async def claim_private(self, lead: OpenUpstream) -> tuple[LogReader, bool, str]:
        call = self._add(lambda call: self.coordinator.open_call(call, None, lead))
        call.keep_for_resume()
        return await self._opened(call)

    async def follow(self, call_id: str) -> LogReader | None:
        if not await self.coordinator.is_known(call_id):
            return None
        return await self._add(lambda call: self.coordinator.follow(call, call_id)).open()

    def _add(self, start: Callable[[InFlightCall], Awaitable[Reply]]) -> InFlightCall:
        call = InFlightCall(start, self._ticker.discard, limits=self._limits)
        self.calls.append(call)
        self._ticker.add(call)
        return call

    async def _opened(self, call: InFlightCall) -> tuple[LogReader, bool, str]:
        return await call.open(), not call.followed, call.id

    @property
    def writer(self) -> BatchWriter:
        return self.coordinator.writer

    @property
    def tailer(self) -> StreamTailer:
        return self.coordinator.tailer


@asynccontextmanager
async def gateway(
    url: str,
    lease_seconds: float = LEASE_SECONDS,
    link_of: type[RedisConnection] = PatientLink,
    limits: LogLimits = LOG_LIMITS,
) -> AsyncIterator[SharingGateway]:
    link = link_of(url)
    sharing = SharingGateway(link, Coordinator(link, lease_seconds=lease_seconds), limits)
    try:
        yield sharing
    finally:
        for call in sharing.calls:
            if call.unused:
                call.abort()
        if isinstance(link, PatientLink) and link.asleep:
            link.die()
        await sharing.coordinator.aclose()
        await link.aclose()


def sleep(gateway: SharingGateway) -> None:
    """As a process that is stopped, or was killed: it says nothing any more."""
    assert isinstance(gateway.link, PatientLink)
    gateway.link.sleep()


def wake(gateway: SharingGateway) -> None:
    """It goes on where it was stopped, and does not know that it was."""
    assert isinstance(gateway.link, PatientLink)
    gateway.link.wake()
