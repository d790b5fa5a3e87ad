"""One caller's HTTP connection: uvicorn's protocol, within limits of size, number and time.

What is refused here never becomes a request: the head is too long or too slow, the framing is ambiguous (RFC 9112,
sections 6.1 and 11.2), or there are too many connections. After a refusal nothing more is read from the connection, so
what follows cannot be taken for a second request.

An `Upgrade` is ignored, as RFC 9110, section 7.8 allows: the request is answered as HTTP/1.1. Java's HttpClient and
`curl --http2` offer h2c with every first request. httptools ends a message at such a head, so its parser is replaced by
a new one that reads the same head again, without the offer.

Time is counted in ticks: the server calls `tick` of every connection, and a request on its way needs no timer.
"""

import asyncio
import logging
import time
from collections import deque
from dataclasses import dataclass
from typing import Any

import httptools
import msgspec
from uvicorn.protocols.http.flow_control import HIGH_WATER_LIMIT
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle

from app.api.asgi import send_error
from app.api.context import ABORT_CONNECTION
from app.api.middleware import choose_request_id
from app.errors import (
    BadRequest,
    Busy,
    HeadTimeout,
    HeadTooLarge,
    MethodNotAllowed,
    ParleyError,
    TargetTooLong,
    UnsupportedFraming,
)

log = logging.getLogger("parley.connection")

MAX_HEADERS = 256
MAX_TARGET_BYTES = 16 * 1024
MAX_PIPELINED = 64
"""Requests that wait for the reply before them; one more ends the connection when these are answered."""
MAX_BODY_OVERHEAD = 64 * 1024
"""Chunk sizes, chunk extensions and trailers of one body, beyond twice its own length."""
LINGER_SECONDS = 2.0
"""How long a refused client may take to read why, before its connection is reset."""
MIN_READ_BYTES_PER_SECOND = 1024
"""A caller who reads a reply more slowly than this, over `stall_seconds`, is dropped."""
EVICTED_FRACTION = 50
"""One in so many idle connections is closed at once where there is no room for a new one."""
WARNING_SECONDS = 10.0
"""Warnings of one kind are at least so far apart."""

_WATCHED = frozenset((b"expect", b"host", b"transfer-encoding"))
_DROPPED_WITH_UPGRADE = frozenset((b"upgrade", b"http2-settings"))


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    max_connections: int
    max_head_bytes: int
    head_seconds: float
    keep_alive_seconds: float
    stall_seconds: float

    @property
    def tick_seconds(self) -> float:
        """How often to look at each connection: at most every second, and in time for the shortest limit."""
        return min(1.0, self.head_seconds / 4, self.keep_alive_seconds / 4, self.stall_seconds / 4)


class ThrottledWarning:
    """A warning that is logged at most once in `WARNING_SECONDS`, with how often it was due."""

    def __init__(self) -> None:
        self._next = 0.0
        self._count = 0

    def warn(self, message: str, *arguments: object) -> None:
        self._count += 1
        now = time.monotonic()
        if now >= self._next:
            log.warning(f"{message} (%d times since the last such line)", *arguments, self._count)
            self._next, self._count = now + WARNING_SECONDS, 0


class ConnectionWarnings:
    """Of all connections of one server."""

    def __init__(self) -> None:
        self.full = ThrottledWarning()
        self.too_many = ThrottledWarning()
        self.no_files = ThrottledWarning()


class _ParserStopped(Exception):
    """Raised in a callback of the parser: the rest of what was received is not looked at."""


