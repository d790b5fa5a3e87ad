"""What a cache is made from, what it is asked, and what it found."""

import time
from collections.abc import Callable

from msgspec import Struct

from app.cache.policy import CachePolicy
from app.calls.call import InFlightCall, OpenUpstream
from app.calls.log import LOG_LIMITS, LogLimits, Pace, ReplaySource
from app.chat.stream import Origin, Reply


class CacheRules(Struct, frozen=True):
    pace: Pace = "fast"
    store_length: bool = False
    """Whether replies that ended at max_tokens are stored too."""
    linger_seconds: float = 1.0
    """How long a stored reply stays in memory, too: a request may have searched the store just before."""
    log_limits: LogLimits = LOG_LIMITS
    clock: Callable[[], float] = time.time
    """Returns the Unix time in seconds."""


class CacheRequest(Struct, frozen=True):
    key: str
    model: str
    """The name that callers use. Entries can be purged by model."""
    policy: CachePolicy
    ttl_seconds: float
    retries: int
    """How many more calls are tried, after a first one, when a call that another request started fails."""
    unread_seconds: float
    """How long the call goes on after its last client has disconnected: 0, or up to infinity, which is its end."""


class FoundReply(Struct, frozen=True):
    """What `Cache.find` found for a request. Register it for resume if wanted, then `Cache.open` it at once."""

    request: CacheRequest
    open_upstream: OpenUpstream
    source: ReplaySource | None
    """None: the reply is not held, and only this request can read it."""
    origin: Origin
    call: InFlightCall | None = None
    """The call that was started for this request; None if there is none, or its reply is not held."""
    calls_left: int = 0
    """How many more calls may be tried when this one fails."""


class OpenedReply(Struct, frozen=True):
    reply: Reply
    origin: Origin
