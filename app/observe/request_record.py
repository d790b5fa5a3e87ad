"""`RequestRecord`: what is known about one request for a model's reply when it has ended.

The endpoint reports to it what becomes known together, by its methods. The limits are settled by it at once, or at the
end of a call that goes on; the log, the metrics, the traces and the usage ledger read it soon afterwards, each as a
`RequestObserver`.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from msgspec import Struct, field

from app.chat.events import Finish
from app.chat.messages import Message
from app.chat.stream import Attempt, AttemptLog, Origin
from app.chat.token_usage import CallUsage, TokenUsage, UsageOwner, read_token_usage
from app.errors import ParleyError, UpstreamFailed
from app.observe.content import CapturedContent
from app.observe.trace_context import PassedTrace, RequestTrace

if TYPE_CHECKING:
    from app.observe.request_log.capture import RequestCapture

DISCONNECTED_STATUS = 499
"""The status in the log of a request whose client left before the end, as nginx has it."""
DISCONNECTED_CODE = "caller_gone"
ISSUER_SEPARATOR = ":"
"""In the name of a caller with a JWT, between the name of the issuer and the caller's own. No API key has it."""


class ResponseOutcome(Protocol):
    """What a response that has ended says of itself."""

    status: int
    outcome: Finish | None
    error: ParleyError | None
    disconnected: bool
    first_at: float | None
    send_seconds: float | None


