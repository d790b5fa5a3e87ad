"""`POST /v1/chat`: read the request, have it prepared, and deliver the reply.

A plain ASGI callable: what FastAPI does around an endpoint costs more than everything that happens here.
"""

import hashlib
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from types import MappingProxyType

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
from app.api.chat_schema import ParsedRequest, parse_chat_body
from app.api.context import AppContext, PendingReply
from app.api.request_limits import RequestLimits, request_limits
from app.api.responses import ReplyResponse
from app.api.resumable import ResumableReply
from app.api.send_queue import Send
from app.cache import MODES, Apply, CachePolicy, Mode, ReplaySource, make_cache_policy
from app.chat.messages import ChatRequest
from app.chat.stream import Attempt, Reply
from app.errors import CacheMiss, InvalidInput, ParleyError, Shape, UpstreamFailed, Violation
from app.formats.base import Format, ReplyInfo, ReplyMode
from app.gateway import ModelRoute, PreparedRequest, ReplyOptions, new_reply_id
from app.memory_budget import Lease
from app.observe.logs import RequestLog, log_late_failure
from app.steps.media import MediaRequest
from app.upstream.causes import describe_fault

CACHE_HEADER = b"x-parley-cache"
"""Its value is a mode of the cache: for clients that can set a header but no field of the body."""


class ChatEndpoint:
    """`read` makes a request of a body; `face` is its name in the logs; `shape` says errors known before it is read;
    `apply` says which requests the cache is used for; `addresses` are those of the upstreams, for the logs."""

    def __init__(
        self,
        desk: AppContext,
        read: Callable[[bytes | bytearray, RequestLimits], ParsedRequest] = parse_chat_body,
        face: str = "chat",
        shape: Shape | None = None,
        addresses: Mapping[str, str] = MappingProxyType({}),
        apply: Apply = "always",
    ) -> None:
        self._context = desk
        self._parse = read
        self._name = face
        self._shape = shape
        self._apply = apply
        self._limits = request_limits(desk.server)
        self._addresses = addresses

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request_id: str = scope["state"]["request_id"]
        entry = RequestLog(request_id, self._name)
        try:
            await self._serve(scope, receive, send, request_id, entry)
        except ClientDisconnected:
            entry.record_disconnect()
        except ParleyError as error:
            entry.record_error(error)
            self._log_upstream(entry, (), error)
            error.shape = error.shape or self._shape
            await send_error(send, error, request_id)
        finally:
            entry.write()

    async def _serve(self, scope: Scope, receive: Receive, send: Send, request_id: str, entry: RequestLog) -> None:
        """What was read is not held while the reply comes. Who is still sending takes nobody's seat."""
        server = self._context.server
        with self._context.budget.lease() as lease:
            raw = await read_body(scope, receive, server.max_body_bytes, server.body_seconds, lease)
            with self._context.admit():
                await wait_for_parse_memory(raw, lease, server.max_json_values)
                large = len(raw) > LARGE_BYTES
                parsing = call_in_thread(self._parse, raw, self._limits) if large else None
                reading = self._parse(raw, self._limits) if parsing is None else await parsing
                del raw, parsing
                try:
                    model = await self._context.gateway.resolve_model(reading.body.model)
                    delivery, opening = self._prepare(reading, model, large, lease, scope, send, request_id, entry)
                except ParleyError as error:
                    error.shape = reading.reply_format.error
                    raise
                del reading
                info = delivery.info
                try:
                    await self._context.run_response(delivery, _open_with_lease(opening, lease), receive)
                finally:
                    info.origin.on_late_failure = partial(log_late_failure, request_id, self._name, info.model)
                entry.record_response(delivery, info.origin.label)
                self._log_upstream(entry, info.origin.attempts, delivery.error)

    def _log_upstream(self, entry: RequestLog, attempts: Sequence[Attempt], error: ParleyError | None) -> None:
        """What went wrong with model servers, also where another one answered in the end."""
        fault = error.fault if isinstance(error, UpstreamFailed) and error.is_server_fault else None
        failed = [attempt for attempt in attempts if attempt.cause]
        if fault is not None and fault.upstream is not None:
            address = self._addresses.get(fault.upstream, "")
            entry.record_upstream_failure(
                Attempt(fault.upstream, address, 0.0, fault.cause, describe_fault(fault)), attempts
            )
        elif failed and (error is None or fault is not None):
            entry.record_upstream_failure(failed[-1], attempts)

    def _prepare(
        self,
        reading: ParsedRequest,
        model: str,
        large: bool,
        lease: Lease,
        scope: Scope,
        send: Send,
        request_id: str,
        entry: RequestLog,
    ) -> tuple[ReplyResponse, PendingReply]:
        """Everything that can be refused before a byte goes out."""
        gateway = self._context.gateway
        envelope = reading.body
        route = gateway.route(model)
        warnings = list(reading.warnings)
        info = ReplyInfo(
            response_id=new_reply_id(),
            request_id=request_id,
            model=route.model,
            created=int(time.time()),
            warnings=warnings,
            completed_bodies=envelope.completed_bodies,
            options=envelope.options,
            include_usage=envelope.include_usage,
        )
        asked = self._make_options(reading, lease, scope, info, route)
        register = (
            partial(self._register, reading.reply_format, envelope.mode, info, asked) if envelope.stream else None
        )
        wanted = gateway.media_requests(route, reading.request)
        if wanted or large:
            opening = self._prepare_in_thread(route, reading.request, wanted, warnings, asked, register)
        else:
            prepared = gateway.prepare(route, reading.request)
            warnings += prepared.warnings
            opening = self._open_reply(prepared, asked, register)
        entry.record_request(route.model, envelope.stream, envelope.metadata)
        reply_format = reading.reply_format
        encoder = reply_format.reply_encoder(info, envelope.mode)
        create = self._context.create_event_stream if envelope.stream else self._context.create_json_response
        return create(scope, send, encoder, info, reply_format), opening

    def _make_options(
        self, reading: ParsedRequest, lease: Lease, scope: Scope, info: ReplyInfo, route: ModelRoute
    ) -> ReplyOptions:
        return ReplyOptions(
            info.response_id,
            _read_cache_policy(reading, scope, route, self._apply),
            caller_scope(scope) if self._context.separate_callers else "",
            not reading.body.cancel_on_disconnect,
            info.origin,
            lease,
        )

    async def _prepare_in_thread(
        self,
        route: ModelRoute,
        request: ChatRequest,
        wanted: list[MediaRequest],
        warnings: list[str],
        asked: ReplyOptions,
        register: Callable[[ReplaySource], None] | None,
    ) -> Reply:
        """Media are loaded, and much is prepared in another thread, while the caller is watched and the stream may
        open; `warnings` grows by what follows."""
        gateway = self._context.gateway
        media = await gateway.load_media(wanted, asked.lease.take)
        prepared = await call_in_thread(gateway.prepare, route, request, media)
        del request, wanted, media  # the wait for the model server may be long
        asked.lease.change(prepared.size)
        warnings += prepared.warnings
        return await self._open_reply(prepared, asked, register)

    async def _open_reply(
        self, prepared: PreparedRequest, asked: ReplyOptions, register: Callable[[ReplaySource], None] | None
    ) -> Reply:
        """`register` makes the reply resumable before the head of the server's response is waited for."""
        cache, origin = self._context.cache, asked.origin
        try:
            found = await self._context.gateway.find(prepared, asked)
        except CacheMiss:
            if asked.cache_policy.read:
                origin.label = "miss"
            raise
        if found is None:
            return await self._context.gateway.open_with_lease(prepared, asked)
        while True:
            origin.label, origin.age_seconds = found.label, found.age_seconds
            if register is not None:
                register(found.source)
            try:
                opened = await cache.open(found)
            except UpstreamFailed as error:
                found = cache.find_again(found, error)
            else:
                origin.label = opened.label
                return opened.reply

    def _register(
        self, form: Format, mode: ReplyMode, info: ReplyInfo, asked: ReplyOptions, source: ReplaySource
    ) -> None:
        self._context.resumable.put(ResumableReply(info, form, mode, asked.scope, source, asked.keep_running))


