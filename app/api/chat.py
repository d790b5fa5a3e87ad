"""`POST /v1/chat`: read the request, have it prepared, and deliver the reply.

A plain ASGI callable: what FastAPI does around an endpoint costs more than everything that happens here.
"""

import asyncio
import hashlib
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from types import MappingProxyType

from app.api.body import LARGE_BYTES, CallerGone, Receive, Scope, await_parsing, read_body
from app.api.delivery import Delivery
from app.api.desk import Desk, Opening
from app.api.envelope import Reading, read
from app.api.limits import Limits, limits
from app.api.outgoing import Send
from app.api.problems import send_error
from app.api.shelf import Kept
from app.cache import MODES, Apply, Control, Mode, Source, control
from app.chat.messages import ChatRequest
from app.chat.reply import Attempt, Reply
from app.errors import InvalidInput, ParleyError, Shape, UpstreamFailed, Violation
from app.formats.base import ReplyInfo
from app.gateway import Asked, Gateway, Route, new_reply_id
from app.memory_budget import Lease
from app.observe.logs import RequestLog, log_late_failure
from app.steps.media import Wanted
from app.upstream.causes import in_words

CACHE_HEADER = b"x-parley-cache"
"""Its value is a mode of the cache: for clients that can set a header but no field of the body."""


class ChatEndpoint:
    """`read` makes a request of a body; `face` is its name in the logs; `shape` says errors known before it is read;
    `apply` says which requests the cache is used for; `addresses` are those of the upstreams, for the logs."""

    def __init__(
        self,
        desk: Desk,
        read: Callable[[bytes | bytearray, Limits], Reading] = read,
        face: str = "chat",
        shape: Shape | None = None,
        addresses: Mapping[str, str] = MappingProxyType({}),
        apply: Apply = "always",
    ) -> None:
        self._desk = desk
        self._read = read
        self._face = face
        self._shape = shape
        self._apply = apply
        self._limits = limits(desk.server)
        self._addresses = addresses

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request_id: str = scope["state"]["request_id"]
        entry = RequestLog(request_id, self._face)
        try:
            await self._serve(scope, receive, send, request_id, entry)
        except CallerGone:
            entry.gone()
        except ParleyError as error:
            entry.failed(error)
            self._log_upstream(entry, (), error)
            error.shape = error.shape or self._shape
            await send_error(send, error, request_id)
        finally:
            entry.write()

    async def _serve(self, scope: Scope, receive: Receive, send: Send, request_id: str, entry: RequestLog) -> None:
        """What was read is not held while the reply comes. Who is still sending takes nobody's seat."""
        server = self._desk.server
        with self._desk.budget.lease() as lease:
            raw = await read_body(scope, receive, server.max_body_bytes, server.body_seconds, lease)
            with self._desk.seat():
                await await_parsing(raw, lease, server.max_json_values)
                large = len(raw) > LARGE_BYTES
                parsing = asyncio.to_thread(self._read, raw, self._limits) if large else None
                reading = self._read(raw, self._limits) if parsing is None else await parsing
                del raw, parsing
                try:
                    model = await self._desk.gateway.model(reading.envelope.model)
                    delivery, opening = self._prepared(reading, model, large, lease, scope, send, request_id, entry)
                except ParleyError as error:
                    error.shape = reading.reply_format.error
                    raise
                del reading
                info = delivery.info
                try:
                    await self._desk.deliver(delivery, _held(opening, lease), receive)
                finally:
                    info.origin.on_late_failure = partial(log_late_failure, request_id, self._face, info.model)
                entry.delivered(delivery, info.origin.label)
                self._log_upstream(entry, info.origin.attempts, delivery.error)

    def _log_upstream(self, entry: RequestLog, attempts: Sequence[Attempt], error: ParleyError | None) -> None:
        """What went wrong with model servers, also where another one answered in the end."""
        fault = error.fault if isinstance(error, UpstreamFailed) and error.is_servers else None
        failed = [attempt for attempt in attempts if attempt.cause]
        if fault is not None and fault.upstream is not None:
            address = self._addresses.get(fault.upstream, "")
            entry.upstream_failed(Attempt(fault.upstream, address, 0.0, fault.cause, in_words(fault)), attempts)
        elif failed and (error is None or fault is not None):
            entry.upstream_failed(failed[-1], attempts)

    def _prepared(
        self,
        reading: Reading,
        model: str,
        large: bool,
        lease: Lease,
        scope: Scope,
        send: Send,
        request_id: str,
        entry: RequestLog,
    ) -> tuple[Delivery, Opening]:
        """Everything that can be refused before a byte goes out."""
        gateway = self._desk.gateway
        envelope = reading.envelope
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
        asked = self._asked(reading, lease, scope, info, route)
        wanted = gateway.wanted(route, reading.request)
        if wanted or large:
            opening = _prepared_apart(gateway, route, reading.request, wanted, warnings, asked)
        else:
            prepared = gateway.prepare(route, reading.request)
            warnings += prepared.warnings
            opening = gateway.reply(prepared, asked)
        entry.request(route.model, envelope.stream, envelope.metadata)
        form = reading.reply_format
        encoder = form.encoder(info, envelope.mode)
        return self._desk.delivery(scope, send, encoder, info, form, stream=envelope.stream), opening

    def _asked(self, reading: Reading, lease: Lease, scope: Scope, info: ReplyInfo, route: Route) -> Asked:
        envelope, desk, form = reading.envelope, self._desk, reading.reply_format
        whose = caller(scope) if desk.callers_apart else ""
        stays = not envelope.cancel_on_disconnect

        stream, mode = envelope.stream, envelope.mode

        def found(source: Source) -> None:
            if stream:  # who waits for the whole does not know its id before it has it
                desk.shelf.put(Kept(info, form, mode, whose, source, stays))

        return Asked(
            info.response_id, _control(reading, scope, route, self._apply), whose, stays, info.origin, found, lease
        )


