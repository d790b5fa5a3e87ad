"""The endpoint of `POST /v1/chat` and `POST /v1/chat/completions`: parses a request and sends the reply.

It is a plain ASGI callable: FastAPI's work around an endpoint costs more than everything in this file.
"""

import asyncio
import time
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, TypeAlias

from msgspec import Struct
from msgspec.structs import replace
from typing_extensions import override

from app.access import Caller
from app.api.asgi import (
    LARGE_BYTES,
    ClientDisconnected,
    Receive,
    Scope,
    call_in_thread,
    has_few_values,
    is_large,
    read_body,
    send_error,
    take_body,
    wait_for_parse_memory,
)
from app.api.context import AppContext
from app.api.open_replies import PendingReply
from app.api.reply_response import EventStreamResponse, JsonResponse, ReplyResponse
from app.api.response_writer import OfferedWriter, ResponseWriter, Send, SendQueue
from app.api.resumable import ResumableReply
from app.cache import MODES, Apply, CachePolicy, Found, Join, Mode, New, make_cache_policy
from app.chat.messages import ChatRequest
from app.chat.stream import Attempt, AttemptLog, Origin, Reply
from app.chat.token_estimate import DEFAULT_REPLY_TOKENS, estimate_prompt_tokens
from app.endpoints.kinds import CHAT, ModelEndpoint, describe_served
from app.errors import (
    CacheMiss,
    Internal,
    InvalidInput,
    ParleyError,
    UnknownModel,
    UpstreamFailed,
    Violation,
    WrongEndpoint,
)
from app.formats import FORMATS
from app.formats.agent_models import CLAUDE_ID
from app.formats.base import ReplyInfo, WriteError, choose_status
from app.formats.body import ParseBody, Parsed, ParsedRequest, RejectedRequest, StoredItems, UnresolvedRequest
from app.formats.request_memory import CallerMemory
from app.formats.sessions import find_session, hash_session
from app.gateway import Gateway, ReplyOptions, new_reply_id, refuse_foreign, with_own_urls
from app.limits import Limiter, Reservation
from app.observe.logs import log_late_failure
from app.observe.request_record import RequestRecord
from app.observe.trace_context import RequestTrace
from app.params import find_max_tokens
from app.routing import Deployment, ModelRoute, PreparedRequest
from app.routing.reply_bound import find_most_reply_tokens
from app.runtime.memory_budget import Lease
from app.steps.dropped_reasoning import NOTHING_WANTED, DroppedReasoning, Wanted, describe_context
from app.steps.media import MediaRequest
from app.steps.output_check import has_new_schema, prepare_check
from app.steps.pipeline import has_media, passes_reply
from app.upstream.api import find_api
from app.upstream.body_rights import make_body_check
from app.upstream.causes import describe_fault

if TYPE_CHECKING:
    from app.api.model_calls import TurnOpening
    from app.api.route_choice import ChosenRoute

CACHE_HEADER = b"x-parley-cache"
"""Its value is a mode of the cache. It is for clients that can set a header but no field of the body."""
_CACHE_HEADERS = frozenset((b"cache-control", CACHE_HEADER))


class RequestInProgress:
    """One request, from its head to the end of its reply."""

    __slots__ = (
        "attempts",
        "caller",
        "id",
        "in_background",
        "is_large",
        "lease",
        "live",
        "named_model",
        "offered_writer",
        "receive",
        "record",
        "scope",
        "send",
        "writer",
    )

    def __init__(self, context: AppContext, scope: Scope, receive: Receive, send: Send, endpoint: str) -> None:
        """`endpoint` is its name in the logs."""
        state = scope["state"]
        self.scope = scope
        self.receive = receive
        self.send = send
        self.id: str = state["request_id"]
        self.caller: Caller = state["caller"]
        self.live = context.live
        """The configuration with which the request goes on, even after a reload."""
        self.offered_writer: OfferedWriter | None = state["writer"]
        self.writer: ResponseWriter = self.offered_writer or SendQueue(send)
        self.lease = context.budget.lease()
        """The memory of the request."""
        self.is_large = False
        """The body, or what is stored for it, is so large that it is parsed and prepared in another thread."""
        self.named_model = ""
        """The model that a reply names, if that is not the one which answers: the name that the client sent for a
        virtual model."""
        self.in_background = False
        """The reply goes on without the client, and the request is reported at its end."""
        team = self.caller.team
        self.record = RequestRecord(
            self.id, endpoint, self.caller.name, "" if team is None else team.name, trace=context.begin_trace(scope)
        )
        self.attempts = AttemptLog(self.record.trace)


