"""An httpx transport that keeps up with a thousand streams: one asyncio protocol a connection, parsed by httptools.

httpx's own transport costs tens of microseconds for every chunk. This one is a plain `httpx.AsyncBaseTransport`, but
the body of its responses can also be *pushed*: what one socket read brings is handed over in one call, with no task
switch between. HTTP/1.1 only; connections are kept alive and reused; a reused one that the server had already closed is
replaced once, silently, as long as not a byte of a response had come.
"""

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable
from typing import Any, TypeAlias, cast

import httptools
import httpx

Origin: TypeAlias = tuple[str, str, int]

KEEPALIVE_SECONDS = 4.5
"""Idle connections are dropped before uvicorn-based servers, which wait five seconds, drop them."""
LINGER_SECONDS = 1.0
"""How long a connection whose reply was complete may take to end its body, to be reused."""
MAX_HELD_BYTES = 256 * 1024
MAX_HEADER_BYTES = 64 * 1024


class Connection(asyncio.Protocol):
    """One connection and the exchange that is on it."""

    def __init__(self, pool: "Pool") -> None:
        self._pool = pool
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._parser: Any = None
        self._head: asyncio.Future[None] | None = None
        self._on_data: Callable[[bytes], None] | None = None
        self._on_end: Callable[[Exception | None], None] | None = None
        self._body: list[bytes] = []
        self._held_bytes = 0
        self._header_bytes = 0
        self._until_close = False
        self._keep_alive = False
        self._complete = False
        self._ended = False
        self._error: Exception | None = None
        self._timer: asyncio.TimerHandle | None = None
        self.status = 0
        self.headers: list[tuple[bytes, bytes]] = []
        self.reused = False
        self.touched = False
        """Some byte of a response has come."""
        self.idle = False
        self.closed = False

    # -- the exchange ---------------------------------------------------------------------------------------------

    async def request(self, head: bytes, body: bytes) -> None:
        """Send a request and wait for the head of its response."""
        assert self._transport is not None
        self._reset()
        future = self._head = self._loop.create_future()
        self._transport.write(head + body if len(body) < 16384 else head)
        if len(body) >= 16384:
            self._transport.write(body)
        await future

    def _reset(self) -> None:
        self._parser = httptools.HttpResponseParser(self)
        self.status, self.headers = 0, []
        self._body, self._held_bytes, self._header_bytes = [], 0, 0
        self._until_close = self._complete = self._ended = self.touched = False
        self._error = self._on_data = self._on_end = None

    def push(self, on_data: Callable[[bytes], None], on_end: Callable[[Exception | None], None]) -> None:
        """Hand the body over as it comes, beginning with what has come; `on_end` is called exactly once."""
        self._on_data, self._on_end = on_data, on_end
        self._deliver()

    def pause(self) -> None:
        if self._transport is not None and not self.closed:
            self._transport.pause_reading()

    def resume(self) -> None:
        if self._transport is not None and not self.closed:
            self._transport.resume_reading()
            self._deliver()

    def release(self) -> None:
        """The reader has all it wants: reuse the connection if its body ends soon."""
        self._on_data = self._on_end = None
        if self._ended or self.closed:
            return
        if self._complete:
            self._recycle()
        elif self._timer is None:
            self._timer = self._loop.call_later(LINGER_SECONDS, self.abort)

    def abort(self) -> None:
        self._on_data = self._on_end = None
        if self._transport is not None and not self.closed:
            self._transport.abort()

    def _recycle(self) -> None:
        self._ended = True
        self._cancel_timer()
        if self._keep_alive and not self._until_close:
            self._pool.give_back(self)
        else:
            self.abort()

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def expire_in(self, seconds: float) -> None:
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
            self.abort()
            return
        self.touched = True
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError as error:
            self._fail(httpx.RemoteProtocolError(f"malformed HTTP: {error}"))
            self.abort()
            return
        self._deliver()

    def eof_received(self) -> bool:
        if self._until_close and self._head is None:
            self._complete = True
            self._deliver()
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        self.closed = True
        self._cancel_timer()
        self._pool.forget(self)
        if not self._complete:
            self._fail(httpx.ReadError(str(exc) or "connection reset") if exc else httpx.RemoteProtocolError("cut off"))

    def _fail(self, error: Exception) -> None:
        """A broken body: what came before the break is delivered first."""
        if self._complete or self._error is not None:
            return
        self._error = error
        if self._head is not None and not self._head.done():
            self._head.set_exception(error)
            self._head = None
        self._deliver()

    def _deliver(self) -> None:
        if self._on_data is None:
            if self._held_bytes > MAX_HELD_BYTES:
                self.pause()
            elif self._complete and self._timer is not None:
                self._recycle()
            return
        if self._body:
            body, self._body = self._body, []
            self._held_bytes = 0
            self._on_data(body[0] if len(body) == 1 else b"".join(body))
        if (self._complete or self._error is not None) and self._on_end is not None:
            on_end, self._on_data, self._on_end = self._on_end, None, None
            if self._complete and not self._ended:
                self._recycle()
            on_end(self._error)

    # -- what httptools calls -------------------------------------------------------------------------------------

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
        names = {name.lower() for name, _ in self.headers}
        sized = b"content-length" in names or b"transfer-encoding" in names
        self._until_close = not sized and status not in (204, 304)
        head, self._head = self._head, None
        if head is not None and not head.done():
            head.set_result(None)

    def on_body(self, body: bytes) -> None:
        self._body.append(body)
        self._held_bytes += len(body)

    def on_message_complete(self) -> None:
        if self.status:
            self._complete = True