class RequestRecord(Struct, eq=False):
    """All times but `ended_at` are those of `time.perf_counter`, in seconds."""

    request_id: str
    endpoint: str
    """`chat`, `completions`, `messages`, …: the name of the endpoint, not its path."""
    caller: str = ""
    """The name of the API key, or `issuer:name` with a JWT; empty without either."""
    team: str = ""
    """The team of the caller; empty without one."""
    user: str = ""
    """The end user that the request names, if its caller may name some; else empty."""
    tags: tuple[str, ...] = ()
    started_at: float = field(default_factory=time.perf_counter)
    model: str = ""
    """The configured name of the model, even if the caller used an alias; empty if the request was refused before its
    model was known, or names one that its caller may not use. Behind a pass-through it is any name that a caller
    chose."""
    requested_model: str = ""
    """The model as the caller named it; empty if the body of the request was refused."""
    route: str = ""
    """How a virtual model chose the model, as `x-parley-route` says it; empty for other models."""
    guards: str = ""
    """What guards have said of the request, as `x-parley-guards` does; empty if it has none."""
    fallback_model: str | None = None
    """The fallback that answered in place of `model`; None if that one did, or no model has."""
    transport: str = ""
    """`websocket`, or empty: over HTTP."""
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
    output: str | None = None
    """What the check of the reply against the request's JSON schema has found."""
    usage: Mapping[str, Any] | None = None
    """As the reply has it. Its values are the model server's, so they may have any type."""
    cost: float | None = None
    """What the reply cost; 0 for a reply from the cache or from another request's call. None if the model has no price
    and the server reported no cost, and if the call goes on without its client."""
    tokens: TokenUsage | None = None
    """The tokens of the reply, as they are billed; None if nothing is known about them."""
    tokens_estimated: bool = False
    """`tokens` is an estimate: the server reported none."""
    searches: int = 0
    """Searches of the web that reached their server."""
    fetches: int = 0
    """The same of pages that were fetched."""
    cache: str = ""
    """The value of `x-parley-cache`; empty if the request was rejected before."""
    attempts: Sequence[Attempt] = ()
    """The requests to model servers, in order; none for a reply from the cache or from another request's call."""
    upstream_failure: Attempt | None = None
    """The failure of a model server that an operator should know of, even if another server answered."""
    first_token_at: float | None = None
    """When the reply's first event came; None if none came."""
    received_at: float | None = None
    """When the whole body of the request had arrived."""
    sent_at: float | None = None
    """When the first request to a model server was sent; None for a reply from the cache or from another request's
    call."""
    send_seconds: float | None = None
    """How long the gateway took from the reply's first event to its first bytes; for a whole reply, from its last."""
    ended_at: float = 0.0
    """Unix seconds. It is set at the end of the request."""
    duration: float = 0.0
    """Seconds from the start to the end of the request. It is set at its end."""
    trace: PassedTrace | RequestTrace | None = None
    """None: the caller has no trace, and this gateway records none."""
    content: CapturedContent | None = None
    """The messages of the request and of the reply; None unless the spans of this request have them."""
    capture: "RequestCapture | None" = None
    """The bodies of the request, for the request log; None if that has no entry of it."""
    disconnected: bool = False
    """The client left before the end."""
    reservation: object | None = None
    """What the request has taken from its limits; only they read it. None, too, if that is given back at the end of a
    call that goes on."""

    @property
    def owner(self) -> UsageOwner:
        return UsageOwner(self.caller, self.team, self.user, self.tags)

    @property
    def answering_model(self) -> str:
        """The model that tokens and cost are counted for."""
        return self.fallback_model or self.model

    @property
    def first_token_seconds(self) -> float | None:
        """The time from the start of the request to the reply's first event; None if none came."""
        return None if self.first_token_at is None else self.first_token_at - self.started_at

    @property
    def overhead(self) -> float | None:
        """The gateway's own part of the time to the first byte, in seconds; None if no model server was asked."""
        if self.received_at is None or self.sent_at is None:
            return None
        return self.sent_at - self.received_at + (self.send_seconds or 0.0)

    def record_user(self, user: str) -> None:
        self.user = user

    def replace_metadata(self, name: str, value: str) -> None:
        """Replace a value that may not be known as it was sent."""
        if self.metadata is not None and name in self.metadata:
            self.metadata = {**self.metadata, name: value}

    def record_tags(self, tags: tuple[str, ...]) -> None:
        self.tags = tags

    def record_route(self, label: str) -> None:
        self.route = label

    def record_content(self, messages: Sequence[Message]) -> None:
        """Keep the messages of the request, and later those of the reply, for its spans."""
        self.content = CapturedContent(messages)

    def record_reservation(self, reservation: object) -> None:
        self.reservation = reservation

    def take_reservation(self) -> object | None:
        """Return the reservation, which is no longer settled at the end of the request."""
        reservation, self.reservation = self.reservation, None
        return reservation

    def record_rejection(self, error: ParleyError, status: int, failure: Attempt | None) -> None:
        """Record an error that was found before the reply had begun. `status` is that of the response, and `failure`
        the one of a model server that an operator should know of."""
        self._record_error(error)
        self.status, self.upstream_failure = status, failure

    def record_disconnect(self) -> None:
        self.disconnected = True
        self.status, self.error, self.error_from_upstream = DISCONNECTED_STATUS, DISCONNECTED_CODE, False

    def record_response(
        self, response: ResponseOutcome, origin: Origin, calls: AttemptLog, failure: Attempt | None
    ) -> None:
        """Record how the response ended. An error in a stream that had begun leaves its status at 200. `calls` are the
        requests to model servers that were made for this one."""
        self.cache, self.fallback_model = origin.label, origin.fallback_model
        self.first_token_at, self.send_seconds, self.sent_at = response.first_at, response.send_seconds, calls.sent_at
        self.attempts, self.upstream_failure = calls.attempts, failure
        if response.outcome is not None:
            self.finish_reason, self.usage = response.outcome.reason, response.outcome.usage
            self.output = response.outcome.output
        self._record_usage(calls.usage)
        if response.disconnected:
            self.record_disconnect()
            return
        if response.error is not None:
            self._record_error(response.error)
        self.status = response.status

    def count_searches(self, searches: int, fetches: int) -> None:
        self.searches += searches
        self.fetches += fetches

    def record_end(self) -> None:
        """Record that the request ends now."""
        self.ended_at, self.duration = time.time(), time.perf_counter() - self.started_at

    def _record_error(self, error: ParleyError) -> None:
        self.error, self.error_from_upstream = error.code, isinstance(error, UpstreamFailed)
        if error.code == "output_invalid":
            self.output = "invalid"

    def _record_usage(self, call: CallUsage | None) -> None:
        """Record what the reply used. `call` is the usage of the call that was made for this request; None if there was
        none, or it has not ended."""
        if self.cache in ("hit", "shared"):
            self.tokens, self.cost = read_token_usage(self.usage), 0.0
        elif call is not None:
            self.tokens, self.cost, self.tokens_estimated = call.tokens, call.cost, call.estimated
            self.fallback_model = call.fallback_model


RequestObserver: TypeAlias = Callable[[RequestRecord], None]
"""Called once for each record, soon after the end of the request, in the event loop: it must not block, and must not
keep the record."""
