"""The endpoint of `POST /v1/chat` and `POST /v1/chat/completions`: parses a request and sends the reply.

It is a plain ASGI callable: FastAPI's work around an endpoint costs more than everything in this file.
"""

import time
from collections.abc import Callable, Sequence
from functools import partial

from app.access import Caller
from app.api.asgi import (
    LARGE_BYTES,
    ClientDisconnected,
    Receive,
    Scope,
    call_in_thread,
    read_body,
    send_error,
    wait_for_parse_memory,
)
from app.api.chat_schema import ParsedRequest, RejectedRequest, UnresolvedRequest
from app.api.context import AppContext, PendingReply
from app.api.request_limits import RequestLimits
from app.api.response_writer import ResponseWriter, Send, SendQueue, find_offered_writer
from app.api.responses import EventStreamResponse, ReplyResponse
from app.api.resumable import ResumableReply
from app.cache import MODES, Apply, CachePolicy, FoundReply, Mode, make_cache_policy
from app.chat.messages import ChatRequest
from app.chat.stream import Attempt, AttemptLog, Origin, Reply
from app.errors import CacheMiss, Internal, InvalidInput, ParleyError, UnknownModel, UpstreamFailed, Violation
from app.formats.base import ReplyInfo, WriteError, choose_status
from app.gateway import Gateway, ReplyOptions, new_reply_id
from app.limits import Limiter
from app.limits.estimate import DEFAULT_REPLY_TOKENS, estimate_prompt_tokens
from app.memory_budget import Lease
from app.observe.content import CapturedContent, CapturedReply
from app.observe.logs import log_late_failure
from app.observe.request_record import RequestRecord
from app.observe.trace_context import RequestTrace
from app.routing import ModelRoute, PreparedRequest
from app.steps.dropped_reasoning import DroppedReasoning, describe_context
from app.steps.media import MediaRequest
from app.upstream.causes import describe_fault

CACHE_HEADER = b"x-parley-cache"
"""Its value is a mode of the cache. It is for clients that can set a header but no field of the body."""


