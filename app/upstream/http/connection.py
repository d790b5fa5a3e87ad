"""One connection to a model server and the exchange that is on it: an asyncio protocol, parsed by httptools.

An exchange goes through three stations: `request` waits for the head of the response; `push` hands its body over, one
call for each socket read; `release` or `abort` ends it. What comes between the stations is held, and reading pauses
where that would be much. After `release`, `abort` or the end of the body the connection is the pool's: it may be on
somebody else's exchange, so whoever held it must let go.
"""

import asyncio
from collections.abc import Callable
from typing import Any, Protocol, cast

import httptools
import httpx

LINGER_SECONDS = 1.0
"""How long a connection whose reply was complete may take to end its body, to be reused."""
MAX_HELD_BYTES = 256 * 1024
MAX_HEADER_BYTES = 64 * 1024
JOINED_BYTES = 16 * 1024
"""Bodies up to this size go out in one write with the head; larger ones are not copied."""
_TLS_RECORD = (b"\x15\x03", b"\x16\x03")
"""How an alert or a handshake of TLS begins: what a server sends that was asked in plain text and speaks TLS."""


class ClosedEarly(httpx.RemoteProtocolError):
    """The server closed the connection before its response was whole."""


class TlsAnswered(httpx.RemoteProtocolError):
    """The server answered a request in plain text with a TLS record."""


class ConnectionOwner(Protocol):
    def release(self, connection: "Connection") -> None:
        """Its exchange is over, and it can take another."""

    def forget(self, connection: "Connection") -> None:
        """It is closed."""