def _read_cache_policy(reading: ParsedRequest, scope: Scope, route: ModelRoute, apply: Apply) -> CachePolicy:
    """Raises InvalidInput for a mode that is none."""
    said = reading.body.cache
    mode, ttl_seconds = (None, None) if said is None else (said.mode, said.ttl_seconds)
    headers: list[str] = []
    named: list[Mode] = []
    for name, value in scope["headers"]:
        if name == b"cache-control":
            headers.append(value.decode("latin-1"))
        elif name == CACHE_HEADER:
            named.append(_parse_cache_mode(value.decode("latin-1")))
    enabled = route.cache_seconds is not None
    return make_cache_policy(mode, ttl_seconds, headers, named=named, enabled=enabled, apply=apply)


def _parse_cache_mode(value: str) -> Mode:
    found = next((mode for mode in MODES if mode == value.strip().lower()), None)
    if found is None:
        raise InvalidInput([Violation(CACHE_HEADER.decode(), f"must be one of {', '.join(MODES)}")])
    return found


def caller_scope(scope: Scope) -> str:
    """Who asks, as far as it matters to whom a reply belongs: by the key that came with the request, unreadably."""
    for name, value in scope["headers"]:
        if name == b"authorization":
            return hashlib.blake2b(value, digest_size=16, person=b"parley-caller").hexdigest()
    return "nobody"


async def _open_with_lease(opening: PendingReply, lease: Lease) -> Reply:
    """An open reply holds nothing of the request."""
    with lease:
        return await opening
