"""The HTTP connection of one client, with limits on size, number and time. httptools parses what it receives.

The connection refuses a head that is too long or too slow, framing that is ambiguous (RFC 9112, sections 6.1 and 11.2),
and a client for which there are too many connections. The application never sees such a request. After a refusal
nothing more is read from the connection, so the bytes that follow cannot be taken for a second request.

An `Upgrade` is ignored, as RFC 9110, section 7.8 allows: the request is answered as HTTP/1.1. Java's HttpClient and
`curl --http2` offer h2c with every first request. httptools ends a message at such a head, so its parser is replaced by
a new one that parses the same head again, without the offer.

A client may close its sending side after its last request (a half-closed connection): the replies are still sent. A
client that closes its connection looks the same, so the gateway sends a byte that changes nothing, which the system of
such a client answers with a reset.

The server calls `tick` of every connection at regular intervals, so no connection and no request needs a timer.
"""

import asyncio
import logging
import socket
from collections import deque
from collections.abc import Callable, Coroutine
from functools import lru_cache
from typing import Any, TypeAlias
from urllib.parse import unquote

import httptools
import msgspec
from typing_extensions import override
from uvicorn.server import ServerState

from app.api.asgi import send_error
from app.api.middleware import choose_request_id
from app.api.response_writer import WRITER, Scope
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
from app.server.connection_limits import ConnectionLimits, ConnectionWarnings, is_too_slow
from app.server.cycle import STATUS_LINES, ClientCycle, FlowControl

log = logging.getLogger("parley.connection")

Application: TypeAlias = Callable[[Any, Any, Any], Coroutine[Any, Any, None]]

MAX_HEADERS = 256
MAX_TARGET_BYTES = 16 * 1024
MAX_PIPELINED = 64
"""The maximum of requests that wait for the response before them. With one more, the connection closes after them."""
MAX_BODY_OVERHEAD = 64 * 1024
"""The maximum size of one body's chunk sizes and chunk extensions, in addition to twice the body's length."""
MAX_TRAILER_BYTES = 64 * 1024
MAX_UNREAD_BYTES = 64 * 1024
"""How much of a body is received before the application asks for it."""
MAX_FED_BYTES = 16 * 1024
"""How much is parsed at once. The parser does not report the length of a body's framing, so it is measured between two
calls: the size of a read, which depends on the network, must not decide what is refused."""
LINGER_SECONDS = 2.0
"""How long a refused client may take to read the error before its connection is reset."""
EVICTED_FRACTION = 50
"""When there is no room for a new connection, one in this many idle connections is closed."""
PROBE_SECONDS = 10.0
"""How often a client that has closed its sending side is probed while its response has not begun."""
RESET_SECONDS = (0.01, 0.05, 0.2)
"""When the answer to the first probe may have come. Later ones are read by `tick`."""

SOCKET_PATH = b"/v1/responses"
"""The only path at which an upgrade to a WebSocket is accepted."""
MAX_SOCKET_HEADERS, MAX_SOCKET_LINE = 128, 8192
"""What the package `websockets` reads (`MAX_NUM_HEADERS` and `MAX_LINE_LENGTH` of its `http11`)."""
_WATCHED = frozenset((b"expect", b"host", b"transfer-encoding"))
_DROPPED_WITH_UPGRADE = frozenset((b"upgrade", b"http2-settings"))


class _ParserStopped(Exception):
    """Raised in a callback of the parser, to ignore the rest of the received data."""


@lru_cache(maxsize=256)
def _split_target(target: bytes) -> tuple[str, bytes, bytes]:
    """Return (path, raw path, query). Nearly all requests have one of a few targets."""
    url = httptools.parse_url(target)
    path = url.path.decode("ascii")
    return unquote(path) if "%" in path else path, url.path, url.query or b""


