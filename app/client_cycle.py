"""`ClientCycle`: one request of a client's connection and its response, with what its endpoint needs to write it."""

import asyncio
from collections.abc import Callable
from typing import Any

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle

from app.api.response_writer import Headers, Sender


def _join_lines(headers: Headers) -> bytes:
    return b"\r\n".join([*map(b": ".join, headers), b""])


class _DefaultLines:
    """The headers of every response as bytes. uvicorn makes them anew each second, because the date is one of them."""

    def __init__(self) -> None:
        self._headers: Headers = ()
        self._lines = b""

    def join(self, headers: Headers) -> bytes:
        if headers is not self._headers:
            self._headers, self._lines = headers, _join_lines(headers)
        return self._lines


_default_lines = _DefaultLines()


class _UnusedEvent:
    """Replaces the event that wakes a request which waits for its body, where none waits."""

    def set(self) -> None: ...


_UNUSED_EVENT = _UnusedEvent()


class ClientCycle(RequestResponseCycle):
    """One request and its response. It is also the writer that `app/api/response_writer.py` describes: the head goes
    out with the first bytes of the body, nothing is awaited, and no task waits for the client to disconnect."""

    notices_disconnect = True

    access_log = False
    body: bytearray
    blocked = False
    blocked_since = 0.0
    chunked_encoding = None
    disconnected = False
    expected_content_length = 0
    extra_headers: Headers = ()
    message_event: Any = _UNUSED_EVENT
    more_body = True
    response_complete = False
    response_started = False
    _sender: Sender | None = None
    _head = b""
    """The part of the head that has not been sent."""

    def __init__(self, connection: HttpToolsProtocol, drop: Callable[[], None], *, keep_alive: bool) -> None:
        """`drop` closes the connection at once.

        This sets what uvicorn's constructor sets. That takes twelve arguments, one of them an event that `receive`
        alone needs."""
        self.scope = connection.scope
        self.transport = connection.transport
        self.flow = connection.flow
        self.logger = connection.logger
        self.default_headers = connection.server_state.default_headers
        self.on_response = connection.on_response_complete
        self.keep_alive = keep_alive
        self.waiting_for_100_continue = connection.expect_100_continue
        self.abort = drop
        self.body = bytearray()
        self._loop = connection.loop
        self._tasks = connection.tasks

    async def receive(self) -> Any:
        if self.message_event is _UNUSED_EVENT:
            self.message_event = asyncio.Event()
            if self.body or not self.more_body:
                self.message_event.set()
        return await super().receive()

    def attach(self, sender: Sender) -> None:
        self._sender = sender
        if self.disconnected:
            sender.disconnect()

    def detach(self) -> None:
        self._sender = None

    def start(self, status: int, headers: Headers, length: int | None = None) -> None:
        """A response whose length is unknown is sent in chunks, or in HTTP/1.0 until the connection closes."""
        self.response_started = True
        end = b""
        if length is not None:
            end = b"content-length: %d\r\n" % length
        elif self.scope["http_version"] != "1.0":
            self.chunked_encoding = True
            end = b"transfer-encoding: chunked\r\n"
        if not self.keep_alive:
            end += b"connection: close\r\n"
        self._head = b"".join(
            (
                STATUS_LINE[status],
                _default_lines.join(self.default_headers),
                _join_lines((*headers, *self.extra_headers)),
                end,
                b"\r\n",
            )
        )

    def take_body(self) -> bytes | None:
        """Return the body of the request if it has arrived whole; None if it must be received."""
        if self.more_body or self.disconnected:
            return None
        if self.flow.read_paused:  # because this request had to wait for the response before it
            self.flow.resume_reading()
        body, self.body = self.body, bytearray()
        return bytes(body)

    def write(self, data: bytes, *, last: bool) -> None:
        if self.disconnected:
            return
        head = self._head
        if head:
            self._head = b""
        if self.chunked_encoding:
            end = b"0\r\n\r\n" if last else b""
            data = b"".join((head, b"%x\r\n" % len(data), data, b"\r\n", end) if data else (head, end))
        elif head:
            data = head + data
        self.transport.write(data)
        if last:
            self._complete()
        elif self.flow.write_paused and not self.blocked:
            self.blocked, self.blocked_since = True, self._loop.time()
            if self._sender is not None:
                self._sender.on_blocked()

    def _complete(self) -> None:
        self.response_complete = True
        self.message_event.set()
        if not self.keep_alive:
            self.transport.close()
        self.on_response()

    def on_writable(self) -> None:
        """Called when the client has read enough, so that more can be sent."""
        if self.blocked:
            self.blocked = False
            if self._sender is not None:
                self._sender.on_clear()

    def on_disconnect(self) -> None:
        """Called when the client has disconnected, or when the gateway closes the connection."""
        self.disconnected = self.disconnected or not self.response_complete
        self.message_event.set()
        if self._sender is not None:
            self._sender.disconnect()

    async def run_asgi(self, app: Any) -> None:
        try:
            await super().run_asgi(app)
        finally:
            self._release()

    def _release(self) -> None:
        # They hold this cycle, which would wait for the garbage collector.
        self.scope.pop("extensions", None)
        self.scope["state"].pop("writer", None)

    def on_served(self, task: asyncio.Task[None]) -> None:
        """Called when an endpoint that was called without `run_asgi` has ended: does what that does at the end."""
        self._tasks.discard(task)
        self._release()
        self.on_response = _ignore
        error = asyncio.CancelledError() if task.cancelled() else task.exception()
        if error is None and (self.response_complete or self.disconnected):
            return
        self.logger.error("an endpoint ended without completing its response", exc_info=error)
        if self.response_started:
            self.transport.close()
        else:
            self.keep_alive = False
            self.start(500, ((b"content-type", b"text/plain; charset=utf-8"),), len(_DEFECT))
            self.write(_DEFECT, last=True)


def _ignore() -> None: ...


_DEFECT = b"Internal Server Error"
