"""The endpoint of `POST /v1/chat` and `POST /v1/chat/completions`: parses a request and sends the reply.

It is a plain ASGI callable: FastAPI's work around an endpoint costs more than everything in this file.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, TypeAlias

from msgspec.structs import replace
from typing_extensions import override

from app.api.asgi import (
    LARGE_BYTES,
    Scope,
    call_in_thread,
    has_few_values,
    is_large,
    wait_for_parse_memory,
)
from app.api.cache_policy import read_cache_policy
from app.api.context import AppContext
from app.api.context_edits import edit_if_asked
from app.api.guarding import admit, begin_guarding
from app.api.model_rights import apply_rights, find_route
from app.api.open_replies import PendingReply
from app.api.own_bodies import check_translation, choose_own
from app.api.recorded_endpoint import RecordedEndpoint
from app.api.reply_opening import ReplyOpener, UnpreparedReply, checks_new_schema, reserve_limits
from app.api.reply_response import ReplyResponse
from app.api.request_in_progress import RequestInProgress
from app.cache import Apply
from app.chat.admitted import mark_admitted
from app.chat.context_edits import Compact
from app.chat.messages import ChatRequest
from app.chat.stream import Reply
from app.errors import ParleyError
from app.formats.agent_models import CLAUDE_ID
from app.formats.base import ReplyInfo, WriteError
from app.formats.body import ParseBody, Parsed, ParsedRequest, RejectedRequest, StoredItems, UnresolvedRequest
from app.formats.request_limits import limit_warnings
from app.formats.request_memory import MIN_BYTES, CallerMemory
from app.formats.sessions import find_session, hash_session
from app.gateway import Gateway, ReplyOptions, new_reply_id
from app.limits import Limiter
from app.observe.logs import log_late_failure
from app.routing import ModelRoute
from app.runtime.memory_budget import Lease
from app.steps.dropped_reasoning import NOTHING_WANTED, describe_context
from app.steps.pipeline import has_media

if TYPE_CHECKING:
    from app.api.descriptions import MediaDescriber
    from app.api.route_choice import ChosenRoute


def _with_session(parsed: ParsedRequest, request: RequestInProgress, caller: str) -> ParsedRequest:
    conversation, settings = parsed.request, parsed.settings
    extra = conversation.params.get("extra_body") or {}
    session = find_session(request.scope["state"]["headers"], extra, settings.metadata, settings.session)
    if not session:
        return parsed
    return replace(parsed, request=replace(conversation, session=hash_session(caller, session)))


def _find_passed(gateway: Gateway, request: RequestInProgress, rejected: "RejectedRequest") -> Any:
    """Return a rejected request as a server of the client's own API can be sent it; None if no server of its model
    speaks that."""
    parsed = rejected.passed
    own = None if parsed is None else parsed.request.passed or parsed.request.source
    if parsed is None or own is None:
        return None
    try:
        route = find_route(gateway, parsed.request.model, request.caller)
    except ParleyError:
        return None
    return parsed if any(one.takes_body_of(own.api) for one in route.deployments) else None


FindStored: TypeAlias = Callable[[Scope, Lease, UnresolvedRequest[Any]], Awaitable[StoredItems]]
"""Looks up what a request refers to. Raises ParleyError."""


class ChatEndpoint(RecordedEndpoint, Generic[Parsed]):
    """Answers requests for a reply. Its constructor's parameters are the differences between the paths."""

    def __init__(
        self,
        context: AppContext,
        parse: ParseBody[Parsed],
        name: str,
        write_error: WriteError,
        apply: Apply,
        *,
        new_reply_id: Callable[[], str] = new_reply_id,
        keeps_alias: bool = False,
        get_owner: Callable[[Scope], str] | None = None,
        find_stored: FindStored | None = None,
        answer: "Answer[Parsed] | None" = None,
    ) -> None:
        """`parse` parses the body of a request. `name` is the endpoint's name in the logs. `write_error` writes errors
        that occur before the request's own format is known. `apply` says for which requests the cache is used.

        `keeps_alias`: a reply names the model as the request does, not as it is configured. `get_owner` returns the
        caller who may resume the reply to a request; the default is `AppContext.owner`. `resolve` is for endpoints that
        store something, whose requests refer to it. `answer` is for those that do more with a reply than to send it."""
        super().__init__(context, name, write_error)
        self._keeps_alias = keeps_alias
        self._parse = parse
        self._apply = apply
        self._new_reply_id = new_reply_id
        self._opener = ReplyOpener(context, get_owner or context.owner)
        self._find_stored = find_stored
        self._answer = answer or _answer

    @override
    async def _serve(self, request: RequestInProgress) -> RejectedRequest | None:
        """Send the reply, or return the error that rejects the request. Raises ParleyError before the body is parsed.

        A request is admitted once its body has arrived. The body is freed before the reply begins.
        """
        context, live, scope = self._context, request.live, request.scope
        server = live.settings.server
        with request.lease as lease:
            raw = await request.read_body()
            if request.record.capture is not None:
                request.record.capture.request.record_whole(raw)
            with context.admission.try_enter() or await context.wait_for_place(scope, request.receive):
                memory = context.open_request_memory(scope) if len(raw) >= MIN_BYTES else None
                is_long = len(raw) > LARGE_BYTES
                request.is_large = is_long and is_large(raw, memory)
                if request.is_large or not has_few_values(raw, memory, server.max_json_values):
                    await wait_for_parse_memory(raw, lease, server.max_json_values, memory)
                if is_long and not request.is_large:
                    await asyncio.sleep(0)  # chunks of other replies pass between comparing, reading and preparing
                try:
                    parsed = await self._read(request, raw, memory)
                    del raw
                    if is_long:
                        await asyncio.sleep(0)
                    if isinstance(parsed, RejectedRequest):
                        return parsed
                    answering = await self._accept(request, parsed)
                    if isinstance(answering, RejectedRequest):
                        return answering
                    if memory is not None:
                        memory.remember()
                finally:
                    if memory is not None:
                        memory.refuse()
                del parsed, memory
                await answering
                return None

    async def _read(
        self, request: RequestInProgress, raw: bytes | bytearray, memory: CallerMemory | None
    ) -> Parsed | RejectedRequest:
        """Parse a body, with what it refers to. Raises ParleyError."""
        limits = request.live.request_limits
        parsing = call_in_thread(self._parse, raw, limits, memory) if request.is_large else None
        parsed = self._parse(raw, limits, memory) if parsing is None else await parsing
        if memory is not None and memory.conversation is not None and isinstance(parsed, ParsedRequest):
            parsed = replace(parsed, request=replace(parsed.request, known=memory.conversation))
        if isinstance(parsed, UnresolvedRequest):
            parsed = await self._resolve(request, parsed)
        if isinstance(parsed, RejectedRequest):
            passed: Parsed | None = _find_passed(request.live.gateway, request, parsed)
            return parsed if passed is None else passed
        return parsed

    async def _accept(self, request: RequestInProgress, parsed: Parsed) -> Coroutine[Any, Any, None] | RejectedRequest:
        """Return the coroutine that answers a valid request, or the error that rejects it."""
        gateway, limiter, record, settings = (
            request.live.gateway,
            self._context.live.limiter,
            request.record,
            parsed.settings,
        )
        record.stream, record.metadata = settings.stream, settings.metadata
        try:
            if request.caller.users is not None:
                request.name_user(settings.user, settings.metadata)
                request.caller.check_user()
            if warnings := request.read_tags(settings.metadata):
                parsed = replace(parsed, warnings=limit_warnings([*parsed.warnings, *warnings]))
            model = settings.model or await gateway.resolve_model(None)
            record.requested_model = model
            route = find_route(gateway, model, request.caller)
            record.model = route.model
            if request.caller.name:
                parsed = replace(parsed, request=apply_rights(parsed.request, request.caller))
            chosen = None
            if route.rules is not None:
                chosen = await self._choose_route(request, parsed, model, route)
                route = chosen.route
            if limiter is not None:
                await self._reserve(limiter, request, parsed, route)
            if chosen is not None:
                await chosen.keep(self._context.kept_routes)
            return self._answer(self, request, parsed, route)
        except ParleyError as error:
            return RejectedRequest(error, parsed.reply_format.error)

    async def _choose_route(
        self, request: RequestInProgress, parsed: Parsed, model: str, route: ModelRoute
    ) -> "ChosenRoute":
        """Choose the model that answers for a virtual one, and say so. Raises ParleyError."""
        from app.api.route_choice import choose_route, make_route_header  # few gateways have virtual models

        context, gateway, scope = self._context, request.live.gateway, request.scope
        chosen = await choose_route(context, gateway, scope, parsed, route, endpoint=self._name, large=request.is_large)
        request.named_model = model
        request.record.model = chosen.route.model
        request.record.record_route(chosen.label)
        scope["state"]["response_headers"].append(make_route_header(chosen.label))
        return chosen

    async def _resolve(
        self, request: RequestInProgress, unresolved: UnresolvedRequest[Parsed]
    ) -> Parsed | RejectedRequest:
        """Look up what a request refers to, and parse it. Raises ParleyError."""
        assert self._find_stored is not None
        request.name_user(unresolved.user, unresolved.metadata)
        stored = await self._find_stored(request.scope, request.lease, unresolved)
        request.is_large = request.is_large or stored.size > LARGE_BYTES
        if request.is_large:
            return await call_in_thread(unresolved.resolve, stored)
        return unresolved.resolve(stored)

    async def deliver(self, request: RequestInProgress, response: ReplyResponse, opening: PendingReply) -> None:
        """Send the reply to its end, and record it."""
        context, record, attempts = self._context, request.record, request.attempts
        try:
            if record.content is not None:
                response.add_first_stage(record.content)
            await context.replies.run(response, opening, request.receive, request.lease)
        finally:
            attempts.on_late_failure = partial(log_late_failure, record.request_id, self._name, response.info.model)
            attempts.on_late_usage = partial(context.count_late_usage, record.owner, record.model)
            if response.call is not None and not response.call.ended:
                context.settle_at_end(response.call, record, attempts)
        if record.capture is not None:
            record.capture.record_warnings(response.list_warnings())
        if response.answers is not None:
            await self._keep_reasoning(response, request.scope)
        if request.guard is not None:
            record.guards = request.guard.describe()
        failure = self._find_failure(attempts.attempts, response.error)
        record.record_response(response, response.info.origin, attempts, failure)

    def prepare(
        self, request: RequestInProgress, parsed: ParsedRequest, route: ModelRoute, *, keep: bool = False
    ) -> tuple[ReplyResponse, PendingReply]:
        """Return the response, and the coroutine that opens the reply. With `keep` the reply is held for other readers,
        whatever the request says of caches. Raises ParleyError if the request can be refused before anything is sent
        upstream."""
        context, gateway, settings = self._context, request.live.gateway, parsed.settings
        if route.reads_sessions:
            parsed = _with_session(parsed, request, context.caller_id(request.scope))
        passes, reply_id = False, self._new_reply_id()
        parsed, describer = self._serve_lacking(request, parsed, route)
        has_guards = request.live.guards is not None
        guard = request.guard = begin_guarding(context, request, parsed, route, reply_id) if has_guards else None
        if guard is not None:
            if request.record.capture is not None:
                request.record.capture.list_values = guard.list_found_values
            guard.check_readable(parsed.request)
        if parsed.request.source is not None or parsed.request.passed is not None:
            translates = guard is not None and guard.must_translate
            parsed, passes = choose_own(
                parsed, request, route, has_tools=context.tools is not None, translates=translates
            )
        compact = None
        if parsed.options.applied_edits is not None:
            parsed, compact = edit_if_asked(parsed, route)
        # An agent looks for the id that it was shown.
        keeps_name = self._keeps_alias or (settings.model is not None and settings.model.startswith(CLAUDE_ID))
        info = ReplyInfo(
            reply_id,
            request.id,
            request.named_model or (settings.model if keeps_name and settings.model else route.model),
            int(time.time()),
            warnings=parsed.warnings,
            completed_bodies=settings.completed_bodies,
            options=parsed.options,
            include_usage=settings.include_usage,
            guarded=guard,
        )
        options = self._make_options(request, parsed, info, route, keep=keep)
        of_calls = self._prepare_calls(request, parsed, route, info, options, compact)
        if of_calls is not None:
            return of_calls
        if guard is not None or describer is not None:
            response = self._opener.create_response(request, parsed, info)
            return response, self._open_checked(request, parsed.request, route, options, response, describer)
        admitted = mark_admitted(parsed.request)
        deferred = request.is_large and has_media(admitted)
        media_requests = None if deferred else gateway.find_media_requests(route, admitted)
        kept = context.reasoning
        # The messages of a client's own body are not sent, so nothing could be put back into them.
        wanted = route.wanted if kept is not None and not passes else NOTHING_WANTED
        dropped = kept.find_dropped(admitted, wanted) if kept is not None and wanted != NOTHING_WANTED else ()
        waits = media_requests or request.is_large or dropped or checks_new_schema(route, admitted)
        prepared = None if waits else gateway.prepare(route, admitted)
        response = self._opener.create_response(request, parsed, info)
        if wanted != NOTHING_WANTED:
            response.answers = describe_context(admitted.messages)
        if prepared is not None:
            return response, self._opener.open_reply(gateway, prepared, options, response)
        unprepared = UnpreparedReply(gateway, route, admitted, media_requests, options, response)
        if dropped:
            in_thread = bool(media_requests) or request.is_large or checks_new_schema(route, admitted)
            caller = context.caller_id(request.scope)
            return response, self._opener.restore(unprepared, dropped, wanted, caller, in_thread=in_thread)
        return response, self._opener.prepare_in_thread(unprepared)

    def _prepare_calls(
        self,
        request: RequestInProgress,
        parsed: ParsedRequest,
        route: ModelRoute,
        info: ReplyInfo,
        options: ReplyOptions,
        compact: Compact | None,
    ) -> tuple[ReplyResponse, PendingReply] | None:
        """Prepare a reply that may take several calls to the model; None if it takes one."""
        context = self._context
        if parsed.request.server_tools is not None or context.tools is not None:
            from app.api.tool_replies import prepare_with_tools  # most gateways run no tools

            with_tools = prepare_with_tools(self._opener, context, request, parsed, route, info, options, compact)
            if with_tools is not None:
                return with_tools
        if compact is not None:
            from app.api.compacted_replies import prepare_compacted  # few clients ask for it

            return prepare_compacted(self._opener, context, request, parsed, route, info, options, compact)
        if route.enforces_output and parsed.request.params:
            from app.api.checked_replies import prepare_checked  # few models enforce it

            return prepare_checked(self._opener, context, request, parsed, route, info, options)
        return None

    def _serve_lacking(
        self, request: RequestInProgress, parsed: ParsedRequest, route: ModelRoute
    ) -> tuple[ParsedRequest, "MediaDescriber | None"]:
        """Return the request with the searches that the gateway runs, and what describes the media that the model does
        not take; None if there are none. Raises ParleyError."""
        tools = parsed.request.server_tools
        if tools is not None and (tools.hosted is not None or tools.asks):
            from app.api.hosted_tools import serve_hosted  # few requests offer a search

            headers = request.scope["state"]["headers"]
            parsed = serve_hosted(parsed, self._context.tools, request.caller.name, route, headers)
        if not route.described or not has_media(parsed.request):
            return parsed, None
        from app.api.descriptions import MediaDescriber  # few models need it

        describer = MediaDescriber(self._context, request, route)
        return describer.translate(parsed), describer

    async def _open_checked(
        self,
        request: RequestInProgress,
        conversation: ChatRequest,
        route: ModelRoute,
        options: ReplyOptions,
        response: ReplyResponse,
        describer: "MediaDescriber | None",
    ) -> Reply:
        """Describe media, show the request to its guards, and open its reply. Raises ParleyError."""
        guard, source = request.guard, conversation.source
        if describer is not None:
            conversation = await describer.describe(conversation, response)
        admitted = mark_admitted(conversation) if guard is None else await admit(request, guard, conversation)
        if admitted.source is None and source is not None:
            check_translation(replace(conversation, source=source), route)
            response.set_info(replace(response.info, options=replace(response.info.options, passed=False)))
        kept, passes = self._context.reasoning, admitted.source is not None or admitted.passed is not None
        if kept is not None and not passes and route.wanted != NOTHING_WANTED:
            response.answers = describe_context(admitted.messages)
        return await self._opener.open_admitted(request, route, admitted, options, response)

    async def _reserve(
        self, limiter: Limiter, request: RequestInProgress, parsed: ParsedRequest, route: ModelRoute
    ) -> None:
        """Reserve the limits of the request. Raises RateLimited or QuotaExceeded."""
        reservation = await reserve_limits(limiter, request, route, parsed.request)
        if reservation is not None:
            request.record.record_reservation(reservation)
            request.scope["state"]["response_headers"].extend(reservation.headers)

    def _make_options(
        self, request: RequestInProgress, parsed: ParsedRequest, info: ReplyInfo, route: ModelRoute, *, keep: bool
    ) -> ReplyOptions:
        policy = read_cache_policy(parsed.settings.cache, request.scope, route, self._apply)
        return ReplyOptions(
            info.response_id,
            replace(policy, keep=True) if keep else policy,
            self._context.cache_scope(request.scope),
            parsed.settings.unread_seconds,
            request.attempts,
            request.lease,
            partial(self._context.sharer_id, request.scope),
        )

    async def _keep_reasoning(self, response: ReplyResponse, scope: Scope) -> None:
        """Keep the reasoning of a reply that called tools, if the model's server wants it back."""
        kept, source, outcome = self._context.reasoning, response.source, response.outcome
        if kept is None or source is None or outcome is None or outcome.reason != "tool_calls":
            return
        assert response.answers is not None
        await kept.keep(source, response.answers, self._context.caller_id(scope), response.info.model)


Answer: TypeAlias = Callable[[ChatEndpoint[Parsed], RequestInProgress, Parsed, ModelRoute], Coroutine[Any, Any, None]]
"""Returns the coroutine that produces and sends the reply, without the request. Raises ParleyError if the request can
be refused before anything is sent upstream."""


def _answer(
    endpoint: ChatEndpoint[Parsed], request: RequestInProgress, parsed: Parsed, route: ModelRoute
) -> Coroutine[Any, Any, None]:
    response, opening = endpoint.prepare(request, parsed, route)
    return endpoint.deliver(request, response, opening)
