"""The interface of a reply, from whatever source: it pushes its events to one receiver."""

from collections.abc import Callable, Sequence
from typing import Literal, Protocol, TypeAlias

from msgspec import Struct

from app.chat.events import Event
from app.chat.token_usage import CallUsage, add_usage

Label: TypeAlias = Literal["miss", "hit", "shared", "refresh", "bypass"]


class Attempt(Struct, frozen=True):
    """One request to a model server."""

    upstream: str
    address: str
    milliseconds: float
    """Until the server began to answer, or failed."""
    cause: str | None = None
    """None if the server began to answer."""
    reason: str | None = None
    """The cause as a sentence."""
    outcome: str = "ok"
    """`ok` if the server began to answer, else the code of the fault, or `cancelled`."""
    model: str | None = None
    """The model of the gateway that was tried, if it is not the one that was requested."""
    status: int | None = None
    """The server's HTTP status, if that was an error."""
    started_at: float = 0.0
    """Unix seconds."""


class Origin(Struct, frozen=True):
    """Where a reply comes from."""

    label: Label = "bypass"
    age_seconds: int | None = None
    """The age of a cached reply; None if the reply is not from the cache."""
    fallback_model: str | None = None
    """The model that answers in place of the one that was requested; None if that one does."""

    @property
    def cached(self) -> bool:
        return self.age_seconds is not None


BYPASS = Origin("bypass")


class Receiver(Protocol):
    def on_events(self, events: list[Event]) -> None:
        """Handle the events of one read. The list is empty if the server sent only a keep-alive."""

    def on_batches(self, batches: Sequence[list[Event]]) -> None:
        """Handle the events of several reads, with the same result as one `on_events` call for each. The end of the
        reply is in the last of them, if it is among them."""

    def on_crash(self, error: Exception) -> None:
        """Handle a defect of the gateway. No call follows."""


class Reply(Protocol):
    """Call `start` once, and `close` in every case. The last event is a `Finish` or a `Failed`."""

    @property
    def fallback_model(self) -> str | None:
        """The model that answers in place of the one that was requested; None if that one does."""

    def start(self, receiver: Receiver) -> None: ...

    def pause(self) -> None:
        """Ask for no more events for now. The receiver must still accept events that are already on their way."""

    def resume(self) -> None: ...

    def tick(self, now: float) -> None:
        """Check timeouts; `now` is the event loop's time in seconds."""

    def close(self) -> None:
        """Stop the reply, and release its source if it has not ended. A second call does nothing."""


class UpstreamTrace(Protocol):
    """The trace that the requests for one reply belong to."""

    def begin_attempt(self, upstream: str) -> Sequence[tuple[bytes, bytes]]:
        """Return the headers of a new request to the upstream of this name."""


class ExchangeRecorder(Protocol):
    """Records what a model server answers to one request."""

    def record_head(self, status: int, headers: Sequence[tuple[bytes, bytes]]) -> None: ...

    def record_data(self, data: bytes) -> None: ...

    def record_end(self, error: Exception | None) -> None:
        """The body has ended; with an error if it broke, or none came."""


class CallRecorder(Protocol):
    """Records the requests to model servers for one reply."""

    def begin_exchange(self, upstream: str, path: str, body: object) -> ExchangeRecorder:
        """Record a request that is sent to the upstream of this name. `body` is `bytes`, or read while it is sent."""


class AttemptLog(Struct, eq=False):
    """The requests to model servers for one reply, in the order of their outcomes."""

    trace: UpstreamTrace | None = None
    caller: str = ""
    """The identity of the caller; all who have none share what is remembered of the requests."""
    attempts: list[Attempt] = []
    recorder: CallRecorder | None = None
    """None if the bodies of the requests are not recorded."""
    shown: bool = False
    """Whether the caller gets a list of the attempts: there was a choice, or one has failed."""
    sent_at: float | None = None
    """When the first request was sent, by `time.perf_counter`."""
    on_late_failure: Callable[[Attempt], None] | None = None
    """Set after the request's log line is written: a call may continue after its caller has left."""
    usage: CallUsage | None = None
    """What the requests that have ended used together."""
    on_late_usage: Callable[[CallUsage], None] | None = None
    """Set when the request has ended: gets the usage of a call that continues."""

    def add_attempt(self, attempt: Attempt) -> None:
        self.attempts.append(attempt)
        if attempt.cause is not None:
            self.shown = True
            self._report_failure(attempt)

    def replace_attempt(self, attempt: Attempt, failed: Attempt) -> None:
        """Record that a reply broke that had begun."""
        self.attempts[self.attempts.index(attempt)] = failed
        self.shown = True
        self._report_failure(failed)

    def report_usage(self, usage: CallUsage) -> None:
        """Record what one request to a model server used. An earlier one of the same reply may have failed."""
        self.usage = usage if self.usage is None else add_usage(self.usage, usage)
        if self.on_late_usage is not None:
            self.on_late_usage(usage)

    def _report_failure(self, attempt: Attempt) -> None:
        if self.on_late_failure is not None:
            self.on_late_failure(attempt)