class Connection(asyncio.Protocol):
    def __init__(self, owner: ConnectionOwner) -> None:
        self._owner = owner
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._reading = True
        self.reused = False
        self.idle = False
        self.closed = False
        self._reset()
        self._parser: Any = None

    def _reset(self) -> None:
        self._parser = httptools.HttpResponseParser(self)
        self._head: asyncio.Future[None] | None = None
        self._on_data: Callable[[bytes], None] | None = None
        self._on_end: Callable[[Exception | None], None] | None = None
        self._body: list[bytes] = []
        self._held_bytes = 0
        self._head_bytes = self._header_bytes = 0
        self._until_close = self._keep_alive = self._paused = False
        self._complete = False
        """The response is whole."""
        self._ended = False
        """The exchange is over: the connection is no longer its reader's."""
        self._error: Exception | None = None
        self.status = 0
        self.headers: list[tuple[bytes, bytes]] = []
        self.asked_at = 0.0
        """The loop's time when the request went out."""
        self.touched = False
        """Some byte of a response has come."""

    @property
    def usable(self) -> bool:
        return not self.closed and self._transport is not None and not self._transport.is_closing()

    # -- the exchange ---------------------------------------------------------------------------------------------

    async def request(self, head: bytes, body: bytes, patience: float | None) -> None:
        """Send a request and wait for the head of its response. Raises httpx.TransportError."""
        assert self._transport is not None
        self._reset()
        future = self._head = self._loop.create_future()
        self.asked_at = self._loop.time()
        if patience is not None:
            self._timer = self._loop.call_later(patience, self._on_timeout)
        if len(body) < JOINED_BYTES:
            self._transport.write(head + body)
        else:
            self._transport.write(head)
            self._transport.write(body)
        await future

    def _on_timeout(self) -> None:
        self._fail(httpx.ReadTimeout("no response in time"))
        self.abort()

    def push(self, on_data: Callable[[bytes], None], on_end: Callable[[Exception | None], None]) -> None:
        """Hand the body over as it comes, beginning with what has come; `on_end` is called at most once, and last."""
        self._on_data, self._on_end = on_data, on_end
        self._read(not self._paused)
        self._deliver()

    def pause(self) -> None:
        self._paused = True
        self._read(False)

    def resume(self) -> None:
        self._paused = False
        self._read(True)
        self._deliver()

    def _read(self, wanted: bool) -> None:
        if self._transport is None or self.closed or wanted is self._reading:
            return
        self._reading = wanted
        if wanted:
            self._transport.resume_reading()
        else:
            self._transport.pause_reading()

    def release(self) -> None:
        """The reader has all it wants: reuse the connection if its body ends soon."""
        self._on_data = self._on_end = None
        if self._ended or self.closed:
            return
        if self._complete:
            self._recycle()
        elif self._timer is None:
            self._read(True)
            self._timer = self._loop.call_later(LINGER_SECONDS, self.abort)

    def abort(self) -> None:
        self._on_data = self._on_end = None
        if self._transport is not None and not self.closed:
            self._transport.abort()

    def _recycle(self) -> None:
        self._ended = True
        self._cancel_timer()
        if self._reusable:
            self._read(True)
            self._owner.release(self)
        else:
            self.abort()

    @property
    def _reusable(self) -> bool:
        """A response that came before the request was all sent leaves the rest of it on the wire."""
        if not self.usable or not self._keep_alive or self._until_close:
            return False
        return self._transport is not None and self._transport.get_write_buffer_size() == 0

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    # -- what the pool does ---------------------------------------------------------------------------------------

    def set_idle(self, seconds: float) -> None:
        """Wait for another exchange, so long and no longer."""
        self.idle = True
        self._timer = self._loop.call_later(seconds, self.abort)

    def take(self) -> None:
        self._cancel_timer()
        self.idle = False
        self.reused = True

    # -- what the socket brings -----------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's are none by class

    def data_received(self, data: bytes) -> None:
        if self.idle or self._parser is None:
            self.abort()  # nobody asked
            return
        if not self.touched and data.startswith(_TLS_RECORD):
            self._break(TlsAnswered("the server expects TLS"))
            return
        self.touched = True
        if self._head is not None:
            self._head_bytes += len(data)
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            self._malformed(str(error.__context__ or error))
            return
        if self._head is not None and self._head_bytes > MAX_HEADER_BYTES:
            self._malformed("response headers too large")
            return
        self._deliver()

    def _malformed(self, what: str) -> None:
        """What is wrong behind a whole response costs the connection, but not the response."""
        self._break(httpx.RemoteProtocolError(f"malformed HTTP: {what}"))

    def _break(self, error: Exception) -> None:
        self.touched = True
        self._keep_alive = False
        self._fail(error)
        self._deliver()
        self.abort()

    def eof_received(self) -> bool:
        if self._until_close and self._head is None and not self._complete:
            self._complete = True
            self._deliver()
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        self.closed = True
        self._parser = None
        self._cancel_timer()
        self._owner.forget(self)
        self._fail(_connection_lost_error(exc))

    def _fail(self, error: Exception) -> None:
        """A broken body: what came before the break is delivered first."""
        if self._complete or self._error is not None:
            return
        self._error = error
        head, self._head = self._head, None
        if head is not None and not head.done():
            head.set_exception(error)
        self._deliver()

    def _deliver(self) -> None:
        if self._on_data is None:
            if self._complete and self._timer is not None and not self._ended:
                self._recycle()
            elif self._held_bytes > MAX_HELD_BYTES:
                self._read(False)
            return
        if self._body:
            body, self._body = self._body, []
            self._held_bytes = 0
            self._on_data(body[0] if len(body) == 1 else b"".join(body))
        if (self._complete or self._error is not None) and self._on_end is not None:
            on_end, self._on_data, self._on_end = self._on_end, None, None
            error = self._error
            if self._complete and not self._ended:
                self._recycle()
            on_end(error)

    # -- what httptools calls -------------------------------------------------------------------------------------

    def on_message_begin(self) -> None:
        if self._complete:
            raise ValueError("a second response")

    def on_header(self, name: bytes, value: bytes) -> None:
        self._header_bytes += len(name) + len(value)
        if self._header_bytes > MAX_HEADER_BYTES:
            raise ValueError("response headers too large")
        self.headers.append((name, value))

    def on_headers_complete(self) -> None:
        status = self._parser.get_status_code()
        if status < 200:
            self.headers = []
            return
        self.status = status
        self._keep_alive = self._parser.should_keep_alive()
        fields = {name.lower(): value.lower() for name, value in self.headers}
        sized = b"content-length" in fields or b"chunked" in fields.get(b"transfer-encoding", b"")
        self._until_close = not sized and status not in (204, 304)
        self._cancel_timer()
        head, self._head = self._head, None
        if head is not None and not head.done():
            head.set_result(None)

    def on_body(self, body: bytes) -> None:
        self._body.append(body)
        self._held_bytes += len(body)

    def on_message_complete(self) -> None:
        if self.status:
            self._complete = True


def _connection_lost_error(exc: Exception | None) -> Exception:
    if exc is None:
        return ClosedEarly("the server closed the connection")
    error = httpx.ReadError(str(exc) or "connection reset")
    error.__cause__ = exc
    return error
