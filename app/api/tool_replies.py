"""Replies whose tools the gateway runs: how each call to the model is opened and limited, and what is reported.

`app.tool_loop` has the loop itself. The reply is one call with any number of readers, like any other; the calls to the
model within it are answered by the cache, but the reply is never an answer to another request.
"""

import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace
from typing_extensions import override

from app.api.checked_replies import CheckedCalls
from app.api.context import AppContext
from app.api.guarded_tools import GuardedSession
from app.api.hosted_tools import add_hosted, list_prices
from app.api.open_replies import PendingReply
from app.api.reply_opening import ReplyOpener
from app.api.reply_response import ReplyResponse
from app.api.request_in_progress import RequestInProgress
from app.chat.context_edits import Compact
from app.chat.hosted_tools import HostedKind
from app.chat.messages import ChatRequest, Text
from app.chat.server_tools import ServerToolsSummary, ToolAnswer, ToolCallSummary, ToolServers, ToolSession
from app.chat.stream import AttemptLog, Reply
from app.chat.token_usage import CallUsage, TokenUsage
from app.errors import InvalidInput, Violation
from app.formats.base import ReplyInfo
from app.formats.body import ParsedRequest
from app.gateway import ReplyOptions, refuse_servers
from app.observe.logs import log_tool_call
from app.observe.metrics import Metrics
from app.observe.request_record import RequestRecord
from app.observe.trace_context import PassedTrace, RequestTrace, ToolSpan, new_span_id
from app.routing import ModelRoute
from app.steps.output_check import find_output_schema
from app.steps.prompted_tools import uses_prompted_tools
from app.tool_loop.loop import OpenedTurn, OpenTurn, ToolLoop

if TYPE_CHECKING:
    from app.api.compacted_replies import BegunReply


class ToolReport:
    """The `LoopObserver` of a request: log, metrics and spans."""

    def __init__(
        self,
        record: RequestRecord,
        metrics: Metrics | None,
        *,
        captures_content: bool,
        on_cached: Callable[[], None],
        searches: "SearchCosts",
    ) -> None:
        """`on_cached` is called at the end if all calls to the model were answered from the cache."""
        self._request_id = record.request_id
        self._record = record
        self._searches = searches
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
        if answer.hosted is not None and summary.outcome != "not_run":
            kind = answer.hosted.kind
            self._searches.add(kind)
            self._record.count_searches(int(kind == "web_search"), int(kind == "web_fetch"))
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
        self._searches.settle()
        if summary.cached and not summary.searches:
            self._on_cached()
        if self._metrics is not None:
            self._metrics.observe_rounds(len(summary.model_calls))


class SearchCosts:
    """What the searches and fetches of a reply cost. It is counted with the call to the model before them, whose limits
    are settled when they have ended."""

    def __init__(self, prices: Mapping[HostedKind, float], attempts: AttemptLog) -> None:
        """`prices` are those of one call."""
        self._prices = prices
        self._attempts = attempts
        self._cost = 0.0
        self._settle_turn: Callable[[], None] | None = None

    def add(self, kind: HostedKind) -> None:
        self._cost += self._prices.get(kind, 0.0)

    def hold(self, turn: OpenedTurn) -> OpenedTurn:
        """Return a call to the model whose limits are settled by `settle`, if there are prices."""
        return replace(turn, on_end=partial(setattr, self, "_settle_turn", turn.on_end)) if self._prices else turn

    def settle(self) -> None:
        cost, self._cost = self._cost, 0.0
        if cost:
            known = self._attempts.usage
            model = None if known is None else known.fallback_model
            self._attempts.report_usage(CallUsage(TokenUsage(), cost, fallback_model=model))
        settle_turn, self._settle_turn = self._settle_turn, None
        if settle_turn is not None:
            settle_turn()


def _join_text(answer: ToolAnswer) -> str:
    return "\n".join(part.text if isinstance(part, Text) else f"[{part.media}]" for part in answer.content)


