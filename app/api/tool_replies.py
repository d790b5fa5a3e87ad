"""Replies whose tools the gateway runs: how each call to the model is opened and limited, and what is reported.

`app.tool_loop` has the loop itself. The reply is one call with any number of readers, like any other; the calls to the
model within it are answered by the cache, but the reply is never an answer to another request.
"""

import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from msgspec.structs import replace

from app.api.chat import ChatEndpoint, RequestInProgress, UnpreparedReply
from app.api.context import AppContext
from app.api.open_replies import PendingReply
from app.api.reply_response import ReplyResponse
from app.cache import CacheRequest, InFlightCall, ReplaySource
from app.cache.policy import OFF
from app.chat.messages import ChatRequest, Text
from app.chat.server_tools import ServerToolsSummary, ToolAnswer, ToolCallSummary, ToolServers
from app.chat.stream import AttemptLog, Origin, Reply
from app.chat.token_estimate import DEFAULT_REPLY_TOKENS, estimate_prompt_tokens
from app.chat.token_usage import CallUsage
from app.errors import InvalidInput, Violation
from app.formats.base import ReplyInfo
from app.formats.body import ParsedRequest
from app.gateway import ReplyOptions
from app.limits import Limiter
from app.limits.limiter import Reservation
from app.observe.logs import log_tool_call
from app.observe.metrics import Metrics
from app.observe.request_record import RequestRecord
from app.observe.trace_context import PassedTrace, RequestTrace, ToolSpan, new_span_id
from app.params import find_max_tokens
from app.routing import ModelRoute
from app.steps.dropped_reasoning import NOTHING_WANTED
from app.steps.pipeline import has_media
from app.steps.prompted_tools import uses_prompted_tools
from app.tool_loop.loop import OpenedTurn, ToolLoop


class TurnOpening:
    """One call to the model, while it is opened. It takes what a response takes of the call that it sends."""

    def __init__(self) -> None:
        self.info = self
        self.origin = Origin()
        self.warnings: tuple[str, ...] = ()
        self.source: ReplaySource | None = None
        self.call: InFlightCall | None = None

    def set_origin(self, origin: Origin) -> None:
        self.origin = origin

    def add_warnings(self, warnings: Sequence[str]) -> None:
        self.warnings = (*self.warnings, *warnings)


class TurnLimits:
    """What one call to the model has taken from the limits of its caller."""

    def __init__(self, limiter: Limiter, reservation: Reservation, attempts: AttemptLog) -> None:
        self._limiter = limiter
        self._reservation = reservation
        self._attempts = attempts
        self._before = attempts.usage

    def settle(self, opening: TurnOpening) -> None:
        """Give back what the call did not use. The estimate remains for a call that goes on for others."""
        usage = self._attempts.usage
        if opening.call is not None and not opening.call.ended:
            self._limiter.settle(self._reservation, None, None)
        elif usage is None or usage is self._before:
            self._limiter.settle(self._reservation, 0, None)
        else:
            tokens, cost = _subtract(usage, self._before)
            self._limiter.settle(self._reservation, tokens, cost, usage.fallback_model)


def _subtract(usage: CallUsage, before: CallUsage | None) -> tuple[int, float | None]:
    if before is None:
        return usage.tokens.total, usage.cost
    cost = None if usage.cost is None else usage.cost - (before.cost or 0.0)
    return usage.tokens.total - before.tokens.total, cost