class ClientConnection(asyncio.Protocol):
    """A client's connection. It can be dropped at any time, and tells each of its requests when it ends, also those
    that are pipelined."""

    transport: asyncio.Transport
    flow: FlowControl

    def __init__(
        self,
        app: Application,
        limits: ConnectionLimits,
        warnings: ConnectionWarnings,
        server_state: ServerState,
        app_state: dict[str, Any],
        loop: asyncio.AbstractEventLoop | None = None,
        *,
        is_draining: Callable[[], bool] = lambda: False,
        open_socket: Callable[[], asyncio.Protocol] | None = None,
    ) -> None:
        """`server_state` has the connections and tasks of all clients. A copy of `app_state` is the state of each
        request. `is_draining` says whether the server will soon shut down: then each response is the last one of its
        connection, so that a proxy does not send a request to one that is being closed. `open_socket` makes the
        protocol of a WebSocket; None: there are none."""
        self.loop = loop or asyncio.get_running_loop()
        self.server_state = server_state
        self.connections: set[Any] = server_state.connections
        self.expect_100_continue = False
        self._app = app
        self._app_state = app_state
        self._is_draining = is_draining
        self._open_socket = open_socket
        self._limits = limits
        self._warnings = warnings
        self._parser = _make_parser(self)
        self._client: tuple[str, int] | None = None
        self.cycle: ClientCycle | None = None
        """That of the request that was read last; None before the first and after the connection's end."""
        self._cycles: deque[ClientCycle] = deque()
        self.pipeline: deque[tuple[ClientCycle, Application]] = deque()
        """The requests that wait for the response before them, the newest first."""
        self._common_scope: Scope = {}
        """What the scopes of all requests have."""
        self._scope: Scope = {}
        """That of the request that was read last."""
        self._url = b""
        self._headers: list[tuple[bytes, bytes]] = []
        self._in_head = False
        self._hosts = 0
        self._head_bytes = 0
        """How many bytes of an unfinished head came in earlier reads."""
        self._read_bytes = 0
        """How many bytes the read has that is being parsed."""
        self._body_bytes = 0
        self._body_wire_bytes = 0
        """How many bytes of an unfinished body, with its framing, came in reads after the one that ended the head."""
        self._trailer_bytes = 0
        self._parser_error: ParleyError | None = None
        """The error for which the parser was stopped."""
        self._last_request = False
        """The connection closes after the request that was read last."""
        self._closes_after_body = False
        """The last response is written, and the rest of its request's body is read and ignored."""
        self._discarding = False
        """Data that is still received is ignored."""
        self._refused = False
        self._waited_seconds = 0.0
        self._unread_bytes = 0
        self._unread_seconds = 0.0
        self._half_closed = False
        """The client has closed its sending side, and its last requests are being answered."""
        self._unprobed_seconds = 0.0

    # Received data.

    @override
    def connection_made(self, transport: Any) -> None:
        self.connections.add(self)
        self.transport = transport
        self.flow = FlowControl(transport)
        self._client = _find_address(transport, "peername")
        self._common_scope = {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.3"},
            "http_version": "1.1",
            "server": _find_address(transport, "sockname"),
            "client": self._client,
            "scheme": "http",
            "root_path": "",
        }
        limit = self._limits.max_connections
        if len(self.connections) > limit and evict_idle(self.connections, self):
            self._warnings.full.warn(
                "%d connections are open, which is the maximum: the connections that were idle longest are closed to "
                "make room for new ones; to allow more, raise server.max_connections and the limit of open files "
                "(ulimit -n)",
                limit,
            )
        if len(self.connections) > limit:
            self._warnings.too_many.warn(
                "%d connections are open, which is the maximum, and none is idle: a new connection is refused; to "
                "allow more, raise server.max_connections and the limit of open files (ulimit -n)",
                limit,
            )
            self._refuse(Busy("this gateway has reached its maximum number of connections; try again later"))

    @override
    def data_received(self, data: bytes) -> None:
        if len(data) <= MAX_FED_BYTES:
            self._feed(data)
            return
        for at in range(0, len(data), MAX_FED_BYTES):
            self._feed(data[at : at + MAX_FED_BYTES])

    def _feed(self, data: bytes) -> None:
        if self._discarding:
            return
        scope, cycle = self._scope, self.cycle
        in_body = cycle is not None and cycle.more_body and not self._in_head
        self._read_bytes = len(data)
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            self._feed_without_upgrade(data, upgrade.args[0])
        except httptools.HttpParserError as error:
            self._on_parser_error(error)
        self._read_bytes = 0
        if self._in_head and not self._discarding:
            if self._scope is scope:
                self._head_bytes += len(data)
            elif self.cycle is cycle and not in_body:
                self._head_bytes = len(data)  # else part of the data belonged to the message before
            self._check_head()
        elif cycle is not None and in_body and self.cycle is cycle and cycle.more_body and not self._discarding:
            self._body_wire_bytes += len(data)
            if self._body_wire_bytes > 3 * self._body_bytes + MAX_BODY_OVERHEAD + MAX_TRAILER_BYTES:
                self._refuse(HeadTooLarge("the chunk extensions or trailers of the body are too long"))

    def _feed_without_upgrade(self, data: bytes, at: int) -> None:
        """Parse the head again without the offer to upgrade, and then the data after it."""
        if self._open_socket is not None and self._asks_for_socket():
            self._become_socket(data[at:])
            return
        while True:
            head = [self._parser.get_method(), b" ", self._url, b" HTTP/", self._parser.get_http_version().encode()]
            for name, value in self._headers:
                if name not in _DROPPED_WITH_UPGRADE:
                    head += (b"\r\n", name, b": ", value)
            data = b"".join((*head, b"\r\n\r\n", data[at:]))
            self._parser = _make_parser(self)
            self._read_bytes += len(data)
            try:
                self._parser.feed_data(data)
                return
            except httptools.HttpParserUpgrade as upgrade:
                at = upgrade.args[0]
            except httptools.HttpParserError as error:
                self._on_parser_error(error)
                return

    def _asks_for_socket(self) -> bool:
        """Whether the head asks for a WebSocket at the path that has one, and no earlier request is in progress."""
        headers = dict(self._headers)
        lengths = [len(name) + len(value) + 4 for name, value in self._headers]
        return (
            self._parser.get_method() == b"GET"
            and self._parser.get_http_version() == "1.1"
            and self._url.partition(b"?")[0].endswith(SOCKET_PATH)
            and headers.get(b"upgrade", b"").strip().lower() == b"websocket"
            and b"sec-websocket-key" in headers
            and b"transfer-encoding" not in headers
            and headers.get(b"content-length", b"0") == b"0"
            and self._hosts == 1
            and sum(lengths) <= self._limits.max_head_bytes
            and len(lengths) <= MAX_SOCKET_HEADERS
            and max(lengths) <= MAX_SOCKET_LINE
            and (self.cycle is None or self.cycle.response_complete)
        )

    def _become_socket(self, rest: bytes) -> None:
        """Give the connection to a socket, with the head that was read and what follows it."""
        assert self._open_socket is not None
        lines = [b"%s: %s\r\n" % line for line in self._headers]
        head = b"GET %s HTTP/1.1\r\n%s\r\n" % (self._url, b"".join(lines))
        self._discarding = True
        self.connections.discard(self)
        protocol = self._open_socket()
        protocol.connection_made(self.transport)
        self.transport.set_protocol(protocol)
        protocol.data_received(head + rest)

    def on_message_begin(self) -> None:
        if self._last_request:
            self._discarding = True
            raise _ParserStopped
        self._url = b""
        self.expect_100_continue = False
        self._headers = []
        self._scope = {**self._common_scope, "headers": self._headers, "state": self._app_state.copy()}
        self._in_head = True
        self._hosts = self._head_bytes = 0
        self._waited_seconds = 0.0

    def on_url(self, url: bytes) -> None:
        self._url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        name = name.lower()
        if name in _WATCHED:
            if name == b"host":
                self._hosts += 1
            elif name == b"expect":
                self.expect_100_continue = value.lower() == b"100-continue"
            elif self._in_head and value.strip().lower() != b"chunked":
                self._stop(UnsupportedFraming("transfer-encoding must be chunked, and nothing else"))
        if self._in_head:
            self._headers.append((name, value))
            return
        self._trailer_bytes += len(name) + len(value) + 4  # trailers are not used
        if self._trailer_bytes > MAX_TRAILER_BYTES:
            self._stop(HeadTooLarge(f"the trailers of the body have more than {MAX_TRAILER_BYTES} bytes"))

    def on_headers_complete(self) -> None:
        if self._parser.should_upgrade() and self._parser.get_method() != b"CONNECT":
            return
        if self._head_bytes + self._read_bytes > self._limits.max_head_bytes or len(self._headers) > MAX_HEADERS:
            error = self._too_long(sum(len(name) + len(value) + 4 for name, value in self._headers))
            if error is not None:
                self._stop(error)
        version = self._parser.get_http_version()
        self._check_target(version)
        cycle, cycles = self._make_cycle(version), self._cycles
        self._in_head = False
        self._body_bytes = self._body_wire_bytes = self._trailer_bytes = 0
        self._headers = []
        while cycles and cycles[0].response_complete and not cycles[0].blocked:
            cycles.popleft()
        cycles.append(cycle)
        if len(self.pipeline) >= MAX_PIPELINED:
            cycle.keep_alive = False
        self._last_request = not cycle.keep_alive

    def _make_cycle(self, version: str) -> ClientCycle:
        """Complete the scope, and start the request or queue it behind earlier ones."""
        scope, parser = self._scope, self._parser
        scope["method"] = parser.get_method().decode("ascii")
        scope["http_version"] = version
        scope["path"], scope["raw_path"], scope["query_string"] = _split_target(self._url)
        before = self.cycle
        keep_alive = version != "1.0" and parser.should_keep_alive() and not self._is_draining()
        cycle = self.cycle = ClientCycle(self, scope, keep_alive=keep_alive)
        scope["extensions"] = {WRITER: {"writer": cycle}}
        if before is None or before.response_complete:
            self._start(cycle, self._app)
        else:
            self.flow.pause_reading()
            self.pipeline.appendleft((cycle, self._app))
        return cycle

    def _start(self, cycle: ClientCycle, app: Application) -> None:
        task = self.loop.create_task(app(cycle.scope, cycle.receive, cycle.send))
        self.server_state.tasks.add(task)
        task.add_done_callback(cycle.on_served)

    def on_body(self, body: bytes) -> None:
        self._body_bytes += len(body)
        cycle = self.cycle
        if cycle is None or cycle.response_complete:
            return
        cycle.body.add(body)
        if cycle.body.size > MAX_UNREAD_BYTES:
            self.flow.pause_reading()
        if cycle.message_event is not None:
            cycle.message_event.set()

    def on_message_complete(self) -> None:
        cycle = self.cycle
        if cycle is not None and not self._in_head:  # else the head is parsed again, without its upgrade
            cycle.more_body = False
            if cycle.message_event is not None:
                cycle.message_event.set()
            if self._closes_after_body:
                self.transport.close()

    # Refusals.

    def _check_target(self, version: str) -> None:
        """Check the version, the target and the Host header."""
        if version != "1.1":
            if version != "1.0":
                self._stop(BadRequest(f"HTTP/{version} is not supported: send HTTP/1.1"))
            if any(name == b"transfer-encoding" for name, _ in self._headers):
                self._stop(UnsupportedFraming("HTTP/1.0 has no transfer-encoding: send HTTP/1.1 or content-length"))
        if len(self._url) > MAX_TARGET_BYTES:
            self._stop(self._target_too_long())
        if self._hosts != 1 and (self._hosts > 1 or version == "1.1"):
            self._stop(BadRequest("a request must have exactly one Host header"))
        if self._url[:1] != b"/" and self._url != b"*":
            if self._parser.get_method() == b"CONNECT":
                self._stop(MethodNotAllowed("CONNECT is not supported: this is not a proxy", "GET, POST, DELETE"))
            authority = self._url.partition(b"://")[2].partition(b"/")[0].partition(b"?")[0]
            hosts = [value.strip() for name, value in self._headers if name == b"host"]
            if authority.lower() not in [host.lower() for host in hosts]:
                self._stop(BadRequest("the host in the request's target differs from the Host header"))

    def _check_head(self) -> None:
        """Check the size of a head that has not ended."""
        error = self._too_long(self._head_bytes)
        if error is not None:
            self._refuse(error)

    def _too_long(self, header_bytes: int) -> ParleyError | None:
        limit = self._limits.max_head_bytes
        if len(self._url) > MAX_TARGET_BYTES or (not self._headers and header_bytes > limit):
            return self._target_too_long()
        if header_bytes > limit:
            return HeadTooLarge(f"the headers have more than {limit} bytes (server.max_head_bytes)")
        if len(self._headers) > MAX_HEADERS:
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
            self._refuse(BadRequest(f"this is not a valid HTTP/1.1 request: {error}"))

    def _refuse(self, error: ParleyError) -> None:
        """Answer with the error once the earlier requests are answered, and close. Nothing more is read."""
        self._discarding = True
        if self._closes_after_body:
            self.transport.close()
            return
        client = self._client[0] if self._client else ""
        log.info(
            "connection refused", extra={"fields": {"status": error.status, "error": error.message, "client": client}}
        )
        waiting = [cycle for cycle in self._cycles if not cycle.response_complete]
        if not waiting:
            self._write_refusal(error)
            return
        if self._in_head or not waiting[-1].more_body:
            self._scope["method"] = "GET"
            cycle = ClientCycle(self, self._scope, keep_alive=False)
            self._cycles.append(cycle)
            self.pipeline.appendleft((cycle, _error_app(error)))
            return
        broken = waiting[-1]  # the rest of its body will never come
        if broken is not waiting[0]:
            self.pipeline[0] = (broken, _error_app(error))
            broken.keep_alive = False
        elif broken.response_started:
            broken.keep_alive = False
        else:
            broken.disconnected = True
            if broken.message_event is not None:
                broken.message_event.set()
            self._write_refusal(error)

    def _write_refusal(self, error: ParleyError) -> None:
        """Write the error and half-close, so that a client that is still sending can read it. `tick` closes the
        connection."""
        id_ = choose_request_id(())
        body = msgspec.json.encode({"error": error.to_dict(id_)})
        head = [STATUS_LINES[error.status]]
        for name, value in (
            *self.server_state.default_headers,
            (b"content-type", b"application/json"),
            (b"cache-control", b"no-store"),
            (b"content-length", b"%d" % len(body)),
            (b"x-request-id", id_.encode()),
            *((name.encode(), value.encode()) for name, value in error.list_headers().items() if name != "connection"),
            (b"connection", b"close"),
        ):
            head += (name, b": ", value, b"\r\n")
        self._refused = True
        self._waited_seconds = 0.0
        self.flow.resume_reading()
        self.transport.write(b"".join((*head, b"\r\n", body)))
        if self.transport.can_write_eof():
            self.transport.write_eof()

    # The end of a request and of the connection.

    @override
    def eof_received(self) -> bool:
        """The client has closed its sending side, or it is gone: both look the same. Requests that came whole are
        answered, unless a probe shows that the client is gone."""
        waiting = [cycle for cycle in self._cycles if not cycle.response_complete]
        if not waiting or waiting[-1].more_body:
            return False
        waiting[-1].keep_alive = False
        self._half_closed = self._discarding = True
        waiting[0].probe()
        for seconds in RESET_SECONDS:
            self.loop.call_later(seconds, self._drop_if_reset)
        return True

    def _drop_if_reset(self) -> None:
        """Drop a client that has reset the connection: without reading, the event loop does not notice that."""
        if self.transport.is_closing():
            return
        client_socket = self.transport.get_extra_info("socket")
        if client_socket is not None and client_socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
            self.drop()

    def _probe_again(self, seconds: float) -> None:
        self._drop_if_reset()
        self._unprobed_seconds += seconds
        waiting = next((cycle for cycle in self._cycles if not cycle.response_complete), None)
        if self._unprobed_seconds >= PROBE_SECONDS and waiting is not None:
            self._unprobed_seconds = 0.0
            if not waiting.response_started:  # the writes of one that has begun are probes
                waiting.probe()

    def on_response_complete(self) -> None:
        """Start the next request. `tick` closes an idle connection."""
        self.server_state.total_requests += 1
        if self.transport.is_closing():
            return
        self._waited_seconds = 0.0
        if self.pipeline:
            cycle, app = self.pipeline.pop()
            self._start(cycle, app)
        else:
            self.flow.resume_reading()

    def close_after_body(self) -> None:
        """Half-close now, and close when the client has sent the rest of the body, or after `body_seconds`.

        Closed with unread data, the connection would be reset, and most clients that are still sending would report
        that instead of the response (RFC 9112, section 9.6). After a refusal the end of the body is not recognised:
        `tick` closes the connection after `LINGER_SECONDS`."""
        self._closes_after_body = True
        self._refused = self._discarding
        if self.transport.can_write_eof():
            self.transport.write_eof()

    def drop(self) -> None:
        """Close the connection now. First mark its requests as disconnected: an endpoint of any other that ends without
        a response has a defect, which is logged."""
        self._end_cycles()
        self.transport.abort()

    def shutdown(self) -> None:
        """Close the connection after the response to the request that was read last; called by uvicorn's server."""
        if self.cycle is None or self.cycle.response_complete:
            self.transport.close()
        else:
            self.end_after_response()

    def end_after_response(self) -> None:
        """Close the connection after the response in progress. An idle connection stays for one more request."""
        if self.cycle is not None and not self.cycle.response_complete:
            self.cycle.keep_alive = False

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        self.connections.discard(self)
        self._end_cycles()
        self.flow.resume_writing()
        if exc is None:
            self.transport.close()
        # They hold this connection, and all would wait for the garbage collector.
        self._parser = self.cycle = None

    def _end_cycles(self) -> None:
        for cycle in self._cycles:
            cycle.on_disconnect()
        self._cycles.clear()

    @override
    def pause_writing(self) -> None:
        self.flow.pause_writing()

    @override
    def resume_writing(self) -> None:
        self.flow.resume_writing()
        for cycle in self._cycles:
            cycle.on_writable()

    # Time limits.

    @property
    def idle(self) -> bool:
        """Whether no request is in progress."""
        return self._refused or ((self.cycle is None or self.cycle.response_complete) and not self.pipeline)

    def tick(self, seconds: float) -> None:
        """Enforce the time limits; called every `seconds`. A request in progress has its own limits."""
        if self._half_closed:
            self._probe_again(seconds)
        idle = self.idle
        if idle or self.flow.write_paused:
            unread = self.transport.get_write_buffer_size()
            if unread:
                self._check_reader(unread, seconds)
                return
        self._unread_bytes = 0
        if idle:
            self._waited_seconds += seconds
            if self._waited_seconds > self._idle_limit_seconds():
                self._time_out()

    def _check_reader(self, unread: int, seconds: float) -> None:
        """Drop a client that reads its data too slowly."""
        if not self._unread_bytes:
            self._unread_bytes, self._unread_seconds = unread, 0.0
        self._unread_bytes = max(self._unread_bytes, unread)
        self._unread_seconds += seconds
        if self._unread_seconds > self._limits.stall_seconds:
            if is_too_slow(self._unread_bytes - unread, self._limits.stall_seconds):
                self.drop()
            else:
                self._unread_bytes, self._unread_seconds = unread, 0.0

    def _idle_limit_seconds(self) -> float:
        if self._refused:
            return LINGER_SECONDS
        cycle = self.cycle
        if cycle is None or self._in_head:
            return self._limits.head_seconds
        return self._limits.body_seconds if cycle.more_body else self._limits.keep_alive_seconds

    def _time_out(self) -> None:
        if self._in_head and not self._refused and not self.transport.is_closing():
            seconds = self._limits.head_seconds
            self._refuse(HeadTimeout(f"the request's headers were not complete within {seconds:g} s"))
        else:
            self.drop()

    def waited_seconds(self) -> float:
        return self._waited_seconds

    def evict(self) -> None:
        self.connections.discard(self)
        self.drop()


def _make_parser(connection: "ClientConnection") -> Any:
    parser = httptools.HttpRequestParser(connection)
    # What follows a request with `Connection: close` is ignored by `on_message_begin`, after the response is sent.
    parser.set_dangerous_leniencies(lenient_data_after_close=True)
    return parser


def _find_address(transport: asyncio.Transport, name: str) -> tuple[str, int] | None:
    """Return the host and the port of an end of the connection; None for a socket that has none."""
    address = transport.get_extra_info(name)
    return (str(address[0]), int(address[1])) if isinstance(address, (tuple, list)) and len(address) >= 2 else None


def _error_app(error: ParleyError) -> Application:
    """Return an ASGI application that answers with this error."""

    async def refuse(scope: Any, receive: Any, send: Any) -> None:
        await send_error(send, error, choose_request_id(()))

    return refuse


def evict_idle(connections: set[Any], new: ClientConnection | None = None) -> bool:
    """Close the connections that have been idle longest. Returns whether any was idle."""
    idle = [one for one in connections if one is not new and one.idle]
    idle.sort(key=ClientConnection.waited_seconds, reverse=True)
    for one in idle[: len(idle) // EVICTED_FRACTION + 1]:
        one.evict()
    return bool(idle)
