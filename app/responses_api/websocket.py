"""`GET /v1/responses` as a WebSocket: each `response.create` is a `POST /v1/responses`, and each event a frame.

The socket is a transport. A request passes the same endpoint, with the same rights and limits, and its stream is taken
apart into frames. Beside that, the socket remembers the last response of each stream, so that the next request can
continue it, whether or not responses are stored.
"""

import asyncio
import logging
import time
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeAlias

import msgspec

from app.api.asgi import Receive, Scope
from app.api.context import AppContext
from app.api.live_configuration import LiveConfiguration
from app.api.middleware import authenticate, make_request_id
from app.errors import (
    BadRequest,
    Busy,
    Draining,
    Internal,
    InvalidInput,
    ParleyError,
    SocketBusy,
    Unsupported,
    Violation,
    WebSocketDisabled,
    WebSocketTooOld,
)
from app.formats.base import choose_status
from app.formats.responses import RESPONSES
from app.responses_api.record import CONTINUABLE, ResponseRecord
from app.runtime.memory_budget import UNCOUNTED_BYTES, Lease

log = logging.getLogger("parley.websocket")

App: TypeAlias = Callable[[Any, Any, Any], Awaitable[None]]
Json = dict[str, Any]

MAX_STREAMS = 4
"""How many responses of one socket run at the same time."""
MAX_WAITING = 16
PATH = "/v1/responses"
_OF_THE_HANDSHAKE = frozenset(
    (b"connection", b"upgrade", b"content-type", b"content-length", b"content-encoding", b"transfer-encoding")
)
"""Headers that say nothing about the requests of a socket."""
_FRAME_FIELDS = ("type", "stream_id", "generate")


class SocketMemory:
    """The last response of each stream of one socket, and the memory that they take."""

    def __init__(self, lease: Lease, max_bytes: int) -> None:
        self._lease = lease
        self._max_bytes = max_bytes
        self._records: dict[str, tuple[ResponseRecord, int]] = {}
        self._is_closed = False

    def find(self, response_id: str) -> tuple[list[Any], int] | None:
        """Return the items of a response, and their bytes; None if it is not the last one of a stream."""
        kept = self._records.values()
        return next(((record.items, size) for record, size in kept if record.response["id"] == response_id), None)

    def put(self, stream_id: str, record: ResponseRecord) -> None:
        """Keep a response in place of the last one of its stream. One that has failed replaces nothing. Those that were
        kept first go if the gateway has no memory for all."""
        if self._is_closed or record.status not in CONTINUABLE:
            return
        size = len(msgspec.json.encode(record.items))
        self._drop(stream_id)
        if size > self._max_bytes:
            return
        while not self._take(size):
            if not self._records:
                return
            self._drop(next(iter(self._records)))
        self._records[stream_id] = record, size

    def close(self) -> None:
        """Forget all. A response may still end after its socket, and is not kept."""
        self._is_closed = True
        self._records.clear()
        self._lease.release()

    def _take(self, size: int) -> bool:
        try:
            self._lease.take(size)
        except Busy:
            return False
        return True

    def _drop(self, stream_id: str) -> None:
        if stream_id in self._records:
            _, size = self._records.pop(stream_id)
            self._lease.change(self._lease.held_bytes - size)


class SocketEndpoint:
    """Serves the sockets of one process. `create` answers requests, `warm_up` those that ask no model."""

    def __init__(self, context: AppContext, create: App, warm_up: App) -> None:
        self._context = context
        self._create = create
        self._warm_up = warm_up

    async def __call__(self, scope: Scope, receive: Receive, send: Any) -> None:
        context = self._context
        settings = context.settings.responses
        if not settings.websocket:
            raise WebSocketDisabled("responses are not sent over a WebSocket: use POST /v1/responses")
        if context.draining:
            raise Draining("this gateway is shutting down; connect again")
        if context.websockets >= settings.max_websockets:
            raise Busy("this gateway has reached its maximum number of sockets (responses.max_websockets)")
        context.websockets += 1
        memory = SocketMemory(context.budget.lease(), context.server.max_body_bytes)
        try:
            await receive()
            add_models_etag(context, context.live, scope)
            await send({"type": "websocket.accept", "headers": scope["state"]["response_headers"]})
            await _Socket(context, scope, send, memory, self._create, self._warm_up).run(receive)
        finally:
            memory.close()
            context.websockets -= 1


