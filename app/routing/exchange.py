"""One request to one upstream, from the moment it is sent to the end of its reply.

It counts the request at its upstream, measures the time to the first token, and reports how the reply ends: to the
state of the upstream and to the log of the attempts.
"""

import asyncio
import random
import time
from collections.abc import Callable

from app.chat.events import Event, Failed, Fault, is_end
from app.chat.stream import Attempt, AttemptLog
from app.errors import UpstreamFailed
from app.routing.upstream_state import LatencyWindow, UpstreamState, is_failure
from app.runtime.ticker import Ticker
from app.upstream import faults
from app.upstream.causes import (
    CONNECT_TIMEOUT,
    EMPTY_REPLY,
    FIRST_BYTE_TIMEOUT,
    FIRST_TOKEN_TIMEOUT,
    IDLE_TIMEOUT,
    describe_fault,
)
from app.upstream.http.client import Target
from app.upstream.reply.answer import has_answer
from app.upstream.reply.stream import UpstreamStream


class ExchangeOptions:
    """What the exchanges of one request have in common."""

    __slots__ = ("attempts", "fallback_model", "first_token", "wait_seconds")

    def __init__(
        self,
        attempts: AttemptLog,
        fallback_model: str | None = None,
        first_token: LatencyWindow | None = None,
        wait_seconds: float | None = None,
    ) -> None:
        self.attempts = attempts
        self.fallback_model = fallback_model
        """The model that answers in place of the one that was requested."""
        self.first_token = first_token
        """Where the times to the first token of the model are kept, if they are needed."""
        self.wait_seconds = wait_seconds
        """The caller's limit of each wait."""


class EmptyReply(UpstreamFailed):
    """The reply ended well, but without an answer. It can still be read: a reply that stays empty is sent."""

    def __init__(self, fault: Fault, reply: UpstreamStream) -> None:
        super().__init__(fault)
        self.reply = reply


