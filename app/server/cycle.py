"""`ClientCycle`: one request of a client's connection, and its response.

It has what an ASGI application needs, `receive` and `send`, and is the writer that `app/api/response_writer.py`
describes, with which the endpoints for replies write: the head goes out with the first bytes of the body, nothing is
awaited, and no task waits for the client to disconnect.

It has no base class, so that it can be compiled: it writes every chunk of every stream.
"""

import asyncio
import logging
import re
from http import HTTPStatus
from typing import Any, Protocol

from uvicorn.server import ServerState

from app.api.response_writer import Headers, Scope, Sender
from app.runtime.pieces import Pieces

log = logging.getLogger("parley.connection")

_INVALID_NAME = re.compile(rb"[\x00-\x1f\x7f()<>@,;:\[\]={} \t\\\"]")
_INVALID_VALUE = re.compile(rb"[\x00-\x08\x0a-\x1f\x7f]")
_PHRASES = {status.value: status.phrase for status in HTTPStatus}
STATUS_LINES = {status: f"HTTP/1.1 {status} {_PHRASES.get(status, '')}\r\n".encode() for status in range(100, 600)}
_NO_BODY = frozenset((204, 304))
"""Responses that end with their head."""
_HEAD_START = b"HTTP/1.1 "
"""The first bytes of every response."""
_COMMENT = b":\n\n"
"""What clients of an event stream ignore."""


def _join_lines(headers: Headers) -> bytes:
    return b"\r\n".join([*map(b": ".join, headers), b""])


class _DefaultLines:
    """The headers of every response as bytes. uvicorn makes them again each second, because the date is one of them."""

    def __init__(self) -> None:
        self._headers: Headers = ()
        self._lines = b""

    def join(self, headers: Headers) -> bytes:
        if headers is not self._headers:
            self._headers, self._lines = headers, _join_lines(headers)
        return self._lines


_default_lines = _DefaultLines()


class FlowControl:
    """Pauses reading from a connection, and knows whether its transport wants to write more."""

    def __init__(self, transport: asyncio.Transport) -> None:
        self.read_paused = False
        self.write_paused = False
        self._transport = transport
        self._writable = asyncio.Event()
        self._writable.set()

    async def drain(self) -> None:
        """Wait until the client has read enough."""
        await self._writable.wait()

    def pause_reading(self) -> None:
        if not self.read_paused:
            self.read_paused = True
            self._transport.pause_reading()

    def resume_reading(self) -> None:
        if self.read_paused:
            self.read_paused = False
            self._transport.resume_reading()

    def pause_writing(self) -> None:
        self.write_paused = True
        self._writable.clear()

    def resume_writing(self) -> None:
        self.write_paused = False
        self._writable.set()


class Connection(Protocol):
    """The connection of the client."""

    loop: asyncio.AbstractEventLoop
    transport: asyncio.Transport
    flow: FlowControl
    server_state: ServerState
    expect_100_continue: bool

    def drop(self) -> None:
        """Close it at once."""

    def close_after_body(self) -> None:
        """Close it when the rest of the request's body has come, which is not read."""

    def on_response_complete(self) -> None: ...