def add_models_etag(context: AppContext, live: LiveConfiguration, scope: Scope) -> None:
    """Tell Codex, which sends `originator`, which list of models is valid."""
    state = scope["state"]
    if b"originator" in state["headers"]:
        etag = context.agent_lists.find_etag(live, state["caller"])
        if etag is not None:
            state["response_headers"].append((b"x-models-etag", etag.encode()))


class _Request:
    """One frame that asks for a response."""

    def __init__(self, stream_id: str | None, body: bytes, *, generates: bool) -> None:
        self.stream_id = stream_id
        self.generates = generates
        self.body = body
        """Empty once the request is answered."""
        self.lease: Lease | None = None
        """The memory of the body while the request waits."""

    def take_body(self) -> bytes:
        """Return the body, whose memory the endpoint counts from now on."""
        body, self.body = self.body, b""
        self.release()
        return body

    def release(self) -> None:
        if self.lease is not None:
            self.lease.release()


class _Socket:
    def __init__(
        self, context: AppContext, scope: Scope, send: Any, memory: SocketMemory, create: App, warm_up: App
    ) -> None:
        self._context = context
        self._scope = scope
        self._send = send
        self._memory = memory
        self._create = create
        self._warm_up = warm_up
        self._ends_at = time.monotonic() + context.settings.responses.websocket_seconds
        self._gone = asyncio.Event()
        """The client has gone, or the socket is closed: nothing more is sent."""
        self._waiting: dict[str | None, deque[_Request]] = {}
        """The requests of each stream, of which the first is running if the stream is in `_running`."""
        self._running: dict[str | None, asyncio.Task[None]] = {}

    async def run(self, receive: Receive) -> None:
        """Read frames until the client has gone or the socket is closed."""
        loop = asyncio.get_running_loop()
        reading, gone = loop.create_task(self._read_all(receive)), loop.create_task(self._gone.wait())
        try:
            await asyncio.wait((reading, gone), return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._gone.set()
            reading.cancel()
            await asyncio.wait((reading, gone, *self._running.values()))
            for request in [request for queue in self._waiting.values() for request in queue]:
                request.release()
        if not reading.cancelled():
            reading.result()

    async def _read_all(self, receive: Receive) -> None:
        while True:
            message = await receive()
            if message["type"] == "websocket.disconnect":
                return
            if message["type"] == "parley.drain":  # of the gateway's own server
                await self._drain()
                return
            await self._read(message)

    async def _drain(self) -> None:
        """Let what runs end, and close."""
        for stream_id, queue in list(self._waiting.items()):
            while len(queue) > (stream_id in self._running):
                queue.pop().release()
            if not queue:
                del self._waiting[stream_id]
        if self._running:
            await asyncio.wait(list(self._running.values()))
        await self._close(1012)

    async def _read(self, message: Mapping[str, Any]) -> None:
        self._context.count_frame("in")
        text = message.get("text")
        if text is None:
            await self._close(1003)
            return
        stream_id: str | None = None
        try:
            data = _encode(text)
            if len(data) > self._context.server.max_body_bytes:
                await self._close(1009)
                return
            fields = _parse_frame(data)
            stream_id = _parse_stream_id(fields)
            kind = _parse_value(fields.get("type"))
            if kind == "response.processed":
                return
            _check_kind(kind)
            await self._accept(_make_request(fields, stream_id))
        except ParleyError as error:
            await self._send_error(error, stream_id)

    async def _accept(self, request: _Request) -> None:
        """Run a request, or let it wait. Raises ParleyError."""
        if sum(map(len, self._waiting.values())) >= MAX_WAITING + len(self._running):
            raise SocketBusy(f"more than {MAX_WAITING} requests of this socket wait: wait for a response first")
        if not self._running and time.monotonic() >= self._ends_at:
            await self._send_error(WebSocketTooOld("this socket is too old: open another one"), request.stream_id)
            await self._close(1000)
            return
        if self._context.draining:
            await self._send_error(Draining("this gateway is shutting down; connect again"), request.stream_id)
            if not self._running:  # else the server says when it must end
                await self._close(1012)
            return
        if len(request.body) > UNCOUNTED_BYTES:
            request.lease = self._context.budget.lease()
            request.lease.take(len(request.body))
        self._waiting.setdefault(request.stream_id, deque()).append(request)
        self._start_next()

    def _start_next(self) -> None:
        for stream_id, queue in list(self._waiting.items()):
            if (
                queue
                and stream_id not in self._running
                and len(self._running) < MAX_STREAMS
                and not self._gone.is_set()
            ):
                self._running[stream_id] = asyncio.get_running_loop().create_task(self._run(stream_id, queue[0]))

    async def _run(self, stream_id: str | None, request: _Request) -> None:
        try:
            await self._answer(request)
        except Exception:
            log.exception("defect while answering a request of a socket")
            await self._send_error(Internal("the gateway failed"), stream_id)
        finally:
            queue = self._waiting[stream_id]
            queue.popleft().release()
            if not queue:
                del self._waiting[stream_id]
            del self._running[stream_id]
            self._start_next()

    async def _answer(self, request: _Request) -> None:
        scope = self._make_scope(request)
        try:
            await authenticate(scope, self._context.live.rules.keys)
        except ParleyError as error:
            await self._send_error(error, request.stream_id)
            await self._close(1008)
            return
        reply = _Frames(self, request)
        await (self._create if request.generates else self._warm_up)(scope, reply.receive, reply.send)
        if not reply.has_ended:  # the client read too slowly, and gets no more of this socket
            self._gone.set()

    def _make_scope(self, request: _Request) -> Scope:
        own = self._scope["state"]
        headers = [line for line in self._scope["headers"] if line[0] not in _OF_THE_HANDSHAKE]
        state = {
            **{name: value for name, value in own.items() if name != "traceparent"},
            "request_id": make_request_id(),
            "headers": dict(headers),
            "response_headers": [],
            "writer": None,
            "transport": "websocket",
            "socket": (self._memory, request.stream_id or ""),
        }
        return {
            **self._scope,
            "type": "http",
            "method": "POST",
            "path": PATH,
            "raw_path": PATH.encode(),
            "query_string": b"",
            "headers": headers,
            "extensions": {},
            "state": state,
        }

    async def wait_until_gone(self) -> None:
        await self._gone.wait()

    async def send_text(self, text: str) -> None:
        self._context.count_frame("out")
        await self._put({"type": "websocket.send", "text": text})

    async def _put(self, message: Json) -> None:
        """Send a message. A server raises one of these errors if the client has gone, or it has closed the socket
        itself."""
        if self._gone.is_set():
            return
        try:
            await self._send(message)
        except (OSError, RuntimeError):
            self._gone.set()

    async def _send_error(self, error: ParleyError, stream_id: str | None) -> None:
        status = choose_status(RESPONSES.error, error)
        body = RESPONSES.error(error.to_dict(make_request_id()))
        await self.send_text(write_error_frame(status, body, error.headers, stream_id))

    async def _close(self, code: int) -> None:
        await self._put({"type": "websocket.close", "code": code})
        self._gone.set()


class _Frames:
    """The ASGI functions of one request: what the endpoint sends becomes frames."""

    def __init__(self, socket: _Socket, request: _Request) -> None:
        self._socket = socket
        self._request = request
        self._stream_id = request.stream_id
        self.has_ended = False
        """Everything of the response was sent."""
        self._status = 0
        self._headers: dict[str, str] = {}
        self._streams = False
        self._left_out = 0
        """How many events of the stream are no frames."""
        self._buffer = b""

    async def receive(self) -> Json:
        if self._request.body:
            return {"type": "http.request", "body": self._request.take_body(), "more_body": False}
        await self._socket.wait_until_gone()
        return {"type": "http.disconnect"}

    async def send(self, message: Json) -> None:
        if message["type"] == "http.response.start":
            self._status = message["status"]
            self._headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in message["headers"]}
            self._streams = self._headers.get("content-type", "").startswith("text/event-stream")
            return
        self._buffer += message.get("body", b"")
        if self._streams:
            *events, self._buffer = self._buffer.split(b"\n\n")
            for event in events:
                text = _find_data(event)
                if _is_error(event):
                    self._left_out += 1
                elif text is not None:
                    await self._socket.send_text(_add_stream_id(self._count(text), self._stream_id))
        elif not message.get("more_body"):
            body = msgspec.json.decode(self._buffer)
            await self._socket.send_text(write_error_frame(self._status, body, self._headers, self._stream_id))
        self.has_ended = not message.get("more_body", False)

    def _count(self, text: str) -> str:
        """Number the frames behind one that was left out without a gap."""
        if not self._left_out:
            return text
        frame = msgspec.json.decode(text)
        frame["sequence_number"] -= self._left_out
        return msgspec.json.encode(frame).decode()