class Exchange:
    """The observer of the stream."""

    __slots__ = (
        "_attempt",
        "_fault",
        "_first_token",
        "_is_trial",
        "_loop_time",
        "_needs_answer",
        "_over",
        "_reasoning_suffices",
        "_started_at",
        "_state",
        "_stream",
        "_target",
        "_unix_started_at",
        "_wait_seconds",
        "_waiting",
        "attempts",
        "fallback_model",
    )

    def __init__(
        self, state: UpstreamState, target: Target, options: ExchangeOptions, loop_time: Callable[[], float]
    ) -> None:
        """Call it when the request is sent. `attach`, `on_failed` or `cancel` must follow. `target` has the configured
        limits of the upstream."""
        self._state = state
        self._target = target
        self.attempts = options.attempts
        self.fallback_model = options.fallback_model
        self._first_token = options.first_token
        self._wait_seconds = options.wait_seconds
        self._loop_time = loop_time
        self._started_at = loop_time()
        self._unix_started_at = time.time()
        self._is_trial = state.begin(self._started_at)
        self._attempt: Attempt | None = None
        """The entry in the log, once the server has begun to answer."""
        self._stream: UpstreamStream | None = None
        self._waiting: asyncio.Future[None] | None = None
        self._fault: Fault | None = None
        """How the server failed after it had begun to answer."""
        self._over = False
        self._needs_answer = False
        """A first token is not enough to end the waiting."""
        self._reasoning_suffices = True
        """Reasoning ends the waiting for an answer, because the caller gets it at once."""

    def _count_milliseconds(self) -> float:
        """Return how long ago the request was sent."""
        # `round` writes the number as text and reads it again.
        return int((self._loop_time() - self._started_at) * 10000 + 0.5) / 10

    # Opening.

    def attach(self, stream: UpstreamStream) -> None:
        """Set the stream. Its observer must be this exchange."""
        self._stream = stream

    def record_answer(self) -> UpstreamStream:
        """Record that the server has begun to answer, and return the reply."""
        assert self._stream is not None
        self._attempt = self._make_attempt(self._fault)
        self.attempts.add_attempt(self._attempt)
        return self._stream

    async def wait_for_first_token(self, ticker: Ticker) -> None:
        """Wait until the server has sent a part of the reply. Raises UpstreamFailed if it fails instead."""
        assert self._stream is not None
        self._waiting = asyncio.get_running_loop().create_future()
        self._stream.read_ahead()
        await self._wait(ticker)

    async def wait_for_answer(self, ticker: Ticker, *, reasoning_suffices: bool) -> None:
        """After `wait_for_first_token`, wait until a part of an answer has come. What comes before it is held: white
        space, which callers would get later in any case, and reasoning, unless it suffices. Raises UpstreamFailed if
        the reply fails before that, and EmptyReply if it ends."""
        stream = self._stream
        assert stream is not None
        self._needs_answer, self._reasoning_suffices = True, reasoning_suffices
        if any(map(self._suffices, stream.held)):
            return
        self._waiting = asyncio.get_running_loop().create_future()
        stream.resume()
        await self._wait(ticker)

    async def _wait(self, ticker: Ticker) -> None:
        """Wait for `_resolve`. Raises UpstreamFailed if the reply has ended, and is of no use to its caller."""
        stream = self._stream
        assert self._waiting is not None and stream is not None
        ticker.add(stream)
        try:
            await self._waiting
        finally:
            ticker.discard(stream)
        if stream.crash is not None:
            raise stream.crash
        last = stream.held[-1][-1] if stream.held[-1] else None
        if type(last) is Failed and not any(has_answer(events, reasoning=True) for events in stream.held):
            raise UpstreamFailed(last.fault)
        if (warning := stream.empty_warning) is not None:
            fault = faults.make_fault("upstream_incomplete", warning, status=200, cause=EMPTY_REPLY.word)
            raise EmptyReply(self._target.annotate_fault(fault), stream)

    def _suffices(self, events: list[Event]) -> bool:
        """Whether the waiting ends with these events."""
        assert self._stream is not None
        if not self._needs_answer or self._stream.has_answer or is_end(events):
            return True
        return self._reasoning_suffices and has_answer(events, reasoning=True)

    def log_failure(self, fault: Fault) -> None:
        """Record why the request failed before the reply began, with the advice that was added to the fault."""
        self.attempts.add_attempt(self._make_attempt(fault))

    def time_out(self, fault: Fault, deadline_seconds: float) -> None:
        """End the exchange at the deadline of all attempts: a failure of the server if that had most of the time."""
        if not self._over:
            counts = self._count_milliseconds() > deadline_seconds * 500
            self._state.on_fault(fault, self._loop_time(), random.random(), failed=counts)
            self._end()
        if self._stream is not None:
            self._stream.close()

    def cancel(self) -> None:
        """Close the connection: another request has won, or the caller has left."""
        if self._over:
            return
        self.attempts.add_attempt(self._make_attempt(None, "cancelled"))
        if self._stream is not None:
            self._stream.close()
        self._end()

    def _make_attempt(self, fault: Fault | None, outcome: str = "ok") -> Attempt:
        state = self._state
        if fault is None:
            cause = reason = status = None
        else:
            cause, reason, outcome = fault.cause or fault.code, describe_fault(fault), fault.code
            status = None if fault.status == 200 else fault.status
        return Attempt(
            state.name,
            state.address,
            self._count_milliseconds(),
            cause,
            reason,
            outcome,
            self.fallback_model,
            status,
            self._unix_started_at,
        )

    def _resolve(self) -> None:
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(None)

    # The stream's observer. Before there is a stream, the caller reports what happens.

    def on_first_token(self) -> None:
        seconds = self._loop_time() - self._started_at
        self._state.on_first_token(seconds, self._started_at)
        if self._first_token is not None:
            self._first_token.add(seconds)

    def on_held(self, events: list[Event]) -> None:
        if self._suffices(events):
            assert self._stream is not None
            self._stream.hold()
            self._resolve()

    def on_finished(self) -> None:
        self._resolve()
        if not self._over:
            self._state.on_finished(self._started_at)
            self._end()

    def on_failed(self, fault: Fault) -> None:
        self._resolve()
        if self._over:
            return
        self._record_fault(fault)
        if UpstreamFailed(fault).is_server_fault:
            self._fault = fault
            if self._attempt is not None:
                self.attempts.replace_attempt(self._attempt, self._make_attempt(fault))
        self._end()

    def on_closed(self) -> None:
        self._resolve()
        self._end()

    def _record_fault(self, fault: Fault) -> None:
        failed = is_failure(fault) and not self._is_callers_timeout(fault)
        self._state.on_fault(fault, self._loop_time(), random.random(), failed=failed)

    def _is_callers_timeout(self, fault: Fault) -> bool:
        """Whether the caller allowed less time than the upstream's settings do."""
        if self._wait_seconds is None:
            return False
        target = self._target
        limits = {
            CONNECT_TIMEOUT.word: target.connect_seconds,
            FIRST_BYTE_TIMEOUT.word: target.first_token_seconds,
            FIRST_TOKEN_TIMEOUT.word: target.first_token_seconds,
            IDLE_TIMEOUT.word: target.idle_seconds,
        }
        return self._wait_seconds < limits.get(fault.cause or "", 0.0)

    def _end(self) -> None:
        if not self._over:
            self._over = True
            self._state.end(self._is_trial)