class ToolReport:
    """The `LoopObserver` of a request: log, metrics and spans."""

    def __init__(
        self,
        record: RequestRecord,
        metrics: Metrics | None,
        *,
        captures_content: bool,
        on_cached: Callable[[], None],
    ) -> None:
        """`on_cached` is called at the end if all calls to the model were answered from the cache."""
        self._request_id = record.request_id
        self._trace = record.trace
        self._metrics = metrics
        self._captures_content = captures_content
        self._spans: dict[str, int] = {}
        """The spans of calls that run, by the ids of the calls."""
        self._on_cached = on_cached

    def begin_call(self, call_id: str) -> bytes | None:
        trace = self._trace
        if isinstance(trace, RequestTrace):
            self._spans[call_id] = span_id = new_span_id()
            return trace.write_traceparent(span_id)
        if isinstance(trace, PassedTrace):
            return next((value for name, value in trace.headers if name == b"traceparent"), None)
        return None

    def on_call(self, summary: ToolCallSummary, arguments: str, answer: ToolAnswer, started_ns: int) -> None:
        log_tool_call(self._request_id, summary)
        if self._metrics is not None:
            self._metrics.observe_tool_call(summary)
        trace = self._trace
        if not isinstance(trace, RequestTrace) or not trace.sampled:
            return
        shown = self._captures_content
        trace.tools.append(
            ToolSpan(
                self._spans.pop(summary.id, 0) or new_span_id(),
                *(summary.id, summary.server, summary.tool, summary.outcome, started_ns, time.time_ns()),
                arguments=arguments if shown else None,
                result=_join_text(answer) if shown else None,
            )
        )

    def on_end(self, summary: ServerToolsSummary) -> None:
        if summary.cached:
            self._on_cached()
        if self._metrics is not None:
            self._metrics.observe_rounds(len(summary.model_calls))


def _join_text(answer: ToolAnswer) -> str:
    return "\n".join(part.text if isinstance(part, Text) else f"[{part.media}]" for part in answer.content)


def prepare_with_tools(
    endpoint: ChatEndpoint[Any],
    context: AppContext,
    request: RequestInProgress,
    parsed: ParsedRequest,
    route: ModelRoute,
    info: ReplyInfo,
    options: ReplyOptions,
) -> tuple[ReplyResponse, PendingReply] | None:
    """Do what `ChatEndpoint.prepare` does for a reply with tools of the gateway; None if none are offered. Raises
    InvalidInput for servers that are asked for where none is configured."""
    asked, servers = parsed.request.server_tools, context.tools
    asks = () if asked is None else asked.asks
    if servers is None and asks:
        text = "there is no server of tools {!r}: none is configured at this gateway"
        raise InvalidInput([Violation(ask.path, text.format(ask.server)) for ask in asks])
    if servers is None or not (asks or servers.is_offered(route.model)):
        if asked is not None and asked.approvals:
            text = "answers a call of a tool, but this request offers no tools of the gateway"
            raise InvalidInput([Violation(approval.path, text) for approval in asked.approvals])
        return None
    response = endpoint.create_response(request, parsed, info)
    opener = _ToolReply(endpoint, context, request, servers, route, options, response)
    return response, opener.open(parsed.request, approvable=parsed.reply_format.tells_approval)


