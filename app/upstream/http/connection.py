"""One connection to a model server: an asyncio protocol that carries one exchange at a time, parsed by httptools.

An exchange has three steps. `request` sends the request and waits for the head of the response. `push` delivers the
body, one call for each socket read. `release` or `abort` ends the exchange. Data that arrives between the steps is
buffered, and reading pauses when the buffer exceeds `MAX_BUFFERED_BYTES`. After `release`, `abort` or the end of the
body the connection belongs to the pool and may serve another exchange: its previous user must not touch it again.
"""

import asyncio
from collections.abc import Callable
from itertools import chain
from typing import Any, Protocol, cast

import httptools
import httpx

LINGER_SECONDS = 1.0
"""After a complete reply, the body must end within this time, or the connection is closed instead of reused."""
MAX_BUFFERED_BYTES = 256 * 1024
MAX_HEADER_BYTES = 64 * 1024
MAX_FRAMING_BYTES = 1024 * 1024
"""The maximum of the reads of one response that hold none of its body, only chunk sizes, extensions and trailers."""
MAX_JOINED_BYTES = 16 * 1024
"""A smaller body is written together with the head; a larger one is written separately, to avoid a copy."""
_LENGTHS_OF_NAMES = frozenset(map(len, (b"content-length", b"transfer-encoding", b"content-encoding")))
"""Of the headers that are read here; others need not be compared."""
_TLS_RECORD = (b"\x15\x03", b"\x16\x03")
"""The first bytes of a TLS alert or handshake: what a TLS server sends in answer to plain HTTP."""


class ClosedEarly(httpx.RemoteProtocolError):
    """The server closed the connection before its response was complete."""


class TlsAnswered(httpx.RemoteProtocolError):
    """The server answered a plain HTTP request with a TLS record."""


class ConnectionOwner(Protocol):
    def release(self, connection: "UpstreamConnection") -> None:
        """Take back a connection whose exchange is over and that can carry another."""

    def forget(self, connection: "UpstreamConnection") -> None:
        """Drop a connection that is closed."""

    def expect_deadline(self, at: float) -> None:
        """Call `on_deadline` of a connection when its `deadline` has passed, which is at this time."""