def _is_error(event: bytes) -> bool:
    """Whether it is an event `error`, which has no status in a stream: `response.failed` follows it."""
    return event.startswith(b"event: error\n")


def _find_data(event: bytes) -> str | None:
    """Return the data of an event of a stream; None for a comment."""
    for line in event.split(b"\n"):
        if line.startswith(b"data: {"):
            return line[6:].rstrip().decode()
    return None


def _add_stream_id(text: str, stream_id: str | None) -> str:
    if stream_id is None:
        return text
    return f'{text[:-1]},"stream_id":{msgspec.json.encode(stream_id).decode()}}}'


def write_error_frame(status: int, body: Mapping[str, Any], headers: Mapping[str, str], stream_id: str | None) -> str:
    """Return the frame of an error. Codex waits for its idle limit after one without a status."""
    frame: Json = {"type": "error", "status": status, "error": body["error"]}
    if "retry-after" in headers:
        frame["headers"] = {"retry-after": headers["retry-after"]}
    if stream_id is not None:
        frame["stream_id"] = stream_id
    return msgspec.json.encode(frame).decode()


def _encode(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise BadRequest(f"the frame is not UTF-8: {error}") from None


def _parse_frame(data: bytes) -> dict[str, msgspec.Raw]:
    try:
        return msgspec.json.decode(data, type=dict[str, msgspec.Raw])
    except (msgspec.DecodeError, RecursionError) as error:
        raise BadRequest(f"the frame is not a JSON object: {error}") from None


def _parse_value(raw: msgspec.Raw | None) -> Any:
    """Return a value of a frame, of which only the end was looked for. Raises BadRequest."""
    try:
        return None if raw is None else msgspec.json.decode(raw)
    except (ValueError, RecursionError) as error:
        raise BadRequest(f"the frame has a value that cannot be read: {error}") from None


def _parse_stream_id(fields: Mapping[str, msgspec.Raw]) -> str | None:
    stream_id = _parse_value(fields.get("stream_id"))
    if stream_id is not None and not (isinstance(stream_id, str) and 0 < len(stream_id) <= 256):
        raise InvalidInput([Violation("stream_id", "must be a string of 1 to 256 characters")])
    return stream_id


def _check_kind(kind: Any) -> None:
    if kind == "response.steer":
        raise Unsupported("response.steer is not supported: send another response.create", "type")
    if kind != "response.create":
        raise InvalidInput([Violation("type", "must be response.create")])


def _make_request(fields: Mapping[str, msgspec.Raw], stream_id: str | None) -> _Request:
    generate, background = _parse_value(fields.get("generate")), _parse_value(fields.get("background"))
    if generate not in (None, True, False) or not isinstance(generate, bool | None):
        raise InvalidInput([Violation("generate", "must be true or false")])
    if background is True:
        raise InvalidInput([Violation("background", "is not possible in a socket: use POST /v1/responses")])
    body = {name: value for name, value in fields.items() if name not in _FRAME_FIELDS}
    body["stream"] = msgspec.Raw(b"true")
    return _Request(stream_id, msgspec.json.encode(body), generates=generate is not False)