def _control(reading: Reading, scope: Scope, route: Route, apply: Apply) -> Control:
    """Raises InvalidInput for a mode that is none."""
    said = reading.envelope.cache
    mode, ttl_seconds = (None, None) if said is None else (said.mode, said.ttl_seconds)
    headers: list[str] = []
    named: list[Mode] = []
    for name, value in scope["headers"]:
        if name == b"cache-control":
            headers.append(value.decode("latin-1"))
        elif name == CACHE_HEADER:
            named.append(_mode(value.decode("latin-1")))
    enabled = route.cache_seconds is not None
    return control(mode, ttl_seconds, headers, named=named, enabled=enabled, apply=apply)


def _mode(value: str) -> Mode:
    found = next((mode for mode in MODES if mode == value.strip().lower()), None)
    if found is None:
        raise InvalidInput([Violation(CACHE_HEADER.decode(), f"must be one of {', '.join(MODES)}")])
    return found


def caller(scope: Scope) -> str:
    """Who asks, as far as it matters to whom a reply belongs: by the key that came with the request, unreadably."""
    for name, value in scope["headers"]:
        if name == b"authorization":
            return hashlib.blake2b(value, digest_size=16, person=b"parley-caller").hexdigest()
    return "nobody"


async def _prepared_apart(
    gateway: Gateway, route: Route, request: ChatRequest, wanted: list[Wanted], warnings: list[str], asked: Asked
) -> Reply:
    """Media are gathered, and much is prepared in another thread, while the caller is watched and the stream may open;
    `warnings` grows by what follows."""
    media = await gateway.gather(wanted, asked.lease.take)
    prepared = await asyncio.to_thread(gateway.prepare, route, request, media)
    del request, wanted, media  # the wait for the model server may be long
    asked.lease.change(prepared.size)
    warnings += prepared.warnings
    return await gateway.reply(prepared, asked)


async def _held(opening: Opening, lease: Lease) -> Reply:
    """An open reply holds nothing of the request."""
    with lease:
        return await opening
