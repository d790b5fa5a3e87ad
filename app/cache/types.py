"""What is asked of the cache, and of those who help it to answer."""

import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from app.cache.inflight import InFlightCall
from app.cache.log import LOG_LIMITS, LogLimits, Pace, ReplyLocation
from app.cache.policy import CachePolicy
from app.chat.stream import Origin, Reply

OpenUpstream: TypeAlias = Callable[[], Awaitable[Reply]]
"""Makes the call to the model. Raises UpstreamFailed."""


class ReplaySource(Protocol):
    """A reply that can be listened to from its first event, more than once."""

    @property
    def size(self) -> int:
        """About the bytes that it takes."""

    @property
    def ended(self) -> bool: ...

    @property
    def location(self) -> ReplyLocation | None:
        """Where other processes find it."""

    @property
    def complete(self) -> bool:
        """Nothing of it is missing."""

    async def open(self) -> Reply:
        """From its first event on. Raises ParleyError where it never began."""

    def release(self) -> None:
        """A caller who might have come back will not."""


class CallCoordinator(Protocol):
    """One call at a time for all the gateways that share it."""

    async def open_call(self, call: InFlightCall, key: str, open_upstream: OpenUpstream) -> Reply:
        """The source of the call. Raises UpstreamFailed."""

    async def open_private_call(self, call: InFlightCall, open_upstream: OpenUpstream) -> Reply:
        """The same for a call that nobody else may join."""

    async def is_known(self, call_id: str) -> bool:
        """The call can be followed."""

    async def follow(self, call: InFlightCall, call_id: str) -> Reply:
        """The source of a call that another process makes, from its first event on."""

    async def put_record(self, reply_id: str, data: bytes, ttl_seconds: float) -> None: ...

    async def get_record(self, reply_id: str) -> bytes | None: ...

    async def is_running(self, flight_id: str) -> bool: ...

    async def publish_cancel(self, reply_id: str) -> bool: ...

    def on_cancel(self, stopped: Callable[[str], None]) -> None: ...

    async def aclose(self) -> None: ...


@dataclass(frozen=True, slots=True)
class CacheRules:
    pace: Pace = "fast"
    store_length: bool = False
    """Replies that were cut at max_tokens are stored too."""
    linger_seconds: float = 1.0
    """How long a reply that is stored can still be had from memory: for whoever looked it up just before it was
    stored."""
    log_limits: LogLimits = LOG_LIMITS
    clock: Callable[[], float] = time.time
    """Tells the Unix time."""


@dataclass(frozen=True, slots=True)
class CacheRequest:
    key: str
    model: str
    """As callers know it: by it entries are purged."""
    policy: CachePolicy
    ttl_seconds: float
    retries: int
    """How often the request is tried again, beyond once, when a call that another request started fails."""
    keep_running: bool
    """The call goes on when this caller leaves."""


@dataclass(frozen=True, slots=True)
class FoundReply:
    """What `Cache.find` found for a request. Register it for resume if wanted, then `Cache.open` it at once."""

    request: CacheRequest
    open_upstream: OpenUpstream
    source: ReplaySource
    origin: Origin
    started: bool = False
    """This request started the call."""
    chances: int = 0
    """How often another call may be tried when this one fails."""


@dataclass(frozen=True, slots=True)
class OpenedReply:
    reply: Reply
    origin: Origin
