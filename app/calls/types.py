"""The protocols of replies that are shared: who opens one, who can be read more than once, who joins gateways."""

from collections.abc import Awaitable, Callable
from typing import Protocol, TypeAlias

from app.calls.call import InFlightCall
from app.calls.log import ReplyLocation
from app.calls.stored_reply import PackedReply
from app.chat.stream import Reply

OpenUpstream: TypeAlias = Callable[[], Awaitable[Reply]]
"""Sends the request to the model server and returns the reply. Raises UpstreamFailed."""


class ReplaySource(Protocol):
    """A reply that can be read from its first event, more than once."""

    @property
    def size(self) -> int:
        """The approximate size in bytes."""

    @property
    def ended(self) -> bool: ...

    @property
    def location(self) -> ReplyLocation | None:
        """Where other processes find the reply; None if they cannot."""

    @property
    def complete(self) -> bool:
        """Whether the reply can still be read from its first event."""

    async def open(self) -> Reply:
        """Return a reader from the first event. Raises ParleyError if the reply failed before it began."""

    def keep_for_resume(self) -> None:
        """Let other processes find the reply by its location at once."""

    def pack(self) -> "PackedReply | None":
        """Return the reply in little memory, to be kept; None if it has not ended, or cannot be packed."""

    def release(self, seconds: float) -> None:
        """Undo one `retain` of this time: one client less may resume the reply."""


class CallCoordinator(Protocol):
    """Shares calls between all gateways of one Redis, so that identical requests cause one call."""

    @property
    def is_connected(self) -> bool:
        """Whether Redis answers. While it does not, requests are served without it."""

    async def open_call(self, call: InFlightCall, key: str, open_upstream: OpenUpstream) -> Reply:
        """Return the source of a call: a new call or that of another gateway. If that fails before its reply begins,
        try once more. Raises UpstreamFailed."""

    async def open_private_call(self, call: InFlightCall, open_upstream: OpenUpstream) -> Reply:
        """Like `open_call`, for a call that no other request may join."""

    async def is_known(self, call_id: str) -> bool:
        """Whether the call can be followed. Raises StoreDown."""

    async def follow(self, call: InFlightCall, call_id: str) -> Reply:
        """Return a source that follows the call of another process from its first event."""

    async def put_record(self, reply_id: str, data: bytes, ttl_seconds: float) -> None: ...

    async def get_record(self, reply_id: str) -> bytes | None:
        """Raises StoreDown."""

    async def is_running(self, call_id: str) -> bool:
        """Raises StoreDown."""

    async def publish_cancel(self, reply_id: str) -> bool: ...

    def on_cancel(self, cancel: Callable[[str], None]) -> None: ...

    async def aclose(self) -> None: ...
