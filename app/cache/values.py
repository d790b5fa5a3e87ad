"""What a cache is made from, what it is asked, and what it finds."""

import time
from collections.abc import Callable
from typing import TypeAlias

from msgspec import Struct

from app.cache.policy import CachePolicy
from app.calls.call import InFlightCall, OpenUpstream
from app.calls.log import LOG_LIMITS, LogLimits, Pace
from app.calls.stored_log import StoredLog
from app.chat.stream import BYPASS, Label, Origin, Reply


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
    unread_seconds: float
    """How long the call goes on after its last client has disconnected: 0, or up to infinity, which is its end."""


class Hit(Struct, frozen=True):
    """A stored reply."""

    source: StoredLog
    origin: Origin

    async def open(self) -> Reply:
        return self.source.add_reader(self.source.pace)


class Join(Struct, frozen=True):
    """The call in progress of an identical request."""

    source: InFlightCall
    origin: Origin = Origin("shared")

    async def open(self) -> Reply:
        """Raises ParleyError, as the request does that made the call."""
        return await self.source.open()


class New(Struct, frozen=True):
    """A call that was started for the request. If another process makes the same call, it follows that one."""

    source: InFlightCall
    label: Label

    @property
    def origin(self) -> Origin:
        """Complete once the reply is open."""
        return Origin("shared" if self.source.followed else self.label)

    async def open(self) -> Reply:
        """Raises ParleyError."""
        return await self.source.open()


class Unheld(Struct, frozen=True):
    """A reply that may not be held: only this request reads it."""

    open: OpenUpstream
    source: None = None
    origin: Origin = BYPASS


Found: TypeAlias = Hit | Join | New | Unheld
"""What answers a request. Register `source` for resume if wanted, then open it at once."""