class _ToolReply:
    """Opens one reply, and each call to the model in it."""

    def __init__(
        self,
        endpoint: ChatEndpoint[Any],
        context: AppContext,
        request: RequestInProgress,
        servers: ToolServers,
        route: ModelRoute,
        options: ReplyOptions,
        response: ReplyResponse,
    ) -> None:
        self._endpoint = endpoint
        self._context = context
        self._request = request
        self._servers = servers
        self._route = route
        self._options = options
        self._response = response

    async def open(self, conversation: ChatRequest, *, approvable: bool) -> Reply:
        cache, options = self._context.cache, self._options
        policy = replace(OFF, keep=options.cache_policy.keep)
        held = CacheRequest("", self._route.model, policy, 0.0, options.unread_seconds)
        found = await cache.find(held, partial(self._start, conversation, approvable=approvable))
        self._endpoint.set_source(self._response, found, self._response.info.origin, options)
        return await cache.open(found)

    async def _start(self, conversation: ChatRequest, *, approvable: bool) -> Reply:
        """Connect the servers, and open the first call to the model. Raises ParleyError."""
        request, asked = self._request, conversation.server_tools
        asks = () if asked is None else asked.asks
        session = await self._servers.open(asks, request.caller.name, self._route.model, approvable=approvable)
        report = ToolReport(
            request.record,
            self._context.metrics,
            captures_content=request.record.content is not None,
            on_cached=self._set_hit,
        )
        try:
            if session.warnings:
                self._response.add_warnings(session.warnings)
            loop = ToolLoop(
                conversation,
                session,
                self._open_turn,
                report,
                accepts=self._accepts_media,
                defaults=self._route.defaults,
                calls_are_text=self._writes_calls_as_text(conversation),
            )
        except BaseException:
            session.close()
            raise
        return await loop.open()

    async def _open_turn(self, conversation: ChatRequest, number: int) -> OpenedTurn:
        """Open one call to the model, with limits of its own. Raises ParleyError."""
        limits, opening = await self._reserve(conversation, number), TurnOpening()
        lease = self._context.budget.lease() if number else self._request.lease
        try:
            reply = await self._open_call(conversation, self._options.copy_for_turn(number, lease), opening)
        except BaseException:
            if limits is not None:
                limits.settle(opening)
            raise
        finally:
            lease.release()
        if not number:
            self._tell_first(opening)
        free = opening.origin.label in ("hit", "shared")
        on_end = _do_nothing if limits is None else partial(limits.settle, opening)
        return OpenedTurn(reply, opening.origin.cached, free, on_end)

    async def _open_call(self, conversation: ChatRequest, options: ReplyOptions, opening: TurnOpening) -> Reply:
        endpoint, gateway, kept = self._endpoint, self._request.live.gateway, self._context.reasoning
        unprepared = UnpreparedReply(gateway, self._route, conversation, None, options, opening)
        wanted = kept.find_wanted(self._route) if kept is not None else NOTHING_WANTED
        if kept is not None and wanted != NOTHING_WANTED:
            dropped = kept.find_dropped(conversation, wanted)
            if dropped:
                return await endpoint.restore(unprepared, dropped, self._context.caller_id(self._request.scope))
        if self._request.is_large or has_media(conversation):
            return await endpoint.prepare_in_thread(unprepared)
        return await endpoint.open_reply(gateway, gateway.prepare(self._route, conversation), options, opening)

    def _tell_first(self, opening: TurnOpening) -> None:
        """Tell the response what is known of the first call to the model, unless results of approved calls came before.
        Whether the later calls will be from the cache is not known yet."""
        origin = opening.origin
        if self._response.first_at is not None:
            return
        label = origin.label if origin.label in ("bypass", "refresh") else "miss"
        self._response.set_origin(Origin(label, None, origin.fallback_model))
        if opening.warnings:
            self._response.add_warnings(opening.warnings)

    async def _reserve(self, conversation: ChatRequest, number: int) -> TurnLimits | None:
        """Reserve the limits of a call to the model. Those of the first one were reserved with the request. Raises
        RateLimited or QuotaExceeded."""
        limiter, request, route = self._context.limiter, self._request, self._route
        if limiter is None:
            return None
        reservation = request.record.take_reservation()
        if number:
            reservation = await limiter.reserve(
                request.caller,
                route.model,
                lambda: estimate_prompt_tokens(conversation),
                find_max_tokens(route.defaults, conversation.params),
                DEFAULT_REPLY_TOKENS,
            )
        return TurnLimits(limiter, reservation, request.attempts) if isinstance(reservation, Reservation) else None

    def _writes_calls_as_text(self, conversation: ChatRequest) -> bool:
        """Whether the model of a server writes its calls as text, and the gateway reads them there."""
        profiles = [deployment.profile for deployment in self._route.deployments]
        return any(
            profile.text_tools is not None or uses_prompted_tools(conversation, profile) is not None
            for profile in profiles
        )

    def _accepts_media(self, kind: str) -> bool:
        """Whether every server of the model takes media of this kind."""
        return all(kind in deployment.profile.media for deployment in self._route.deployments)

    def _set_hit(self) -> None:
        """Mark a reply of which nothing was sent as one from the cache: all of its calls to the model were."""
        response = self._response
        if not response.status:
            response.info = replace(response.info, origin=replace(response.info.origin, label="hit", age_seconds=0))


def _do_nothing() -> None: ...