class ClientConnection(HttpToolsProtocol):
    """A caller's connection that can be dropped, and whose end every request on it learns, pipelined ones too."""

    def __init__(self, limits: ConnectionLimits, warnings: ConnectionWarnings, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._limits = limits
        self._warnings = warnings
        self._cycles: deque[RequestResponseCycle] = deque()
        self._in_head = False
        self._hosts = 0
        self._head_bytes = 0
        """Of an unfinished head, what earlier reads brought."""
        self._read_bytes = 0
        """Of the read that is being parsed."""
        self._body_bytes = 0
        self._body_wire_bytes = 0
        """Of an unfinished body, what later reads than the head's brought, with the framing."""
        self._parser_error: ParleyError | None = None
        """Why the parser was stopped."""
        self._last_request = False
        """The connection ends after the request that was read last."""
        self._discarding = False
        """What is still received is dropped."""
        self._refused = False
        self._waited_seconds = 0.0
        self._unread_bytes = 0
        self._unread_seconds = 0.0

    # -- what is received -------------------------------------------------------------------------------------------

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        limit = self._limits.max_connections
        if len(self.connections) > limit and evict_idle(self.connections, self):
            self._warnings.full.warn(
                "%d connections are open, as many as may be: those that were idle for longest are closed for new ones; "
                "server.max_connections and the limit of open files (ulimit -n) decide how many there can be",
                limit,
            )
        if len(self.connections) > limit:
            self._warnings.too_many.warn(
                "%d connections are open and none is idle: a new one is refused; "
                "server.max_connections and the limit of open files (ulimit -n) decide how many there can be",
                limit,
            )
            self._refuse(Busy("this gateway has as many connections as it may; try again later"))

    def data_received(self, data: bytes) -> None:
        if self._discarding:
            return
        scope, cycle = self.scope, self.cycle
        in_body = cycle is not None and cycle.more_body and not self._in_head
        self._read_bytes = len(data)
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            self._feed_without_upgrade(data, upgrade.args[0])
        except httptools.HttpParserError as error:
            self._on_parser_error(error)
        self._read_bytes = 0
        if self._in_head and not self._discarding:
            if self.scope is scope:
                self._head_bytes += len(data)
            elif self.cycle is cycle and not in_body:
                self._head_bytes = len(data)  # else some of it was of a message before
            self._check_head()
        elif in_body and self.cycle is cycle and cycle.more_body and not self._discarding:
            self._body_wire_bytes += len(data)
            if self._body_wire_bytes > 3 * self._body_bytes + MAX_BODY_OVERHEAD:
                self._refuse(HeadTooLarge("the chunk extensions or trailers of the body are too long"))

    def _feed_without_upgrade(self, data: bytes, at: int) -> None:
        """Read the head again as if nothing but HTTP/1.1 had been offered, and then what follows it."""
        while True:
            head = [self.parser.get_method(), b" ", self.url, b" HTTP/", self.parser.get_http_version().encode()]
            for name, value in self.headers:
                if name not in _DROPPED_WITH_UPGRADE:
                    head += (b"\r\n", name, b": ", value)
            data = b"".join((*head, b"\r\n\r\n", data[at:]))
            self.parser = httptools.HttpRequestParser(self)
            self.parser.set_dangerous_leniencies(lenient_data_after_close=True)
            self._read_bytes += len(data)
            try:
                self.parser.feed_data(data)
                return
            except httptools.HttpParserUpgrade as upgrade:
                at = upgrade.args[0]
            except httptools.HttpParserError as error:
                self._on_parser_error(error)
                return

    def on_message_begin(self) -> None:
        if self._last_request:
            self._discarding = True
            raise _ParserStopped
        super().on_message_begin()
        self.scope["extensions"] = {ABORT_CONNECTION: {"call": self.drop}}
        self._in_head = True
        self._hosts = self._head_bytes = 0
        self._waited_seconds = 0.0

    def on_header(self, name: bytes, value: bytes) -> None:
        name = name.lower()
        if name in _WATCHED:
            if name == b"host":
                self._hosts += 1
            elif name == b"expect":
                self.expect_100_continue = value.lower() == b"100-continue"
            elif self._in_head and value.strip().lower() != b"chunked":
                self._stop(UnsupportedFraming("transfer-encoding must be chunked, and nothing else"))
        self.headers.append((name, value))

    def on_headers_complete(self) -> None:
        if self.parser.should_upgrade() and self.parser.get_method() != b"CONNECT":
            return
        if self._head_bytes + self._read_bytes > self._limits.max_head_bytes or len(self.headers) > MAX_HEADERS:
            error = self._too_long(sum(len(name) + len(value) + 4 for name, value in self.headers))
            if error is not None:
                self._stop(error)
        self._check_target()
        super().on_headers_complete()
        cycle, cycles = self.cycle, self._cycles
        self._in_head = False
        self._body_bytes = self._body_wire_bytes = 0
        self.headers = []  # takes the trailers, which nobody reads
        while cycles and cycles[0].response_complete:
            cycles.popleft()
        cycles.append(cycle)
        if len(self.pipeline) >= MAX_PIPELINED:
            cycle.keep_alive = False
        self._last_request = not cycle.keep_alive

    def on_body(self, body: bytes) -> None:
        self._body_bytes += len(body)
        cycle = self.cycle
        if cycle.response_complete:
            return
        cycle.body += body
        if len(cycle.body) > HIGH_WATER_LIMIT:
            self.flow.pause_reading()
        cycle.message_event.set()

    def on_message_complete(self) -> None:
        if not self._in_head:  # else its head is read again
            self.cycle.more_body = False
            self.cycle.message_event.set()

    # -- what is refused --------------------------------------------------------------------------------------------

    def _check_target(self) -> None:
        """The version, the target and what names the host, where they are not as in every usual request."""
        version = self.parser.get_http_version()
        if version != "1.1":
            if version != "1.0":
                self._stop(BadRequest(f"HTTP/{version} is not spoken here: send HTTP/1.1"))
            if any(name == b"transfer-encoding" for name, _ in self.headers):
                self._stop(UnsupportedFraming("HTTP/1.0 has no transfer-encoding: send HTTP/1.1 or content-length"))
        if len(self.url) > MAX_TARGET_BYTES:
            self._stop(self._target_too_long())
        if self._hosts != 1 and (self._hosts > 1 or version == "1.1"):
            self._stop(BadRequest("a request must have exactly one Host header"))
        if self.url[:1] != b"/" and self.url != b"*":
            if self.parser.get_method() == b"CONNECT":
                self._stop(MethodNotAllowed("this is no proxy: CONNECT is not possible", "GET, POST, DELETE"))
            authority = self.url.partition(b"://")[2].partition(b"/")[0].partition(b"?")[0]
            hosts = [value.strip() for name, value in self.headers if name == b"host"]
            if authority.lower() not in [host.lower() for host in hosts]:
                self._stop(BadRequest("the host in the request's target is not that of its Host header"))

    def _check_head(self) -> None:
        """Of a head that has not ended."""
        error = self._too_long(self._head_bytes)
        if error is not None:
            self._refuse(error)

    def _too_long(self, header_bytes: int) -> ParleyError | None:
        limit = self._limits.max_head_bytes
        if len(self.url) > MAX_TARGET_BYTES or (not self.headers and header_bytes > limit):
            return self._target_too_long()
        if header_bytes > limit:
            return HeadTooLarge(f"the headers have more than {limit} bytes (server.max_head_bytes)")
        if len(self.headers) > MAX_HEADERS:
            return HeadTooLarge(f"there are more than {MAX_HEADERS} headers")
        return None

    def _target_too_long(self) -> ParleyError:
        return TargetTooLong(f"the path and query of a request must not have more than {MAX_TARGET_BYTES} bytes")

    def _stop(self, error: ParleyError) -> None:
        self._parser_error = error
        raise _ParserStopped

    def _on_parser_error(self, error: Exception) -> None:
        if self._parser_error is not None:
            self._refuse(self._parser_error)
        elif not self._discarding:
            self._refuse(BadRequest(f"this is no HTTP/1.1 request: {error}"))

    def _refuse(self, error: ParleyError) -> None:
        """Answer with the error, after the requests before it, and close. Nothing more is read."""
        self._discarding = True
        client = self.client[0] if self.client else ""
        log.info(
            "connection refused", extra={"fields": {"status": error.status, "error": error.message, "client": client}}
        )
        waiting = [cycle for cycle in self._cycles if not cycle.response_complete]
        if not waiting:
            self._write_refusal(error)
            return
        if self._in_head or not waiting[-1].more_body:
            self.scope["method"] = "GET"
            cycle = self._refusal_cycle()
            self._cycles.append(cycle)
            self.pipeline.appendleft((cycle, _error_app(error)))
            return
        broken = waiting[-1]  # its body has no end
        if broken is not waiting[0]:
            self.pipeline[0] = (broken, _error_app(error))
            broken.keep_alive = False
        elif broken.response_started:
            broken.keep_alive = False
        else:
            broken.disconnected = True
            broken.message_event.set()
            self._write_refusal(error)

    def _refusal_cycle(self) -> RequestResponseCycle:
        return RequestResponseCycle(
            scope=self.scope,
            transport=self.transport,
            flow=self.flow,
            logger=self.logger,
            access_logger=self.access_logger,
            access_log=False,
            default_headers=self.server_state.default_headers,
            message_event=asyncio.Event(),
            expect_100_continue=False,
            keep_alive=False,
            on_response=self.on_response_complete,
        )

    def _write_refusal(self, error: ParleyError) -> None:
        """Half-close, so that the client can read the answer though it is still sending; `tick` does the rest."""
        id_ = choose_request_id(())
        body = msgspec.json.encode({"error": error.to_dict(id_)})
        head = [STATUS_LINE[error.status]]
        for name, value in (
            *self.server_state.default_headers,
            (b"content-type", b"application/json"),
            (b"cache-control", b"no-store"),
            (b"content-length", b"%d" % len(body)),
            (b"x-request-id", id_.encode()),
            *((name.encode(), value.encode()) for name, value in error.headers.items() if name != "connection"),
            (b"connection", b"close"),
        ):
            head += (name, b": ", value, b"\r\n")
        self._refused = True
        self._waited_seconds = 0.0
        self.flow.resume_reading()
        self.transport.write(b"".join((*head, b"\r\n", body)))
        if self.transport.can_write_eof():
            self.transport.write_eof()

    # -- the end of a request and of the connection -----------------------------------------------------------------

    def on_response_complete(self) -> None:
        """As uvicorn's, but that `tick` ends an idle connection instead of a timer."""
        self.server_state.total_requests += 1
        if self.transport.is_closing():
            return
        self._waited_seconds = 0.0
        if self.pipeline:
            cycle, app = self.pipeline.pop()
            self._start_asgi_task(cycle, app)
        else:
            self.flow.resume_reading()

    def drop(self) -> None:
        """Close the connection now. Its requests learn of it before they return, or uvicorn would log an error for a
        response that nobody waits for."""
        self._end_cycles()
        self.transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        self._end_cycles()
        super().connection_lost(exc)
        if self.scope:
            self.scope.pop("extensions", None)  # it holds the connection, which would wait for the garbage collector

    def _end_cycles(self) -> None:
        for cycle in self._cycles:
            cycle.disconnected = cycle.disconnected or not cycle.response_complete
            cycle.message_event.set()
        self._cycles.clear()

    # -- time -------------------------------------------------------------------------------------------------------

    @property
    def idle(self) -> bool:
        """No request of it is in progress."""
        return self._refused or ((self.cycle is None or self.cycle.response_complete) and not self.pipeline)

    def tick(self, seconds: float) -> None:
        """Called every so many seconds: ends what takes too long. A request in progress has limits of its own."""
        idle = self.idle
        if idle or self.flow.write_paused:
            unread = self.transport.get_write_buffer_size()
            if unread:
                self._check_reader(unread, seconds)
                return
        self._unread_bytes = 0
        if idle:
            self._waited_seconds += seconds
            if self._waited_seconds > self._allowed_seconds():
                self._time_out()

    def _check_reader(self, unread: int, seconds: float) -> None:
        """The client must read at some speed what waits for it."""
        if not self._unread_bytes:
            self._unread_bytes, self._unread_seconds = unread, 0.0
        self._unread_bytes = max(self._unread_bytes, unread)
        self._unread_seconds += seconds
        if self._unread_seconds > self._limits.stall_seconds:
            if self._unread_bytes - unread < self._limits.stall_seconds * MIN_READ_BYTES_PER_SECOND:
                self.drop()
            else:
                self._unread_bytes, self._unread_seconds = unread, 0.0

    def _allowed_seconds(self) -> float:
        if self._refused:
            return LINGER_SECONDS
        cycle = self.cycle
        if cycle is None or self._in_head or cycle.more_body:  # the head, or the rest of a body that is not wanted
            return self._limits.head_seconds
        return self._limits.keep_alive_seconds

    def _time_out(self) -> None:
        if self._in_head and not self._refused and not self.transport.is_closing():
            seconds = self._limits.head_seconds
            self._refuse(HeadTimeout(f"the head of the request did not come within {seconds:g} s"))
        else:
            self.drop()

    def waited_seconds(self) -> float:
        return self._waited_seconds

    def evict(self) -> None:
        self.connections.discard(self)
        self.drop()


def _error_app(error: ParleyError) -> Any:
    """An application that answers with this error."""

    async def refuse(scope: Any, receive: Any, send: Any) -> None:
        await send_error(send, error, choose_request_id(()))

    return refuse


def evict_idle(connections: set[Any], new: ClientConnection | None = None) -> bool:
    """Close the connections that have been idle for longest; whether there were any."""
    idle = [one for one in connections if one is not new and one.idle]
    idle.sort(key=ClientConnection.waited_seconds, reverse=True)
    for one in idle[: len(idle) // EVICTED_FRACTION + 1]:
        one.evict()
    return bool(idle)