def _with_session(parsed: ParsedRequest, request: RequestInProgress, caller: str) -> ParsedRequest:
    conversation, settings = parsed.request, parsed.settings
    extra = conversation.params.get("extra_body") or {}
    session = find_session(request.scope["state"]["headers"], extra, settings.metadata, settings.session)
    if not session:
        return parsed
    return replace(parsed, request=replace(conversation, session=hash_session(caller, session)))


_PASSED_HEADERS = (b"anthropic-beta", b"anthropic-version")
"""Headers that belong to a client's own body."""


def read_passed_headers(scope: Scope) -> tuple[tuple[bytes, bytes], ...]:
    """Return the headers of a request that belong to the client's own body."""
    given = scope["state"]["headers"]
    return tuple([(name, given[name]) for name in _PASSED_HEADERS if name in given])


def _choose_own(
    parsed: ParsedRequest, request: RequestInProgress, route: ModelRoute, *, has_tools: bool
) -> tuple[ParsedRequest, bool]:
    """Return the request as it is served, with its source only if a server of the model is sent what nothing changed of
    it, and whether each server of the model is.

    Raises ParleyError if none speaks its API, and the gateway cannot read the body.
    """
    conversation = parsed.request
    speaking = [one for one in route.deployments if _takes_own(one, conversation)]
    if not speaking or (has_tools and conversation.server_tools is not None):
        if isinstance(conversation.refusal, ParleyError):
            raise conversation.refusal
        check = make_body_check(conversation, route.model, has_price=route.price is not None)
        if check is not None:
            check.check_choices(find_api(route.deployments[0].target.api))
        refuse_foreign(conversation.source)
        return replace(parsed, request=replace(conversation, source=None, passed=None)), False
    conversation = with_own_urls(replace(conversation, server_tools=None), read_passed_headers(request.scope))
    if conversation.source is not None:
        conversation = replace(conversation, source=replace(conversation.source, warnings=parsed.warnings))
    is_whole = len(speaking) == len(route.deployments)
    passes = [conversation.passed is not None or passes_reply(conversation, one.profile) for one in speaking]
    options = replace(parsed.options, passed=any(passes))
    warnings = () if is_whole else parsed.warnings  # they are about what a translation loses
    return replace(parsed, request=conversation, warnings=warnings, options=options), is_whole


def _takes_own(deployment: Deployment, conversation: ChatRequest) -> bool:
    passed = conversation.passed
    return deployment.takes_source(conversation.source) or (passed is not None and deployment.takes_body_of(passed.api))


def _find_passed(gateway: Gateway, request: RequestInProgress, rejected: "RejectedRequest") -> Any:
    """Return a rejected request as a server of the client's own API can be sent it; None if no server of its model
    speaks that."""
    parsed = rejected.passed
    if parsed is None or parsed.request.passed is None:
        return None
    try:
        route = find_route(gateway, parsed.request.model, request.caller)
    except ParleyError:
        return None
    api = parsed.request.passed.api
    return parsed if any(one.takes_body_of(api) for one in route.deployments) else None


class UnpreparedReply(Struct, frozen=True):
    """A reply whose request must wait for something before it can be prepared."""

    gateway: Gateway
    route: ModelRoute
    request: ChatRequest
    media_requests: list[MediaRequest] | None
    """None: not looked for yet, which takes long for a large request."""
    options: ReplyOptions
    response: "ReplyResponse | TurnOpening"