class ClientCycle:
    def __init__(self, connection: Connection, scope: Scope, *, keep_alive: bool) -> None:
        self.scope = scope
        self.keep_alive = keep_alive
        """The connection stays open after the response."""
        self.body = Pieces()
        """What has been received of the request's body, and not been taken."""
        self.more_body = True
        self.message_event: asyncio.Event | None = None
        """Set when more of the body has come, or the client has disconnected. None: nothing has waited for that."""
        self.disconnected = False
        self.response_started = False
        self.response_complete = False
        self.extra_headers: Headers = ()
        self.blocked = False
        self.blocked_since = 0.0
        self.notices_disconnect = True
        self._connection = connection
        self._transport = connection.transport
        self._flow = connection.flow
        self._default_headers: Headers = connection.server_state.default_headers
        self._expects_100_continue = connection.expect_100_continue
        self._chunked = False
        self._missing = 0
        """How many bytes the body lacks of its content-length."""
        self._sender: Sender | None = None
        self._head = b""
        """The part of the head that has not been sent."""
        self._headers: Headers = ()
        """The headers of the response."""
        self._probe_bytes = 0
        """How many bytes of `_HEAD_START` were sent before the head was known."""

    # The writer.

    def attach(self, sender: Sender) -> None:
        self._sender = sender
        if self.disconnected:
            sender.disconnect()

    def detach(self) -> None:
        self._sender = None

    def abort(self) -> None:
        self._connection.drop()

    def cut(self) -> None:
        if not self.disconnected and not self.response_complete:
            self.keep_alive = False
            self._complete()

    def start(self, status: int, headers: Headers, length: int | None = None) -> None:
        """A response whose length is unknown is sent in chunks, or in HTTP/1.0 until the connection closes."""
        self.response_started = True
        end = b""
        if length is not None:
            end = b"content-length: %d\r\n" % length
        elif self.scope["http_version"] != "1.0":
            self._chunked = True
            end = b"transfer-encoding: chunked\r\n"
        self._head = self._make_head(status, (*headers, *self.extra_headers), end)

    def _make_head(self, status: int, headers: Headers, end: bytes) -> bytes:
        """`end` holds the lines of further headers."""
        close = b"\r\n" if self.keep_alive else b"connection: close\r\n\r\n"
        self._headers = headers
        lines = (STATUS_LINES[status], _default_lines.join(self._default_headers), _join_lines(headers), end, close)
        head = b"".join(lines)
        return head[self._probe_bytes :] if self._probe_bytes else head

    def take_body(self) -> bytes | None:
        """Return the body of the request if it has arrived whole; None if it must be received."""
        if self.more_body or self.disconnected:
            return None
        if self._flow.read_paused:  # because this request had to wait for the response before it
            self._flow.resume_reading()
        return self.body.take()

    def write(self, data: bytes, *, last: bool) -> None:
        if self.disconnected:
            return
        head = self._head
        if head:
            self._head = b""
        if self._chunked:
            data = _make_chunk(data, last, head)
        elif head:
            data = head + data
        self._transport.write(data)
        if last:
            self._complete()
        elif self._flow.write_paused and not self.blocked:
            self.blocked, self.blocked_since = True, self._connection.loop.time()
            if self._sender is not None:
                self._sender.on_blocked()

    def _complete(self) -> None:
        self.response_complete = True
        if self.message_event is not None:
            self.message_event.set()
        if self.more_body and not self.keep_alive:
            self._connection.close_after_body()
        elif not self.keep_alive:
            self._transport.close()
        self._connection.on_response_complete()

    # ASGI.

    async def receive(self) -> dict[str, Any]:
        """Return the next part of the body, or `http.disconnect` once the response is complete or the client left."""
        event = self.message_event
        if event is None:
            event = self.message_event = asyncio.Event()
            if self.body.size or not self.more_body:
                event.set()
        if self._expects_100_continue and not self._transport.is_closing():
            self._transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
            self._expects_100_continue = False
        if not self.disconnected and not self.response_complete:
            self._flow.resume_reading()
            await event.wait()
            event.clear()
        if self.disconnected or self.response_complete:
            return {"type": "http.disconnect"}
        return {"type": "http.request", "body": self.body.take(), "more_body": self.more_body}

    async def send(self, message: dict[str, Any]) -> None:
        """Raises RuntimeError for a message that may not come now, and for what cannot be sent."""
        if self._flow.write_paused and not self.disconnected:
            await self._flow.drain()
        if self.disconnected:
            return
        kind = message["type"]
        if self.response_complete:
            raise RuntimeError(f"the ASGI message {kind!r} was sent after the end of the response")
        expected = "http.response.body" if self.response_started else "http.response.start"
        if kind != expected:
            raise RuntimeError(f"the ASGI message {kind!r} was sent where {expected!r} is expected")
        if self.response_started:
            self._send_body(message.get("body", b""), last=not message.get("more_body", False))
        else:
            self._send_head(message["status"], message.get("headers", ()))

    def _send_head(self, status: int, headers: Any) -> None:
        """`headers` are pairs, tuples or lists."""
        sent: list[tuple[bytes, bytes]] = []
        length, chunked = 0, False
        for name, value in headers:
            if _INVALID_NAME.search(name) or _INVALID_VALUE.search(value):
                raise RuntimeError(f"a header cannot be sent: {name!r}")
            name = name.lower()
            if name == b"connection" and b"close" in [token.strip() for token in value.lower().split(b",")]:
                self.keep_alive = False
                continue
            if name == b"transfer-encoding" and value.lower() == b"chunked":
                chunked = True
            elif name == b"content-length":
                length = int(value)
            sent.append((name, value))
        if not chunked and self._has_body(status) and not any(name == b"content-length" for name, _ in sent):
            chunked = True
            sent.append((b"transfer-encoding", b"chunked"))
        self.response_started = True
        self._expects_100_continue = False
        self._chunked, self._missing = chunked, 0 if chunked else length
        self._transport.write(self._make_head(status, sent, b""))

    def _has_body(self, status: int) -> bool:
        return self.scope["method"] != "HEAD" and status not in _NO_BODY

    def _send_body(self, data: bytes, *, last: bool) -> None:
        if self.scope["method"] == "HEAD":
            self._missing = 0
        elif self._chunked:
            self._transport.write(_make_chunk(data, last))
        else:
            self._missing -= len(data)
            if self._missing < 0:
                raise RuntimeError("the body of a response is longer than its content-length")
            self._transport.write(data)
        if last:
            if self._missing:
                raise RuntimeError("the body of a response is shorter than its content-length")
            self._complete()

    # The connection calls these methods.

    def probe(self) -> None:
        """Send something that changes nothing for the client: the next byte of the response's head, or a comment of its
        event stream. If the client is gone, its system answers with a reset."""
        self._expects_100_continue = False  # the body has come, and these bytes begin the response
        if self._head:
            self._transport.write(self._head[:1])
            self._head = self._head[1:]
        elif not self.response_started:
            self._transport.write(_HEAD_START[self._probe_bytes : self._probe_bytes + 1])
            self._probe_bytes = min(self._probe_bytes + 1, len(_HEAD_START))
        elif not self.response_complete and self._sends_events():
            self._transport.write(_make_chunk(_COMMENT, last=False) if self._chunked else _COMMENT)

    def _sends_events(self) -> bool:
        return any(
            name.lower() == b"content-type" and value.startswith(b"text/event-stream") for name, value in self._headers
        )

    def on_writable(self) -> None:
        """Called when the client has read enough, so that more can be sent."""
        if self.blocked:
            self.blocked = False
            if self._sender is not None:
                self._sender.on_clear()

    def on_disconnect(self) -> None:
        """Called when the client has disconnected, or when the gateway closes the connection."""
        self.disconnected = self.disconnected or not self.response_complete
        if self.message_event is not None:
            self.message_event.set()
        if self._sender is not None:
            self._sender.disconnect()

    def on_served(self, task: "asyncio.Task[None]") -> None:
        """Called when the application has returned. A response that it did not complete ends here."""
        self._connection.server_state.tasks.discard(task)
        # They hold this cycle, which would wait for the garbage collector.
        self.scope.pop("extensions", None)
        self.scope["state"].pop("writer", None)
        error = asyncio.CancelledError() if task.cancelled() else task.exception()
        if error is None and (self.response_complete or self.disconnected):
            return
        log.error("an endpoint ended without completing its response", exc_info=error)
        if self.response_started:
            self._transport.close()
        else:
            self.keep_alive = False
            self.start(500, ((b"content-type", b"text/plain; charset=utf-8"),), len(_DEFECT))
            self.write(_DEFECT, last=True)


def _make_chunk(data: bytes, last: bool, head: bytes = b"") -> bytes:
    """Return data in HTTP's chunked encoding, after `head`. `last` ends the body."""
    end = b"0\r\n\r\n" if last else b""
    return b"".join((head, b"%x\r\n" % len(data), data, b"\r\n", end) if data else (head, end))


_DEFECT = b"Internal Server Error"