def prepare_with_tools(
    opener: ReplyOpener,
    context: AppContext,
    request: RequestInProgress,
    parsed: ParsedRequest,
    route: ModelRoute,
    info: ReplyInfo,
    options: ReplyOptions,
    compact: Compact | None,
) -> tuple[ReplyResponse, PendingReply] | None:
    """Do what `ChatEndpoint.prepare` does for a reply with tools of the gateway; None if none are offered. Raises
    InvalidInput for servers that are asked for where none is configured."""
    asked, servers = parsed.request.server_tools, context.tools
    asks = () if asked is None else asked.asks
    if servers is None:
        refuse_servers(asks)
    hosted = asked is not None and asked.hosted is not None
    if servers is None or not (asks or hosted or servers.is_offered(route.model)):
        if asked is not None and asked.approvals:
            text = "answers a call of a tool, but this request offers no tools of the gateway"
            raise InvalidInput([Violation(approval.path, text) for approval in asked.approvals])
        return None
    response = opener.create_response(request, parsed, info)
    reply = _ToolReply(servers, opener, context, request, route, options, response)
    approvable = parsed.reply_format.tells_approval
    return response, reply.open(partial(reply.start, parsed.request, approvable=approvable, compact=compact))


class _ToolReply(CheckedCalls):
    """A reply between whose calls to the model tools are run."""

    def __init__(self, servers: ToolServers, *what: Any) -> None:
        super().__init__(*what)
        self._servers = servers
        self._searches = SearchCosts({}, self._request.attempts)

    @override
    async def open_turn(self, conversation: ChatRequest, number: int, fallback: ModelRoute | None = None) -> OpenedTurn:
        self._searches.settle()
        return self._searches.hold(await super().open_turn(conversation, number, fallback))

    async def start(self, conversation: ChatRequest, *, approvable: bool, compact: Compact | None) -> Reply:
        """Connect the servers, and open the first call to the model; with `compact` that for a summary of the
        conversation. Raises ParleyError."""
        request, asked = self._request, conversation.server_tools
        asks = () if asked is None else asked.asks
        checks = self._route.enforces_output and find_output_schema(conversation) is not None
        session: ToolSession = await self._servers.open(
            asks, request.caller.name, self._route.model, approvable=approvable
        )
        if asked is not None and asked.hosted is not None:
            session = add_hosted(self._servers, session, conversation, self._route.model, request.live.gateway)
            prices = list_prices(self._servers, asked.hosted.asks, self._route.model)
            self._searches = SearchCosts(prices, request.attempts)
        report = ToolReport(
            request.record,
            self._context.metrics,
            captures_content=request.record.content is not None,
            on_cached=self._set_hit,
            searches=self._searches,
        )
        guard = request.guard
        if guard is not None:
            session = GuardedSession(session, guard, request.live.settings.mcp_servers)
        try:
            await self.admit(conversation)  # before any tool runs, also one that was approved
            if session.warnings:
                self._response.add_warnings(session.warnings)
            begun: BegunReply | None = None
            open_turn: OpenTurn = self.open_turn
            if compact is not None:
                begun, open_turn = await self._begin_compacted(conversation, compact), self._open_later
                if begun.conversation is None:
                    session.close()
                    self._searches.settle()
                    return begun.end()
                conversation = begun.conversation
            loop = ToolLoop(
                conversation,
                session,
                self.open_checked if checks else open_turn,
                report,
                accepts=self._accepts_media,
                defaults=self._route.defaults,
                calls_are_text=self._writes_calls_as_text(conversation),
                on_close=self._searches.settle,
            )
        except BaseException:
            session.close()
            raise
        opened = await loop.open()
        return opened if begun is None else begun.go_on(OpenedTurn(opened, cached=False))

    async def _begin_compacted(self, conversation: ChatRequest, compact: Compact) -> "BegunReply":
        from app.api.compacted_replies import begin_compacted  # few clients ask for it

        begun = await begin_compacted(self, self._response, conversation, compact)
        self._calls = 1  # the summary was the first
        return begun

    async def _open_later(self, conversation: ChatRequest, number: int) -> OpenedTurn:
        """Open a call to the model behind that for the summary."""
        return await self.open_turn(conversation, number + 1)

    def _writes_calls_as_text(self, conversation: ChatRequest) -> bool:
        """Whether the model of a server writes its calls as text, and the gateway reads them there."""
        profiles = [deployment.profile for deployment in self._route.deployments]
        return any(
            profile.text_family is not None or uses_prompted_tools(conversation, profile) is not None
            for profile in profiles
        )

    def _accepts_media(self, kind: str) -> bool:
        """Whether every server of the model takes media of this kind, or another model puts them into words."""
        return kind in self._route.described or all(
            kind in deployment.profile.media for deployment in self._route.deployments
        )

    def _set_hit(self) -> None:
        """Mark a reply of which nothing was sent as one from the cache: all of its calls to the model were."""
        response = self._response
        if not response.status:
            response.info = replace(response.info, origin=replace(response.info.origin, label="hit", age_seconds=0))
