"""What this process knows of one upstream: its load, its circuit breaker, its cooldown and its last fault.

The circuit breaker is closed while requests succeed. After FAILURES_TO_OPEN failures in a row it is open: the upstream
gets requests only if no other one is available. After some time it is half-open: one request is the trial. A first
token closes it; a failure opens it again, for twice the time. The failures are forgotten only when a reply has ended
well, so that a server whose streams always break stays out.

A cooldown is what a server demands by 429 or by `Retry-After`. It says nothing about the server's health.

All times are the event loop's, in seconds.
"""

from collections import deque
from typing import Literal, TypeAlias

from msgspec import Struct

from app.chat.events import Fault

MAX_SAMPLES = 128


class LatencyWindow:
    """The last MAX_SAMPLES times, in seconds."""

    __slots__ = ("_samples",)

    def __init__(self) -> None:
        self._samples: deque[float] = deque(maxlen=MAX_SAMPLES)

    def __len__(self) -> int:
        return len(self._samples)

    def add(self, seconds: float) -> None:
        self._samples.append(seconds)

    def quantile(self, share: float) -> float | None:
        """Return the smallest time that at least this share of all is not above; None without any."""
        if not self._samples:
            return None
        ordered = sorted(self._samples)
        return ordered[min(int(share * len(ordered)), len(ordered) - 1)]


BreakerState: TypeAlias = Literal["closed", "open", "half_open"]

FAILURES_TO_OPEN = 5
OPEN_SECONDS = 5.0
MAX_OPEN_SECONDS = 60.0
COOLDOWN_SECONDS = 1.0
"""The cooldown after a 429 or 503 without `Retry-After`."""
MAX_COOLDOWN_SECONDS = 60.0
JITTER = 0.25
"""Up to this share is added to each time, at random, so that processes do not come back together."""

_COUNTED = {"server_error", "timeout", "upstream_incomplete", "upstream_protocol", "overloaded"}
_OWN_CAUSES = {"no_descriptors", "connections_in_use", "reply_too_large"}
"""Limits of the gateway itself."""


class LastFault(Struct, frozen=True):
    at: float
    code: str
    cause: str | None
    status: int | None


def is_failure(fault: Fault) -> bool:
    """Whether the server or its network failed: by a connection error, a 5xx, a timeout or a broken reply.

    A 4xx is the fault of the request, and must not keep other callers from the server.
    """
    if fault.code not in _COUNTED or fault.cause in _OWN_CAUSES:
        return False
    return fault.status is None or fault.status == 200 or fault.status >= 500


class UpstreamState:
    __slots__ = (
        "__weakref__",
        "_opened_at",
        "_openings",
        "_trial",
        "address",
        "cooldown_until",
        "failures",
        "first_token",
        "healthy",
        "last_fault",
        "moved_away",
        "name",
        "open_until",
        "outstanding",
    )

    def __init__(self, name: str, address: str) -> None:
        self.name = name
        self.address = address
        self.outstanding = 0
        """The requests that have not ended."""
        self.moved_away = 0
        """The requests of its sessions that another upstream took."""
        self.failures = 0
        """The failures since the last reply that ended well."""
        self.open_until: float | None = None
        """When the breaker lets a trial pass; None while it is closed."""
        self.cooldown_until = 0.0
        self.healthy = True
        """Whether the last health check succeeded, if there are any."""
        self.last_fault: LastFault | None = None
        self.first_token = LatencyWindow()
        self._opened_at = 0.0
        self._openings = 0
        """How often the breaker has opened since a reply ended well."""
        self._trial = False

    def breaker(self, now: float) -> BreakerState:
        if self.open_until is None:
            return "closed"
        return "open" if now < self.open_until else "half_open"

    def is_available(self, now: float) -> bool:
        if self.open_until is None:
            return now >= self.cooldown_until and self.healthy
        return not self._trial and now >= self.open_until and now >= self.cooldown_until and self.healthy

    def seconds_until_available(self, now: float) -> float:
        """Return how long the breaker and the cooldown last. It may be 0 while a trial or a failed health check still
        keeps the upstream from being available."""
        return max(0.0, (self.open_until or 0.0) - now, self.cooldown_until - now)

    def badness(self, now: float) -> tuple[bool, float, int]:
        """Return a key by which the least bad of several unavailable upstreams is the first."""
        return not self.healthy, self.seconds_until_available(now), self.outstanding

    # One request: `begin`, then the methods for what happens, and `end` in every case.

    def begin(self, now: float) -> bool:
        """Count a request. Returns whether it is the trial of a half-open breaker."""
        self.outstanding += 1
        if self.open_until is None or self._trial or now < self.open_until:
            return False
        self._trial = True
        return True

    def on_first_token(self, seconds: float, started_at: float) -> None:
        """The reply has begun, `seconds` after the request was sent."""
        self.first_token.add(seconds)
        if started_at >= self._opened_at:
            self.open_until = None

    def on_finished(self, started_at: float) -> None:
        """The reply to a request of that time ended well. One from before the breaker opened proves nothing."""
        if started_at >= self._opened_at:
            self.open_until = None
            self.failures = self._openings = 0

    def on_fault(self, fault: Fault, now: float, roll: float, *, failed: bool) -> None:
        """Record a fault. `failed` says whether it counts as a failure; `roll` is a random number below 1."""
        self.last_fault = LastFault(now, fault.code, fault.cause, fault.status)
        demanded = fault.retry_after_seconds
        if fault.code == "rate_limit" or fault.status in (503, 529) or (demanded is not None and fault.transient):
            self._cool_down(COOLDOWN_SECONDS if demanded is None else demanded, now, roll)
        if failed:
            self._count_failure(now, roll)

    def end(self, trial: bool) -> None:
        self.outstanding -= 1
        if trial:
            self._trial = False

    def _cool_down(self, seconds: float, now: float, roll: float) -> None:
        until = now + min(seconds, MAX_COOLDOWN_SECONDS) * (1 + JITTER * roll)
        self.cooldown_until = max(self.cooldown_until, until)

    def _count_failure(self, now: float, roll: float) -> None:
        self.failures += 1
        if self.failures < FAILURES_TO_OPEN and self.open_until is None:
            return
        if self.open_until is not None and now < self.open_until:
            return  # a request from before the breaker opened
        seconds = min(OPEN_SECONDS * 2.0**self._openings, MAX_OPEN_SECONDS)
        self.open_until = now + seconds * (1 + JITTER * roll)
        self._opened_at = now
        self._openings = min(self._openings + 1, 16)

    # Health checks.

    def on_health_check(self, healthy: bool, now: float) -> None:
        """A failed check makes the upstream unavailable. When a check succeeds again, the next request is the trial."""
        if healthy and not self.healthy and self.open_until is not None:
            self.open_until = min(self.open_until, now)
        self.healthy = healthy