class ChatEndpoint:
    """Answers chat requests. Its constructor's parameters are the differences between the two paths."""

    def __init__(
        self,
        context: AppContext,
        parse: Callable[[bytes | bytearray, RequestLimits], ParsedRequest | RejectedRequest | UnresolvedRequest],
        name: str,
        write_error: WriteError,
        apply: Apply,
        *,
        new_reply_id: Callable[[], str] = new_reply_id,
        keeps_alias: bool = False,
        sends_request_id: bool = False,
    ) -> None:
        """`parse` parses the body of a request. `name` is the endpoint's name in the logs. `write_error` writes errors
        that occur before the request's own format is known. `apply` says for which requests the cache is used.

        `keeps_alias`: a reply names the model as the request does, not as it is configured. `sends_request_id`: every
        response has the header `request-id` as well."""
        self.write_error = write_error
        self.sends_request_id = sends_request_id
        self._keeps_alias = keeps_alias
        self._context = context
        self._parse = parse
        self._name = name
        self._apply = apply
        self._new_reply_id = new_reply_id

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request_id: str = scope["state"]["request_id"]
        caller: Caller = scope["state"]["caller"]
        record = RequestRecord(request_id, self._name, caller.name)
        record.trace = self._context.begin_trace(scope)
        try:
            try:
                rejected = await self._serve(scope, receive, send, request_id, record)
            except ParleyError as error:
                rejected = RejectedRequest(error, None)
            if rejected is not None:
                record.record_error(rejected.error)
                self._record_attempts(record, (), rejected.error)
                write_error = rejected.write_error or self.write_error
                record.status = choose_status(write_error, rejected.error)
                await send_error(send, rejected.error, request_id, write_error)
        except ClientDisconnected:
            record.record_disconnect()
        except Exception:
            record.record_error(Internal("the gateway failed"))
            raise
        finally:
            if not record.in_background:
                self._context.finish_request(record)

    async def _serve(
        self, scope: Scope, receive: Receive, send: Send, request_id: str, record: RequestRecord
    ) -> RejectedRequest | None:
        """Send the reply, or return the error that rejects the request. Raises ParleyError before the body is parsed.

        A request is admitted once its body has arrived. The body is freed before the reply begins.
        """
        live = self._context.live
        server, gateway = live.settings.server, live.gateway
        writer = find_offered_writer(scope)
        with self._context.budget.lease() as lease:
            raw = await read_body(scope, receive, server.max_body_bytes, server.body_seconds, lease, writer)
            record.received_at = time.perf_counter()
            context = self._context
            with context.admission.try_enter() or await context.wait_for_place(scope, receive):
                await wait_for_parse_memory(raw, lease, server.max_json_values)
                large = len(raw) > LARGE_BYTES
                parsing = call_in_thread(self._parse, raw, live.request_limits) if large else None
                parsed = self._parse(raw, live.request_limits) if parsing is None else await parsing
                del raw, parsing
                if isinstance(parsed, UnresolvedRequest):
                    parsed = await self._resolve(parsed, scope)
                if isinstance(parsed, RejectedRequest):
                    return parsed
                try:
                    model = await gateway.resolve_model(parsed.body.model)
                    route = find_route(gateway, model, scope["state"]["caller"])
                    if context.limiter is not None:
                        await self._reserve(context.limiter, parsed, route, scope, record)
                    attempts = AttemptLog(record.trace)
                    response, opening = self._prepare(
                        gateway,
                        parsed,
                        route,
                        large,
                        lease,
                        scope,
                        writer or SendQueue(send),
                        request_id,
                        record,
                        attempts,
                    )
                except ParleyError as error:
                    return RejectedRequest(error, parsed.reply_format.error)
                del parsed
                await self._deliver(response, opening, lease, scope, receive, send, record, attempts)
                return None

    async def _deliver(
        self,
        response: ReplyResponse,
        opening: PendingReply,
        lease: Lease,
        scope: Scope,
        receive: Receive,
        send: Send,
        record: RequestRecord,
        attempts: AttemptLog,
    ) -> None:
        """Send the reply to its end, and record it."""
        try:
            opened = _open_with_lease(opening, lease)
            if record.content is not None:
                opened = _capture_content(opened, record.content)
            await self._context.run_response(response, opened, receive)
        finally:
            attempts.on_late_failure = partial(log_late_failure, record.request_id, self._name, response.info.model)
            attempts.on_late_usage = partial(self._context.count_late_usage, record.caller, record.model)
        if response.answers is not None:
            await self._keep_reasoning(response, scope)
        record.sent_at = attempts.sent_at
        record.fallback_model = response.info.origin.fallback_model
        record.record_response(response, response.info.origin.label)
        record.record_usage(attempts.usage)
        self._record_attempts(record, attempts.attempts, response.error)

    async def _resolve(self, request: UnresolvedRequest, scope: Scope) -> ParsedRequest | RejectedRequest:
        """Look up what a request refers to. Only endpoints that store something get such requests."""
        raise NotImplementedError

    def _record_attempts(self, record: RequestRecord, attempts: Sequence[Attempt], error: ParleyError | None) -> None:
        """Record failures of upstreams, even if another upstream answered in the end."""
        record.attempts = attempts
        fault = error.fault if isinstance(error, UpstreamFailed) and error.is_server_fault else None
        failed = [attempt for attempt in attempts if attempt.cause]
        if fault is not None and fault.upstream is not None:
            address = self._context.registry.addresses().get(fault.upstream, "")
            record.upstream_failure = Attempt(fault.upstream, address, 0.0, fault.cause, describe_fault(fault))
        elif failed and (error is None or fault is not None):
            record.upstream_failure = failed[-1]

    def _prepare(
        self,
        gateway: Gateway,
        parsed: ParsedRequest,
        route: ModelRoute,
        large: bool,
        lease: Lease,
        scope: Scope,
        writer: ResponseWriter,
        request_id: str,
        record: RequestRecord,
        attempts: AttemptLog,
    ) -> tuple[ReplyResponse, PendingReply]:
        """Return the response, and the coroutine that opens the reply. Raises ParleyError if the request can be refused
        before anything is sent upstream."""
        context = self._context
        body = parsed.body
        info = ReplyInfo(
            response_id=self._new_reply_id(),
            request_id=request_id,
            model=(body.model if self._keeps_alias else None) or route.model,
            created=int(time.time()),
            warnings=parsed.warnings,
            completed_bodies=body.completed_bodies,
            options=parsed.options,
            include_usage=body.include_usage,
        )
        options = self._make_options(parsed, lease, scope, info, route, attempts)
        media_requests = gateway.find_media_requests(route, parsed.request)
        kept = self._context.reasoning
        wanted = kept is not None and kept.is_wanted(route)
        dropped = kept.find_dropped(parsed.request) if kept is not None and wanted else []
        prepared = None if media_requests or large or dropped else gateway.prepare(route, parsed.request)
        record.record_request(route.model, body.stream, body.metadata)
        if context.captures_content and isinstance(record.trace, RequestTrace) and record.trace.sampled:
            record.content = CapturedContent(parsed.request.messages)
        create = self._context.create_event_stream if body.stream else self._context.create_json_response
        response = create(writer, info, parsed.reply_format, body.mode)
        response.attempts = attempts
        response.owner = self._get_owner(scope)
        if wanted:
            response.answers = describe_context(parsed.request.messages)
        if dropped:
            caller = context.caller_id(scope)
            return response, self._restore(
                dropped, caller, gateway, route, parsed.request, media_requests, options, response
            )
        if prepared is None:
            return response, self._prepare_in_thread(gateway, route, parsed.request, media_requests, options, response)
        return response, self._open_reply(gateway, prepared, options, response)

    def _get_owner(self, scope: Scope) -> str:
        """Return the caller who may resume the reply to this request."""
        return self._context.owner(scope)

    async def _reserve(
        self, limiter: Limiter, parsed: ParsedRequest, route: ModelRoute, scope: Scope, record: RequestRecord
    ) -> None:
        """Reserve the limits of the request. Raises RateLimited or QuotaExceeded."""
        request = parsed.request
        reservation = await limiter.reserve(
            scope["state"]["caller"],
            route.model,
            partial(estimate_prompt_tokens, request),
            request.params.get("max_tokens", route.defaults.get("max_tokens")),
            DEFAULT_REPLY_TOKENS,
        )
        if reservation is not None:
            record.reservation = reservation
            scope["state"]["response_headers"].extend(reservation.headers)

    def _make_options(
        self,
        parsed: ParsedRequest,
        lease: Lease,
        scope: Scope,
        info: ReplyInfo,
        route: ModelRoute,
        attempts: AttemptLog,
    ) -> ReplyOptions:
        return ReplyOptions(
            info.response_id,
            _read_cache_policy(parsed, scope, route, self._apply),
            self._context.cache_scope(scope),
            not parsed.body.cancel_on_disconnect,
            attempts,
            lease,
        )

    async def _restore(
        self,
        dropped: Sequence[DroppedReasoning],
        caller: str,
        gateway: Gateway,
        route: ModelRoute,
        request: ChatRequest,
        media_requests: list[MediaRequest],
        options: ReplyOptions,
        response: ReplyResponse,
    ) -> Reply:
        """Put back reasoning that the client dropped, and prepare the request."""
        assert self._context.reasoning is not None
        request, warnings = await self._context.reasoning.restore(request, dropped, caller)
        if warnings:
            response.add_warnings(warnings)
        return await self._prepare_in_thread(gateway, route, request, media_requests, options, response)

    async def _keep_reasoning(self, response: ReplyResponse, scope: Scope) -> None:
        """Keep the reasoning of a reply that called tools, if the model's server wants it back."""
        kept, source, outcome = self._context.reasoning, response.source, response.outcome
        if kept is None or source is None or outcome is None or outcome.reason != "tool_calls":
            return
        assert response.answers is not None
        await kept.keep(source, response.answers, self._context.caller_id(scope), response.info.model)

    async def _prepare_in_thread(
        self,
        gateway: Gateway,
        route: ModelRoute,
        request: ChatRequest,
        media_requests: list[MediaRequest],
        options: ReplyOptions,
        response: ReplyResponse,
    ) -> Reply:
        """Load media, and prepare the request in another thread. Meanwhile the stream may open."""
        media = await gateway.load_media(media_requests, options.lease.take)
        prepared = await call_in_thread(gateway.prepare, route, request, media)
        del request, media_requests, media  # the wait for the model server may be long
        options.lease.change(prepared.size)
        return await self._open_reply(gateway, prepared, options, response)

    async def _open_reply(
        self, gateway: Gateway, prepared: PreparedRequest, options: ReplyOptions, response: ReplyResponse
    ) -> Reply:
        """Open the reply. It can be resumed before the model server has answered."""
        cache = self._context.cache
        if prepared.warnings:
            response.add_warnings(prepared.warnings)
        try:
            found = await gateway.find(prepared, options)
        except CacheMiss:
            if options.cache_policy.read:
                response.set_origin(Origin("miss"))
            raise
        while True:
            self._set_source(response, found, found.origin, options)
            try:
                opened = await cache.open(found)
            except UpstreamFailed as error:
                found = cache.find_again(found, error)
            else:
                break
        if opened.origin is not found.origin:
            self._set_source(response, found, opened.origin, options)
        return opened.reply

    def _set_source(self, response: ReplyResponse, found: FoundReply, origin: Origin, options: ReplyOptions) -> None:
        response.set_origin(origin)
        response.source = found.source
        if found.source is not None and isinstance(response, EventStreamResponse):
            info, format_, mode = response.info, response.format, response.mode
            reply = ResumableReply(info, format_, mode, response.owner, found.source, options.keep_running)
            self._context.resumable.put(reply)