FindStored: TypeAlias = Callable[[Scope, Lease, UnresolvedRequest[Any]], Awaitable[StoredItems]]
"""Looks up what a request refers to. Raises ParleyError."""


class RecordedEndpoint(ABC):
    """A plain ASGI callable whose requests are recorded: for the log, metrics, traces, limits and usage."""

    def __init__(self, context: AppContext, name: str, write_error: WriteError | None = None) -> None:
        """`name` is the endpoint's name in the logs. `write_error` writes errors that occur before the request's own
        format is known; None: that of the path."""
        self._context = context
        self._name = name
        self._write_error = write_error

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        context = self._context
        request = RequestInProgress(context, scope, receive, send, self._name)
        record = request.record
        scope["state"]["recorded"] = True
        try:
            try:
                rejected = await self._serve(request)
            except ParleyError as error:
                rejected = RejectedRequest(error, None)
            if rejected is not None:
                write_error = rejected.write_error or self._write_error
                if write_error is None:
                    write_error = context.live.rules.find_error_writer(scope)
                status, failure = choose_status(write_error, rejected.error), self._find_failure((), rejected.error)
                record.record_rejection(rejected.error, status, failure)
                await send_error(send, rejected.error, request.id, write_error)
        except ClientDisconnected:
            record.record_disconnect()
        except Exception:
            record.record_rejection(Internal("the gateway failed"), Internal.status, None)
            raise
        finally:
            if not request.in_background:
                context.finish_request(record)

    @abstractmethod
    async def _serve(self, request: RequestInProgress) -> RejectedRequest | None:
        """Send the reply, or return the error that rejects the request. Raises ParleyError."""

    def _find_failure(self, attempts: Sequence[Attempt], error: ParleyError | None) -> Attempt | None:
        """Return the failure of a model server that an operator should know of, even if another one answered in the
        end."""
        fault = error.fault if isinstance(error, UpstreamFailed) and error.is_server_fault else None
        failed = [attempt for attempt in attempts if attempt.cause]
        if fault is not None and fault.upstream is not None:
            address = self._context.registry.addresses().get(fault.upstream, "")
            return Attempt(fault.upstream, address, 0.0, fault.cause, describe_fault(fault))
        return failed[-1] if failed and (error is None or fault is not None) else None


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
        self._get_owner = get_owner or context.owner
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
            raw: bytes | bytearray | None = take_body(scope, request.offered_writer, server.max_body_bytes, lease)
            if raw is None:
                raw = await read_body(scope, request.receive, server.max_body_bytes, server.body_seconds, lease)
            request.record.record_body()
            with context.admission.try_enter() or await context.wait_for_place(scope, request.receive):
                memory = context.open_request_memory(scope, raw)
                request.is_large = is_large(raw, memory)
                if request.is_large or not has_few_values(raw, memory, server.max_json_values):
                    await wait_for_parse_memory(raw, lease, server.max_json_values, memory)
                is_long = len(raw) > LARGE_BYTES
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
            self._context.limiter,
            request.record,
            parsed.settings,
        )
        record.record_settings(settings.stream, settings.metadata)
        try:
            model = settings.model or await gateway.resolve_model(None)
            record.record_model(model)
            route = find_route(gateway, model, request.caller)
            record.record_model(model, route.model)
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
        request.record.record_model(model, chosen.route.model)
        request.record.record_route(chosen.label)
        scope["state"]["response_headers"].append(make_route_header(chosen.label))
        return chosen

    async def _resolve(
        self, request: RequestInProgress, unresolved: UnresolvedRequest[Parsed]
    ) -> Parsed | RejectedRequest:
        """Look up what a request refers to, and parse it. Raises ParleyError."""
        assert self._find_stored is not None
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
            attempts.on_late_usage = partial(context.count_late_usage, record.caller, record.model)
            if response.call is not None and not response.call.ended:
                context.settle_at_end(response.call, record, attempts)
        if response.answers is not None:
            await self._keep_reasoning(response, request.scope)
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
        passes = False
        if parsed.request.source is not None or parsed.request.passed is not None:
            parsed, passes = _choose_own(parsed, request, route, has_tools=context.tools is not None)
        info = ReplyInfo(
            self._new_reply_id(),
            request.id,
            request.named_model
            or (settings.model if settings.model and self._keeps_name(settings.model) else None)
            or route.model,
            int(time.time()),
            warnings=parsed.warnings,
            completed_bodies=settings.completed_bodies,
            options=parsed.options,
            include_usage=settings.include_usage,
        )
        options = self._make_options(request, parsed, info, route, keep=keep)
        if parsed.request.server_tools is not None or context.tools is not None:
            from app.api.tool_replies import prepare_with_tools  # most gateways run no tools

            with_tools = prepare_with_tools(self, context, request, parsed, route, info, options)
            if with_tools is not None:
                return with_tools
        if route.enforces_output and parsed.request.params:
            from app.api.checked_replies import prepare_checked  # few models enforce it

            checked = prepare_checked(self, context, request, parsed, route, info, options)
            if checked is not None:
                return checked
        deferred = request.is_large and has_media(parsed.request)
        media_requests = None if deferred else gateway.find_media_requests(route, parsed.request)
        kept = context.reasoning
        # The messages of a client's own body are not sent, so nothing could be put back into them.
        wanted = kept.find_wanted(route) if kept is not None and not passes else NOTHING_WANTED
        dropped = kept.find_dropped(parsed.request, wanted) if kept is not None and wanted != NOTHING_WANTED else ()
        waits = media_requests or request.is_large or dropped or checks_new_schema(route, parsed.request)
        prepared = None if waits else gateway.prepare(route, parsed.request)
        response = self.create_response(request, parsed, info)
        if wanted != NOTHING_WANTED:
            response.answers = describe_context(parsed.request.messages)
        if prepared is not None:
            return response, self.open_reply(gateway, prepared, options, response)
        unprepared = UnpreparedReply(gateway, route, parsed.request, media_requests, options, response)
        if dropped:
            in_thread = bool(media_requests) or request.is_large or checks_new_schema(route, parsed.request)
            caller = context.caller_id(request.scope)
            return response, self.restore(unprepared, dropped, wanted, caller, in_thread=in_thread)
        return response, self.prepare_in_thread(unprepared)

    def _keeps_name(self, model: str) -> bool:
        """Whether the reply names the model as the request does. An agent looks for the id that it was shown."""
        return self._keeps_alias or model.startswith(CLAUDE_ID)

    def create_response(self, request: RequestInProgress, parsed: ParsedRequest, info: ReplyInfo) -> ReplyResponse:
        context, settings, trace = self._context, parsed.settings, request.record.trace
        if context.captures_content and isinstance(trace, RequestTrace) and trace.sampled:
            request.record.record_content(parsed.request.messages)
        create = EventStreamResponse if settings.stream else JsonResponse
        response = create(request.writer, info, parsed.reply_format, settings.mode, context.replies.limits)
        response.attempts = request.attempts
        response.owner = self._get_owner(request.scope)
        return response

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
        policy = _read_cache_policy(parsed, request.scope, route, self._apply)
        return ReplyOptions(
            info.response_id,
            replace(policy, keep=True) if keep else policy,
            self._context.cache_scope(request.scope),
            parsed.settings.unread_seconds,
            request.attempts,
            request.lease,
            self._context.sharer_id(request.scope),
        )

    async def restore(
        self,
        unprepared: UnpreparedReply,
        dropped: Sequence[DroppedReasoning],
        wanted: Wanted,
        caller: str,
        *,
        in_thread: bool,
    ) -> Reply:
        """Put back reasoning that the client dropped, and prepare the request."""
        assert self._context.reasoning is not None
        request, warnings = await self._context.reasoning.restore(unprepared.request, dropped, wanted, caller)
        if warnings:
            unprepared.response.add_warnings(warnings)
        if in_thread:
            return await self.prepare_in_thread(replace(unprepared, request=request))
        gateway, options = unprepared.gateway, unprepared.options
        return await self.open_reply(gateway, gateway.prepare(unprepared.route, request), options, unprepared.response)

    async def _keep_reasoning(self, response: ReplyResponse, scope: Scope) -> None:
        """Keep the reasoning of a reply that called tools, if the model's server wants it back."""
        kept, source, outcome = self._context.reasoning, response.source, response.outcome
        if kept is None or source is None or outcome is None or outcome.reason != "tool_calls":
            return
        assert response.answers is not None
        await kept.keep(source, response.answers, self._context.caller_id(scope), response.info.model)

    async def prepare_in_thread(self, unprepared: UnpreparedReply) -> Reply:
        """Load media, and prepare the request in another thread. Meanwhile the stream may open."""
        gateway, options, response = unprepared.gateway, unprepared.options, unprepared.response
        media_requests = unprepared.media_requests
        if media_requests is None:
            media_requests = await call_in_thread(gateway.find_media_requests, unprepared.route, unprepared.request)
        if checks_new_schema(unprepared.route, unprepared.request):
            await call_in_thread(prepare_check, unprepared.request)
        media = await gateway.load_media(
            unprepared.route, unprepared.request, media_requests, options.lease.take, options.caller
        )
        preparing = call_in_thread(gateway.prepare, unprepared.route, unprepared.request, media)
        del unprepared, media_requests, media  # the wait for the model server may be long
        prepared = await preparing
        options.lease.change(prepared.size)
        return await self.open_reply(gateway, prepared, options, response)

    async def open_reply(
        self,
        gateway: Gateway,
        prepared: PreparedRequest,
        options: ReplyOptions,
        response: "ReplyResponse | TurnOpening",
    ) -> Reply:
        """Open the reply. It can be resumed before the model server has answered."""
        if prepared.warnings:
            response.add_warnings(prepared.warnings)
        try:
            found = await gateway.find(prepared, options)
        except CacheMiss:
            if options.cache_policy.read:
                response.set_origin(Origin("miss"))
            raise
        joins = 1 + prepared.max_retries
        self.set_source(response, found, found.origin, options)
        while True:
            try:
                reply = await self._context.cache.open(found)
                break
            except UpstreamFailed as error:
                if not (isinstance(found, Join) and error.retryable and joins):
                    raise
            joins -= 1
            found = gateway.find_again(prepared, options)
            self.set_source(response, found, found.origin, options)
        origin = found.origin
        if reply.fallback_model is not None:
            origin = replace(origin, fallback_model=reply.fallback_model)
        if origin != response.info.origin:
            self.set_source(response, found, origin, options)
        return reply

    def set_source(
        self, response: "ReplyResponse | TurnOpening", found: Found, origin: Origin, options: ReplyOptions
    ) -> None:
        response.set_origin(origin)
        response.source = found.source
        response.call = found.source if isinstance(found, New) else None
        if found.source is not None and isinstance(response, EventStreamResponse):
            info, format_, mode = response.info, FORMATS[response.format.name], response.mode
            reply = ResumableReply(info, format_, mode, response.owner, found.source, options.unread_seconds)
            self._context.replies.resumable.put(reply)


