"""`POST /v1/chat`: read the request, have it prepared, and deliver the reply.

A plain ASGI callable: what FastAPI does around an endpoint costs more than everything that happens here.
"""

import asyncio
import time
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from app.api.body import CallerGone, Receive, Scope, read_body
from app.api.delivery import Delivery
from app.api.envelope import Limits, Reading, read
from app.api.problems import send_error
from app.chat.messages import ChatRequest
from app.errors import Busy, CacheMiss, ParleyError
from app.formats.base import ReplyInfo
from app.gateway import Gateway, Route, new_reply_id
from app.observe.logs import RequestLog
from app.pulse import Pulse
from app.settings import Server
from app.steps.media import Wanted
from app.upstream.reply import LiveReply

Send: TypeAlias = Callable[[dict[str, Any]], Any]
Opening: TypeAlias = Coroutine[Any, Any, LiveReply]

HANG_UP = "parley.hang_up"
"""The ASGI extension by which our server lets a connection be dropped whose client reads nothing."""


@dataclass(slots=True)
class Desk:
    """What all requests of one process share."""

    gateway: Gateway
    server: Server
    pulse: Pulse
    draining: bool = False
    active: set[Delivery] = field(default_factory=set)
    busy: int = 0

    @contextmanager
    def seat(self) -> Iterator[None]:
        """A request that is served. Raises Busy where as many are as may be."""
        if self.busy >= self.server.max_concurrent_requests:
            raise Busy("this gateway serves as many requests as it may")
        self.busy += 1
        try:
            yield
        finally:
            self.busy -= 1


class ChatEndpoint:
    """`read` makes a request of a body; `face` is its name in the logs."""

    def __init__(
        self, desk: Desk, read: Callable[[bytes | bytearray, Limits], Reading] = read, face: str = "chat"
    ) -> None:
        self._desk = desk
        self._read = read
        self._face = face
        self._limits = Limits(**desk.server.model_dump(include=set(Limits.model_fields)))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request_id: str = scope["state"]["request_id"]
        entry = RequestLog(request_id, self._face)
        try:
            await self._serve(scope, receive, send, request_id, entry)
        except CallerGone:
            entry.gone()
        except ParleyError as error:
            entry.failed(error)
            await send_error(send, error, request_id)
        finally:
            entry.write()

    async def _serve(self, scope: Scope, receive: Receive, send: Send, request_id: str, entry: RequestLog) -> None:
        """What was read is not held while the reply comes. Who is still sending takes nobody's seat."""
        server = self._desk.server
        raw = await read_body(scope, receive, server.max_body_bytes, server.body_seconds)
        with self._desk.seat():
            reading = self._read(raw, self._limits)
            del raw
            hang_up = scope.get("extensions", {}).get(HANG_UP, {}).get("call")
            try:
                delivery, opening = self._prepared(reading, send, hang_up, request_id, entry)
            except ParleyError as error:
                error.shape = reading.reply_format.error
                raise
            del reading
            await self._deliver(delivery, opening, receive)
            entry.delivered(delivery)

    def _prepared(
        self, reading: Reading, send: Send, hang_up: Callable[[], None] | None, request_id: str, entry: RequestLog
    ) -> tuple[Delivery, Opening]:
        """Everything that can be refused before a byte goes out."""
        gateway = self._desk.gateway
        envelope = reading.envelope
        route = gateway.route(envelope.model)
        if envelope.cache is not None and envelope.cache.mode == "only":
            raise CacheMiss("no reply is cached")
        warnings = list(reading.warnings)
        reply_id = new_reply_id()
        wanted = gateway.wanted(route, reading.request)
        if wanted:
            opening = _gathered(gateway, route, reading.request, wanted, warnings, reply_id)
        else:
            prepared = gateway.prepare(route, reading.request)
            warnings += prepared.warnings
            opening = gateway.open(prepared, reply_id)
        entry.request(route.model, envelope.stream, envelope.metadata)
        info = ReplyInfo(
            response_id=reply_id,
            request_id=request_id,
            model=route.model,
            created=int(time.time()),
            warnings=warnings,
            completed_bodies=envelope.completed_bodies,
            options=envelope.options,
            include_usage=envelope.include_usage,
        )
        return self._delivery(send, hang_up, reading, info), opening

    def _delivery(self, send: Send, hang_up: Callable[[], None] | None, reading: Reading, info: ReplyInfo) -> Delivery:
        server = self._desk.server
        return Delivery(
            send,
            reading.reply_format.encoder(info, reading.envelope.mode),
            info.request_id,
            stream=reading.envelope.stream,
            heartbeat_seconds=server.heartbeat_seconds,
            commit_seconds=server.commit_seconds,
            stall_seconds=server.stall_seconds,
            refusal=reading.reply_format.error,
            hang_up=hang_up,
        )

    async def _deliver(self, delivery: Delivery, opening: Opening, receive: Receive) -> None:
        """Whoever opens closes: all of it ends here, on end, error, cancel and when the caller leaves."""
        desk = self._desk
        desk.pulse.add(delivery)
        desk.active.add(delivery)
        watcher = asyncio.get_running_loop().create_task(_left(receive))
        watcher.add_done_callback(lambda _: delivery.leave())
        try:
            await _opened(delivery, opening)
            await delivery.done
        finally:
            desk.pulse.discard(delivery)
            desk.active.discard(delivery)
            delivery.leave()
            watcher.cancel()


async def _gathered(
    gateway: Gateway, route: Route, request: ChatRequest, wanted: list[Wanted], warnings: list[str], reply_id: str
) -> LiveReply:
    """Media are gathered while the caller is watched and the stream may open; `warnings` grows by what follows."""
    prepared = gateway.prepare(route, request, await gateway.gather(wanted))
    warnings += prepared.warnings
    return await gateway.open(prepared, reply_id)


async def _opened(delivery: Delivery, opening: Opening) -> None:
    """Start the delivery as soon as the reply is open. A delivery that is done before then cancels the wait."""
    task = asyncio.current_task()
    assert task is not None
    waiting, given_up = True, False

    def give_up(_: object) -> None:
        nonlocal given_up
        if waiting:
            given_up = True
            task.cancel()

    delivery.done.add_done_callback(give_up)
    try:
        reply = await opening
    except ParleyError as error:
        waiting = False
        delivery.fail(error)
    except Exception as error:
        waiting = False
        delivery.on_crash(error)
    except asyncio.CancelledError:
        waiting = False
        if not given_up or task.uncancel() > 0:
            raise
    else:
        waiting = False
        delivery.start(reply)
    finally:
        delivery.done.remove_done_callback(give_up)


async def _left(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
