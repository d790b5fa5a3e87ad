"""`POST /v1/chat`: read the request, have it prepared, and deliver the reply.

A plain ASGI callable: what FastAPI does around an endpoint costs more than everything that happens here.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from app.api.delivery import Delivery
from app.api.envelope import Limits, Reading, read
from app.api.problems import send_error
from app.errors import BadRequest, Busy, CacheMiss, ParleyError, TooLarge
from app.formats.base import ReplyInfo
from app.gateway import Gateway, Prepared, new_reply_id
from app.observe.logs import RequestLog
from app.pulse import Pulse
from app.settings import Server

Scope: TypeAlias = dict[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[dict[str, Any]]]
Send: TypeAlias = Callable[[dict[str, Any]], Any]


class CallerGone(Exception):
    """The caller left while it was being read."""


@dataclass(slots=True)
class Desk:
    """What all requests of one process share."""

    gateway: Gateway
    server: Server
    pulse: Pulse
    draining: bool = False
    active: set[Delivery] = field(default_factory=set)
    busy: int = 0


class ChatEndpoint:
    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        server = desk.server
        self._limits = Limits(max_messages=server.max_messages, max_nesting=server.max_nesting)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request_id: str = scope["state"]["request_id"]
        entry = RequestLog(request_id, "chat")
        desk = self._desk
        desk.busy += 1
        try:
            if desk.busy > desk.server.max_concurrent_requests:
                raise Busy("this gateway serves as many requests as it may")
            await self._serve(scope, receive, send, request_id, entry)
        except CallerGone:
            entry.gone()
        except ParleyError as error:
            entry.failed(error)
            await send_error(send, error, request_id)
        finally:
            desk.busy -= 1
            entry.write()

    async def _serve(self, scope: Scope, receive: Receive, send: Send, request_id: str, entry: RequestLog) -> None:
        raw = await read_body(scope, receive, self._desk.server.max_body_bytes)
        reading = read(raw, self._limits)
        del raw
        envelope = reading.envelope
        route = self._desk.gateway.route(envelope.model)
        if envelope.cache is not None and envelope.cache.mode == "only":
            raise CacheMiss("no reply is cached")
        prepared = self._desk.gateway.prepare(route, reading.request)
        entry.request(route.model, envelope.stream, envelope.metadata)
        info = ReplyInfo(
            response_id=new_reply_id(),
            request_id=request_id,
            model=route.model,
            created=int(time.time()),
            warnings=(*reading.warnings, *prepared.warnings),
            completed_bodies=envelope.completed_bodies,
        )
        delivery = self._delivery(send, reading, info)
        del reading
        await self._deliver(delivery, prepared, info.response_id, receive)
        entry.delivered(delivery)

    def _delivery(self, send: Send, reading: Reading, info: ReplyInfo) -> Delivery:
        server = self._desk.server
        return Delivery(
            send,
            reading.reply_format.encoder(info, reading.envelope.mode),
            info.request_id,
            stream=reading.envelope.stream,
            heartbeat_seconds=server.heartbeat_seconds,
            commit_seconds=server.commit_seconds,
            stall_seconds=server.stall_seconds,
        )

    async def _deliver(self, delivery: Delivery, prepared: Prepared, reply_id: str, receive: Receive) -> None:
        """Whoever opens closes: all of it ends here, on end, error, cancel and when the caller leaves."""
        desk = self._desk
        desk.pulse.add(delivery)
        desk.active.add(delivery)
        opening = asyncio.current_task()
        watcher = asyncio.get_running_loop().create_task(_left(receive))

        def leave(_: object) -> None:
            if not delivery.finished:
                delivery.leave()
                if opening is not None and not delivery.opened:
                    opening.cancel()

        watcher.add_done_callback(leave)
        try:
            await self._open(delivery, prepared, reply_id)
            await delivery.done
        except asyncio.CancelledError:
            if not delivery.gone or opening is None or opening.uncancel() > 0:
                raise
        finally:
            desk.pulse.discard(delivery)
            desk.active.discard(delivery)
            if not delivery.finished:
                delivery.leave()
            watcher.remove_done_callback(leave)
            watcher.cancel()

    async def _open(self, delivery: Delivery, prepared: Prepared, reply_id: str) -> None:
        try:
            reply = await self._desk.gateway.open(prepared, reply_id)
        except ParleyError as error:
            delivery.opened = True
            delivery.fail(error)
        except Exception as error:
            delivery.opened = True
            delivery.on_crash(error)
        else:
            delivery.opened = True
            delivery.start(reply)


async def _left(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def read_body(scope: Scope, receive: Receive, max_bytes: int) -> bytes | bytearray:
    """The request's body. Raises TooLarge before reading what is announced as too long."""
    for name, value in scope["headers"]:
        if name == b"content-length" and value.isdigit() and int(value) > max_bytes:
            raise TooLarge(f"the body has more than {max_bytes} bytes")
        if name == b"content-encoding" and value.lower() != b"identity":
            raise BadRequest("a body must not be compressed")
    message = await receive()
    body: bytes | bytearray = message.get("body", b"")
    if message["type"] == "http.request" and message.get("more_body"):
        body = bytearray(body)
        while message.get("more_body"):
            message = await receive()
            body += message.get("body", b"")
            if len(body) > max_bytes:
                raise TooLarge(f"the body has more than {max_bytes} bytes")
    if message["type"] == "http.disconnect":
        raise CallerGone
    if len(body) > max_bytes:
        raise TooLarge(f"the body has more than {max_bytes} bytes")
    return body