Answer: TypeAlias = Callable[[ChatEndpoint[Parsed], RequestInProgress, Parsed, ModelRoute], Coroutine[Any, Any, None]]
"""Returns the coroutine that produces and sends the reply, without the request. Raises ParleyError if the request can
be refused before anything is sent upstream."""


def _answer(
    endpoint: ChatEndpoint[Parsed], request: RequestInProgress, parsed: Parsed, route: ModelRoute
) -> Coroutine[Any, Any, None]:
    response, opening = endpoint.prepare(request, parsed, route)
    return endpoint.deliver(request, response, opening)


def checks_new_schema(route: ModelRoute, request: ChatRequest) -> bool:
    """Whether a schema must be read before the reply can be checked at once."""
    checks = any(deployment.profile.check_output != "off" for deployment in route.deployments)
    return bool(request.params) and checks and has_new_schema(request)


def find_route(gateway: Gateway, model: str, caller: Caller, endpoint: ModelEndpoint | None = CHAT) -> ModelRoute:
    """Return the route of a model for an endpoint; None is one that all models serve. Raises Forbidden for a model that
    the caller may not use, whether or not it exists, UnknownModel, and WrongEndpoint."""
    caller.check_endpoint(endpoint)
    route = _find_allowed(gateway, model, caller)
    check_endpoint(route, endpoint)
    return route