def find_route(gateway: Gateway, model: str, caller: Caller) -> ModelRoute:
    """Return the route of a model. Raises Forbidden for a model that the caller may not use, whether or not it exists,
    and UnknownModel."""
    try:
        route = gateway.route(model)
    except UnknownModel:
        caller.check_model(model)
        raise
    if caller.models is not None:
        caller.check_model(model, route.model)
    return route


def _read_cache_policy(parsed: ParsedRequest, scope: Scope, route: ModelRoute, apply: Apply) -> CachePolicy:
    """Read the cache policy from the body and the headers. Raises InvalidInput for an unknown mode."""
    control = parsed.body.cache
    mode, ttl_seconds = (None, None) if control is None else (control.mode, control.ttl_seconds)
    headers = [value.decode("latin-1") for name, value in scope["headers"] if name == b"cache-control"]
    named = [_parse_cache_mode(value.decode("latin-1")) for name, value in scope["headers"] if name == CACHE_HEADER]
    enabled = route.cache_seconds is not None
    return make_cache_policy(mode, ttl_seconds, headers, named=named, enabled=enabled, apply=apply)


def _parse_cache_mode(value: str) -> Mode:
    mode = next((mode for mode in MODES if mode == value.strip().lower()), None)
    if mode is None:
        raise InvalidInput([Violation(CACHE_HEADER.decode(), f"must be one of {', '.join(MODES)}")])
    return mode


async def _capture_content(opening: PendingReply, content: CapturedContent) -> Reply:
    return CapturedReply(await opening, content)


async def _open_with_lease(opening: PendingReply, lease: Lease) -> Reply:
    """Open the reply, and release the memory of the request."""
    with lease:
        return await opening