class UpstreamConnection(asyncio.Protocol):
    def __init__(self, owner: ConnectionOwner, linger_seconds: float = LINGER_SECONDS) -> None:
        self._owner = owner
        self._linger_seconds = linger_seconds
        self._loop = asyncio.get_running_loop()
        self._made_at = self._loop.time()
        self._transport: asyncio.Transport | None = None
        self._expecting = False
        """A request was sent, and its exchange is not over."""
        self.deadline: float | None = None
        """The event loop's time at which `on_deadline` is called; None: it is not called."""
        self._reading = True
        self.reused = False
        self.idle = False
        self.closed = False
        self._unfinished = False
        self._writable: asyncio.Future[None] | None = None
        """Set while the server takes no more of a request: done when it does again, or has answered."""
        self._body: list[bytes] = []
        """What has arrived of the body and was not delivered."""
        self.on_body = self._body.append
        """A callback of httptools."""
        self._reset()
        self._parser: Any = httptools.HttpResponseParser(self)

    def _reset(self) -> None:
        self._head: asyncio.Future[None] | None = None
        self._on_data: Callable[[bytes], None] | None = None
        self._on_end: Callable[[Exception | None], None] | None = None
        self._body.clear()
        self._head_bytes = 0
        """The bytes that have arrived until the head is complete."""
        self._head_data = b""
        """These bytes."""
        self._refused: Exception | None = None
        """What the parser did not accept in the head, the rest of which is awaited."""
        self._trailer_bytes = 0
        self._framing_bytes = 0
        """The bytes of the reads that held nothing of the body."""
        self._until_close = self._keep_alive = self._paused = False
        self._complete = False
        """The whole response has arrived."""
        self._ended = False
        """The exchange is over, and the connection belongs to the pool again."""
        self._error: Exception | None = None
        self.status = 0
        self.headers: list[tuple[bytes, bytes]] = []
        self.encoding: str | None = None
        """The content-encoding of the response."""
        self.sent_at = 0.0
        """The event loop's time when the request was sent."""
        self.touched = False
        """At least one byte of the response has arrived."""

    def is_usable(self) -> bool:
        """Whether a request can be sent."""
        return not self.closed and self._transport is not None and not self._transport.is_closing()

    def is_too_old(self, max_age_seconds: float) -> bool:
        """Whether it was opened so long ago that it should take no further request."""
        return self._loop.time() - self._made_at > max_age_seconds

    def request(self, head: bytes, body: bytes, timeout_seconds: float | None) -> asyncio.Future[None]:
        """Send a request. The future is done at the head of its response, or has an httpx.TransportError."""
        assert self._transport is not None
        self._reset()
        self._expecting = True
        future = self._head = self._loop.create_future()
        self.sent_at = self._loop.time()
        if timeout_seconds is not None:
            self._expect_deadline(self.sent_at + timeout_seconds)
        if len(body) < MAX_JOINED_BYTES:
            self._transport.write(head + body)
        else:
            self._transport.write(head)
            self._transport.write(body)
        return future

    async def write_piece(self, data: bytes, seconds: float | None) -> bool:
        """Send a part of a long body, and wait until more can be sent. Return whether it can: not if the server has
        answered, or the connection is lost. Raises httpx.ReadTimeout."""
        if self._transport is None or self.closed:
            return False
        self._transport.write(data)
        future = self._writable
        if future is None:
            return not self.closed and self._head is not None
        done, _ = await asyncio.wait([future], timeout=seconds)
        if not done:
            raise httpx.ReadTimeout("the server takes no more of the request")
        return not self.closed and self._head is not None

    def expect_head(self, seconds: float | None) -> None:
        """The request has been sent: limit the wait for the head of the response, if it has not come."""
        if self._head is None:
            return
        self.sent_at = self._loop.time()
        if seconds is not None:
            self._expect_deadline(self.sent_at + seconds)

    def keep_no_longer(self) -> None:
        """Close the connection after this exchange: a part of its request was not sent."""
        self._unfinished = True

    def pause_writing(self) -> None:
        self._writable = self._loop.create_future()

    def resume_writing(self) -> None:
        self._set_writable()

    def _set_writable(self) -> None:
        future, self._writable = self._writable, None
        if future is not None and not future.done():
            future.set_result(None)

    def _expect_deadline(self, at: float) -> None:
        self.deadline = at
        self._owner.expect_deadline(at)

    def on_deadline(self) -> None:
        """Close the connection: the head of a response, the end of a body or another request did not come in time."""
        if self._head is not None:
            self._fail(httpx.ReadTimeout("no response in time"))
        self.abort()

    def push(self, on_data: Callable[[bytes], None], on_end: Callable[[Exception | None], None]) -> None:
        """Deliver the body as it arrives, buffered data first. `on_end` is called at most once, as the last call."""
        self._on_data, self._on_end = on_data, on_end
        self._set_reading(not self._paused)
        self._deliver()

    def pause(self) -> None:
        self._paused = True
        self._set_reading(False)

    def resume(self) -> None:
        self._paused = False
        self._set_reading(True)
        self._deliver()

    def _set_reading(self, wanted: bool) -> None:
        if self._transport is None or self.closed or wanted is self._reading:
            return
        self._reading = wanted
        if wanted:
            self._transport.resume_reading()
        else:
            self._transport.pause_reading()

    def release(self) -> None:
        """End the exchange after a complete reply; reuse the connection if the body ends soon."""
        self._on_data = self._on_end = None
        if self._ended or self.closed:
            return
        if self._complete:
            self._recycle()
        elif self.deadline is None:
            self._set_reading(True)
            self._expect_deadline(self._loop.time() + self._linger_seconds)

    def abort(self) -> None:
        self._on_data = self._on_end = None
        if self._transport is not None and not self.closed:
            self._transport.abort()

    def _recycle(self) -> None:
        self._ended = True
        self.deadline = None
        if self._is_reusable():
            self._set_reading(True)
            self._owner.release(self)
        else:
            self.abort()

    def _is_reusable(self) -> bool:
        """Whether another request may be sent. It may not while part of the previous one is still unsent."""
        if not self.is_usable() or not self._keep_alive or self._until_close or self._unfinished:
            return False
        return self._transport is not None and self._transport.get_write_buffer_size() == 0

    def set_idle(self, seconds: float) -> None:
        """Keep the connection open for another exchange, and close it after `seconds` without one."""
        self.idle, self._expecting = True, False
        self._expect_deadline(self._loop.time() + seconds)

    def take(self) -> None:
        self.deadline = None
        self.idle = False
        self.reused = True

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's transports are not subclasses of it

    def data_received(self, data: bytes) -> None:
        if self._head is None:
            if not self._expecting:
                self.abort()  # data without a request
                return
        else:
            if not self.touched and data.startswith(_TLS_RECORD):
                self._break(TlsAnswered("the server expects TLS"))
                return
            self.touched = True
            self._head_bytes += len(data)
            self._head_data += data
        refused = self._refused or self._parse(data)
        if refused is not None and not self._parse_again(refused):
            return
        if self._on_data is not None and not self._complete:
            body = self._body
            if body:
                self._on_data(body.pop() if len(body) == 1 else self._take_body())
            else:
                self._count_framing(len(data))
        elif self._head is not None and self._head_bytes > MAX_HEADER_BYTES:
            self._on_malformed("response headers too large")
        else:
            self._deliver()

    def _parse(self, data: bytes) -> Exception | None:
        """Return the error of the parser if it does not accept the data."""
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            return error
        return None

    def _parse_again(self, refused: Exception) -> bool:
        """Parse the head again with one Content-Length, if the parser has refused several that are equal. It may do so
        before the value of the second has arrived. Return whether the data is accepted now."""
        self._refused = None
        if self._head is not None and "content-length" in str(refused).lower():
            end = self._head_data.find(b"\r\n\r\n")
            if end < 0 and self._head_bytes <= MAX_HEADER_BYTES:
                self._refused = refused
                return False
            head = merge_equal_lengths(self._head_data[: max(end, 0)])
            if head is not None:
                self.headers = []
                self._parser = httptools.HttpResponseParser(self)
                again = self._parse(head + self._head_data[end:])
                if again is None:
                    return True
                refused = again
        self._on_malformed(str(refused.__context__ or refused))
        return False

    def _count_framing(self, size: int) -> None:
        """Limit chunk extensions and trailers that do not end: the parser keeps an unfinished trailer."""
        self._framing_bytes += size
        if self._framing_bytes > MAX_FRAMING_BYTES:
            self._on_malformed("the framing of the response is too large")

    def _take_body(self) -> bytes:
        data = b"".join(self._body)
        self._body.clear()
        return data

    def _on_malformed(self, reason: str) -> None:
        """Close the connection. A response that was already complete stays valid."""
        self._break(httpx.RemoteProtocolError(f"malformed HTTP: {reason}"))

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
        self.deadline = None
        self._owner.forget(self)
        self._set_writable()
        self._fail(_connection_lost_error(exc))

    def _fail(self, error: Exception) -> None:
        """End the exchange with an error, after delivering what arrived before it."""
        if self._complete or self._error is not None:
            return
        self._error = error
        head, self._head = self._head, None
        if head is not None and not head.done():
            head.set_exception(error)
        self._deliver()

    def _deliver(self) -> None:
        if self._on_data is None:
            if self._complete and self.deadline is not None and not self._ended:
                self._recycle()
            elif self._body and sum(map(len, self._body)) > MAX_BUFFERED_BYTES:
                self._set_reading(False)
            return
        if self._body:
            self._on_data(self._take_body())
        if (self._complete or self._error is not None) and self._on_end is not None:
            on_end, self._on_data, self._on_end = self._on_end, None, None
            error = self._error
            if self._complete and not self._ended:
                self._recycle()
            on_end(error)

    # The callbacks of httptools.

    def on_message_begin(self) -> None:
        if self._complete:
            raise ValueError("a second response")

    def on_header(self, name: bytes, value: bytes) -> None:
        if not self.status:
            self.headers.append((name, value))
            return
        self._trailer_bytes += len(name) + len(value)  # trailers are not read
        if self._trailer_bytes > MAX_HEADER_BYTES:
            raise ValueError("response trailers too large")

    def on_headers_complete(self) -> None:
        headers = self.headers
        if self._head_bytes > MAX_HEADER_BYTES and sum(map(len, chain.from_iterable(headers))) > MAX_HEADER_BYTES:
            raise ValueError("response headers too large")
        status = self._parser.get_status_code()
        if status < 200:
            self.headers = []
            return
        self.status = status
        self._keep_alive = self._parser.should_keep_alive()
        fields = {name.lower(): value for name, value in headers if len(name) in _LENGTHS_OF_NAMES}
        # Not `in`, which first tries whether the searched bytes are a number, and makes an error of that.
        sized = b"content-length" in fields or fields.get(b"transfer-encoding", b"").lower().find(b"chunked") >= 0
        if b"content-encoding" in fields:
            self.encoding = fields[b"content-encoding"].decode("latin-1").lower()
        self._until_close = not sized and status not in (204, 304)
        self.deadline = None
        self._head_data = b""
        self._set_writable()
        head, self._head = self._head, None
        if head is not None and not head.done():
            head.set_result(None)

    def on_message_complete(self) -> None:
        if self.status:
            self._complete = True


def merge_equal_lengths(head: bytes) -> bytes | None:
    """Return the head of a response with one Content-Length instead of several equal ones, as RFC 9112 (section 6.3)
    allows; None if it has not several, or they differ."""
    lines = head.split(b"\r\n")
    found = [line.partition(b":")[2] for line in lines if line[:15].lower() == b"content-length:"]
    lengths = [value.strip() for values in found for value in values.split(b",")]
    if len(lengths) < 2 or len(set(lengths)) > 1 or not lengths[0].isdigit():
        return None
    others = [line for line in lines if line[:15].lower() != b"content-length:"]
    return b"\r\n".join([*others, b"content-length: " + lengths[0]])


def _connection_lost_error(exc: Exception | None) -> Exception:
    if exc is None:
        return ClosedEarly("the server closed the connection")
    error = httpx.ReadError(str(exc) or "connection reset")
    error.__cause__ = exc
    return error