def check_endpoint(route: ModelRoute, endpoint: ModelEndpoint | None) -> None:
    """Raises WrongEndpoint if the model does not serve it."""
    if endpoint is not None and endpoint not in route.endpoints:
        raise WrongEndpoint(
            f"the model {route.model!r} serves {describe_served(route.endpoints)}, not {endpoint}", "model"
        )


def _find_allowed(gateway: Gateway, model: str, caller: Caller) -> ModelRoute:
    try:
        route = gateway.route(model)
    except UnknownModel:
        caller.check_model(model)
        raise
    if caller.models is not None:
        caller.check_model(gateway.read_id(model), route.model)
        if caller.own_fallbacks and route.has_fallbacks:
            return route.with_fallbacks(lambda name: caller.may_use(name, gateway.find_name(name)))
    return route


def apply_rights(request: ChatRequest, caller: Caller) -> ChatRequest:
    """Return a request with what its caller may choose at a model server. Raises Forbidden for a model with which the
    caller may not have files searched."""
    rights = caller.rights
    if rights is None:
        return request
    if request.passages is not None and request.passages.embedding_model is not None:
        caller.check_embedding_model(request.passages.embedding_model)
    return replace(request, rights=rights)


async def reserve_limits(
    limiter: Limiter, request: RequestInProgress, route: ModelRoute, conversation: ChatRequest
) -> Reservation | None:
    """Reserve the limits of one call to a model; None if it has none. Raises RateLimited or QuotaExceeded."""
    live = request.live

    def find_most_tokens() -> int:
        routes = [route, *(live.gateway.route(name) for name in route.list_fallbacks())]
        return find_most_reply_tokens(routes, conversation, live.settings.usage.reserved_reply_tokens)

    return await limiter.reserve(
        request.caller,
        route.model,
        lambda: estimate_prompt_tokens(conversation),
        find_max_tokens(route.defaults, conversation.params),
        DEFAULT_REPLY_TOKENS,
        find_most_tokens,
    )


def _read_cache_policy(parsed: ParsedRequest, scope: Scope, route: ModelRoute, apply: Apply) -> CachePolicy:
    """Read the cache policy from the body and the headers. Raises InvalidInput for an unknown mode."""
    control = parsed.settings.cache
    mode, ttl_seconds = (None, None) if control is None else (control.mode, control.ttl_seconds)
    lines: tuple[tuple[bytes, bytes], ...] = ()
    read = scope["state"]["headers"]
    if b"cache-control" in read or CACHE_HEADER in read:
        lines = tuple([line for line in scope["headers"] if line[0] in _CACHE_HEADERS])
    named = [_parse_cache_mode(value.decode("latin-1")) for name, value in lines if name == CACHE_HEADER]
    headers = [value.decode("latin-1") for name, value in lines if name != CACHE_HEADER]
    return make_cache_policy(
        mode, ttl_seconds, headers, named=named, enabled=route.cache_seconds is not None, apply=apply
    )


def _parse_cache_mode(value: str) -> Mode:
    mode = next((mode for mode in MODES if mode == value.strip().lower()), None)
    if mode is None:
        raise InvalidInput([Violation(CACHE_HEADER.decode(), f"must be one of {', '.join(MODES)}")])
    return mode