class Pool:
    """The connections of one process, by origin."""

    def __init__(self, max_connections: int, ssl_context: ssl.SSLContext | None) -> None:
        self._max = max_connections
        self._ssl = ssl_context
        self._idle: dict[Origin, list[Connection]] = {}
        self._open: dict[Connection, Origin] = {}
        self._counts: dict[Origin, int] = {}
        self._waiting: dict[Origin, list[asyncio.Future[None]]] = {}

    async def take(self, origin: Origin, patience: float | None, *, fresh: bool = False) -> Connection:
        """A connection to the origin. Raises httpx.ConnectError, httpx.ConnectTimeout or httpx.PoolTimeout."""
        while True:
            idle = self._idle.get(origin)
            while idle and not fresh:
                connection = idle.pop()
                if not connection.closed:
                    connection.take()
                    return connection
            if self._counts.get(origin, 0) < self._max:
                return await self._connect(origin, patience)
            await self._wait(origin, patience)

    async def _wait(self, origin: Origin, patience: float | None) -> None:
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        waiting = self._waiting.setdefault(origin, [])
        waiting.append(future)
        try:
            async with asyncio.timeout(patience):
                await future
        except TimeoutError:
            raise httpx.PoolTimeout("all connections are in use") from None
        finally:
            if future in waiting:
                waiting.remove(future)

    async def _connect(self, origin: Origin, patience: float | None) -> Connection:
        scheme, host, port = origin
        self._counts[origin] = self._counts.get(origin, 0) + 1
        context = self._tls() if scheme == "https" else None
        try:
            async with asyncio.timeout(patience):
                _, connection = await asyncio.get_running_loop().create_connection(
                    lambda: Connection(self), host, port, ssl=context, server_hostname=host if context else None
                )
        except TimeoutError:
            self._uncount(origin)
            raise httpx.ConnectTimeout("no connection in time") from None
        except (OSError, ssl.SSLError) as error:
            self._uncount(origin)
            raise httpx.ConnectError(str(error) or type(error).__name__) from error
        except BaseException:
            self._uncount(origin)
            raise
        if connection.closed:
            self._uncount(origin)
            raise httpx.ConnectError("the connection was closed at once")
        self._open[connection] = origin
        return connection

    def _tls(self) -> ssl.SSLContext:
        if self._ssl is None:
            self._ssl = httpx.create_ssl_context()
        return self._ssl

    def give_back(self, connection: Connection) -> None:
        origin = self._open.get(connection)
        if origin is None or connection.closed:
            return
        connection.idle = True
        connection.expire_in(KEEPALIVE_SECONDS)
        self._idle.setdefault(origin, []).append(connection)
        self._wake(origin)

    def forget(self, connection: Connection) -> None:
        origin = self._open.pop(connection, None)
        if origin is None:
            return
        idle = self._idle.get(origin)
        if idle and connection in idle:
            idle.remove(connection)
        self._uncount(origin)

    def _uncount(self, origin: Origin) -> None:
        self._counts[origin] -= 1
        self._wake(origin)

    def _wake(self, origin: Origin) -> None:
        waiting = self._waiting.get(origin)
        while waiting:
            future = waiting.pop(0)
            if not future.done():
                future.set_result(None)
                return

    def __len__(self) -> int:
        return len(self._open)

    def close(self) -> None:
        for connection in list(self._open):
            connection.abort()


class Payload(httpx.AsyncByteStream):
    """A request's body that is there already. Sent without a copy."""

    def __init__(self, data: bytes) -> None:
        self.data = data

    async def __aiter__(self) -> AsyncIterator[bytes]:
        yield self.data


class PushStream(httpx.AsyncByteStream):
    """A response's body. Push it, or iterate over it like any other."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection

    async def __aiter__(self) -> AsyncIterator[bytes]:
        queue: asyncio.Queue[bytes | Exception | None] = asyncio.Queue()
        self.connection.push(queue.put_nowait, queue.put_nowait)
        while (item := await queue.get()) is not None:
            if isinstance(item, Exception):
                raise item
            yield item

    async def aclose(self) -> None:
        self.connection.release()


class PushTransport(httpx.AsyncBaseTransport):
    """`max_connections` is for each origin. Timeouts are those of the request (`connect`, `pool`); the wait for the
    head and the silence between bytes are the caller's to bound."""

    def __init__(self, max_connections: int = 4096, ssl_context: ssl.SSLContext | None = None) -> None:
        self._pool = Pool(max_connections, ssl_context)

    @property
    def open_connections(self) -> int:
        return len(self._pool)

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        url = request.url
        origin = (url.scheme, url.host, url.port or (443 if url.scheme == "https" else 80))
        timeout = request.extensions.get("timeout", {}).get("connect")
        body = request.stream.data if isinstance(request.stream, Payload) else await request.aread()
        head = _head(request, len(body))
        connection = await self._pool.take(origin, timeout)
        try:
            await connection.request(head, body)
        except httpx.TransportError:
            if not connection.reused or connection.touched:
                raise
            connection = await self._pool.take(origin, timeout, fresh=True)
            try:
                await connection.request(head, body)
            except BaseException:
                connection.abort()
                raise
        except BaseException:
            connection.abort()
            raise
        return httpx.Response(
            connection.status, headers=connection.headers, stream=PushStream(connection), request=request
        )

    async def aclose(self) -> None:
        self._pool.close()


def _head(request: httpx.Request, length: int) -> bytes:
    lines = [b"%b %b HTTP/1.1" % (request.method.encode(), request.url.raw_path)]
    raw = request.headers.raw
    lines += [b"%b: %b" % line for line in raw]
    if length and not any(name.lower() == b"content-length" for name, _ in raw):
        lines.append(b"content-length: %d" % length)
    return b"\r\n".join((*lines, b"", b""))
