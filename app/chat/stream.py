"""A reply as what reads it sees it: wherever its events come from, they are pushed at one receiver until the last."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol, TypeAlias

from app.chat.events import Event


class Receiver(Protocol):
    def on_events(self, events: list[Event]) -> None:
        """What one read brought; empty when the server only showed that it lives."""

    def on_batches(self, batches: Sequence[list[Event]]) -> None:
        """What several reads brought, told as if each had come alone."""

    def on_crash(self, error: Exception) -> None:
        """A defect of ours while the reply was read. Nothing follows."""


class Reply(Protocol):
    """`start` it once; `close` it whatever happens. The last event is a `Finish` or a `Failed`."""

    def start(self, receiver: Receiver) -> None: ...

    def pause(self) -> None:
        """The receiver cannot take more for now; what comes all the same, it must take."""

    def resume(self) -> None: ...

    def tick(self, now: float) -> None:
        """`now` is the loop's time."""

    def close(self) -> None:
        """Stop; a reply that has not ended takes what feeds it with it. May be called twice."""


Label: TypeAlias = Literal["miss", "hit", "shared", "refresh", "bypass"]


@dataclass(frozen=True, slots=True)
class Attempt:
    """One request to a model server, as the log shows it."""

    upstream: str
    address: str
    milliseconds: float
    cause: str | None = None
    """None: the server began to answer."""
    reason: str | None = None
    """The cause in words."""


@dataclass(slots=True)
class Origin:
    """Where a reply comes from. It is settled before the reply's first event."""

    label: Label = "bypass"
    age_seconds: int | None = None
    """How old a cached reply is; None: it is not from the cache."""
    attempts: list[Attempt] = field(default_factory=list)
    """What was asked of model servers for this reply, in order."""
    on_late_failure: Callable[[Attempt], None] | None = None
    """Set when the request has ended and its log line is made: a call may go on without its caller."""

    def add_attempt(self, attempt: Attempt) -> None:
        self.attempts.append(attempt)
        if attempt.cause is not None:
            self.add_failure(attempt)

    def add_failure(self, attempt: Attempt) -> None:
        """A request to a model server failed, or its reply broke."""
        if self.on_late_failure is not None:
            self.on_late_failure(attempt)

    @property
    def cached(self) -> bool:
        return self.age_seconds is not None
