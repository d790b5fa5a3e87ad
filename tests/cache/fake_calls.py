"""The two sides of a call in progress: a model server whose reply a test sends, and callers that read it."""

import asyncio
from collections.abc import Callable, Sequence

from app.calls.call import InFlightCall
from app.calls.log import LOG_LIMITS, LogLimits
from app.chat.events import Event, Failed, Finish, TextDelta
from app.chat.stream import Receiver, Reply

DONE = Finish("stop", {"total_tokens": 3})


def say(*texts: str) -> list[list[Event]]:
    """A batch for each text."""
    return [[TextDelta(text)] for text in texts]


class Source:
    """Strict: it is started once, closed once, paused and resumed in turn, and never after its close."""

    fallback_model: str | None = None

    def __init__(self) -> None:
        self._receiver: Receiver | None = None
        self.paused = self.over = False
        self.closes = self.ticks = 0

    def start(self, receiver: Receiver) -> None:
        assert self._receiver is None and not self.closes
        self._receiver = receiver

    def push(self, *batches: list[Event]) -> None:
        assert self._receiver is not None and not self.over and not self.closes
        last = batches[-1][-1] if batches[-1] else None
        self.over = isinstance(last, Finish | Failed)
        if len(batches) == 1:
            self._receiver.on_events(batches[0])
        else:
            self._receiver.on_batches(batches)

    def crash(self, error: Exception) -> None:
        assert self._receiver is not None and not self.over
        self.over = True
        self._receiver.on_crash(error)

    def pause(self) -> None:
        assert not self.paused and not self.closes
        self.paused = True

    def resume(self) -> None:
        assert self.paused and not self.closes
        self.paused = False

    def tick(self, now: float) -> None:
        assert not self.over and not self.closes
        self.ticks += 1

    def close(self) -> None:
        self.closes += 1


class FakeCaller:
    """A caller: it receives nothing while it pauses, after the end, or when it has left."""

    def __init__(self, then: Callable[[], None] = lambda: None) -> None:
        self.batches: list[list[Event]] = []
        self.groups: list[int] = []
        self.crash: Exception | None = None
        self.reply: Reply | None = None
        self.paused = self.gone = False
        self._then = then

    @property
    def over(self) -> bool:
        last = self.batches[-1][-1:] if self.batches else []
        return self.crash is not None or isinstance(last[0] if last else None, Finish | Failed)

    def listen(self, reply: Reply) -> None:
        self.reply = reply
        reply.start(self)

    def on_events(self, events: list[Event]) -> None:
        self.on_batches([events])

    def on_batches(self, batches: Sequence[list[Event]]) -> None:
        assert batches and not self.over and not self.paused and not self.gone
        self.groups.append(len(batches))
        self.batches += batches
        self._then()

    def on_crash(self, error: Exception) -> None:
        assert not self.over and not self.gone
        self.crash = error

    def pause(self) -> None:
        assert self.reply is not None
        self.paused = True
        self.reply.pause()

    def resume(self) -> None:
        assert self.reply is not None
        self.paused = False
        self.reply.resume()

    def leave(self) -> None:
        assert self.reply is not None
        self.gone = True
        self.reply.close()


class CallUnderTest:
    """A call in progress, its source, and each notice that it ended."""

    def __init__(self, limits: LogLimits = LOG_LIMITS) -> None:
        self.source = Source()
        self.overs: list[bool] = []
        """Whether all of it was there, each time."""
        self.in_flight = InFlightCall(
            self._start, lambda in_flight: self.overs.append(in_flight.complete), limits=limits
        )

    async def _start(self, call: InFlightCall) -> Reply:
        return self.source

    async def opened(self) -> "CallUnderTest":
        await asyncio.sleep(0)
        return self

    def caller(self, then: Callable[[], None] = lambda: None) -> FakeCaller:
        caller = FakeCaller(then)
        caller.listen(self.in_flight.add_reader())
        return caller

    @property
    def whole(self) -> list[list[Event]]:
        return [batch.events for batch in self.in_flight.log.batches]
