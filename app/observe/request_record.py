"""`RequestRecord`: what is known of one request for a model's reply when it has ended.

The endpoint fills it. The log, the metrics, the traces and the usage ledger read it, each as a `RequestObserver`.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, TypeAlias

from msgspec import Struct, field

from app.chat.events import Finish
from app.chat.stream import Attempt
from app.errors import ParleyError, UpstreamFailed

DISCONNECTED_STATUS = 499
"""The status in the log of a request whose client left before the end, as nginx has it."""
DISCONNECTED_CODE = "caller_gone"


class ResponseOutcome(Protocol):
    """What a response that has ended says of itself."""

    status: int
    outcome: Finish | None
    error: ParleyError | None
    disconnected: bool
    first_at: float | None


class RequestRecord(Struct, eq=False):
    """All times are those of `time.perf_counter`, in seconds."""

    request_id: str
    endpoint: str
    """`chat` or `completions`: the name of the endpoint, not its path."""
    caller: str = ""
    """The name of the API key; empty without one."""
    started_at: float = field(default_factory=time.perf_counter)
    model: str = ""
    """The configured name of the model, also if the caller used an alias; empty if the request was rejected before its
    model was known. Behind a pass-through it is any name that a caller chose."""
    stream: bool = False
    metadata: Mapping[str, str] | None = None
    """As the caller sent it: any number of values of any length."""
    status: int = 0
    """The HTTP status; 499 if the client left, 0 if the request was cancelled before its status was known."""
    error: str | None = None
    """The code of the error, `caller_gone` if the client left; None for a whole reply."""
    error_from_upstream: bool = False
    """The error is the model server's: a code like `overloaded` can also be the gateway's own."""
    finish_reason: str | None = None
    usage: Mapping[str, Any] | None = None
    """As the reply has it. Its values are the model server's, so they may have any type."""
    cost: float | None = None
    """None without a price for the model."""
    cache: str = ""
    """The value of `x-parley-cache`; empty if the request was rejected before."""
    attempts: Sequence[Attempt] = ()
    """The requests to model servers, in order; none for a reply from the cache or from another request's call."""
    upstream_failure: Attempt | None = None
    """The failure of a model server that an operator should know of, even if another server answered."""
    first_token_at: float | None = None
    """When the reply's first event came; None if none came."""
    duration: float = 0.0
    """Seconds from the start to the end of the request. It is set at its end."""
    disconnected: bool = False
    """The client left before the end."""
    reservation: object | None = None
    """What the request has taken from its limits; only they read it."""

    def record_request(self, model: str, stream: bool, metadata: Mapping[str, str] | None) -> None:
        self.model, self.stream, self.metadata = model, stream, metadata

    def record_error(self, error: ParleyError) -> None:
        self.status, self.error = error.status, error.code
        self.error_from_upstream = isinstance(error, UpstreamFailed)

    def record_disconnect(self) -> None:
        self.disconnected = True
        self.status, self.error, self.error_from_upstream = DISCONNECTED_STATUS, DISCONNECTED_CODE, False

    def record_response(self, response: ResponseOutcome, cache: str) -> None:
        """Record how the response ended. An error in a stream that had begun leaves its status at 200."""
        self.cache, self.first_token_at = cache, response.first_at
        if response.outcome is not None:
            self.finish_reason, self.usage = response.outcome.reason, response.outcome.usage
        if response.disconnected:
            self.record_disconnect()
            return
        if response.error is not None:
            self.record_error(response.error)
        self.status = response.status


RequestObserver: TypeAlias = Callable[[RequestRecord], None]
"""Called once for each record, at the end of the request, in the event loop: it must not block, and must not keep the
record."""
