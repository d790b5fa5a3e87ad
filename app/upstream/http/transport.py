"""An httpx transport for a thousand concurrent streams.

httpx's own transport costs tens of microseconds for every chunk. This one is an ordinary `httpx.AsyncBaseTransport`
for all requests but those for replies. It *pushes* the body of a reply: each socket read is delivered in one call,
without a task switch. It speaks HTTP/1.1 only and reuses connections. If the server had already closed a reused
connection and no byte of the response has arrived, the request is sent once more on a new connection.
"""

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Sequence
from typing import Any, NamedTuple, Protocol

import httpx

from app.upstream.http.connection import LINGER_SECONDS, UpstreamConnection
from app.upstream.http.pool import Pool, PoolKey, ServerAddress
from app.upstream.http.tunnel import ProxyRefused


class ResponseBody(Protocol):
    """A response whose head has arrived, and whose body is pushed to its reader."""

    status: int
    headers: list[tuple[bytes, bytes]]
    sent_at: float
    """The event loop's time when the request was sent."""
    encoding: str | None
    """The content-encoding of the response."""

    def push(self, on_data: Callable[[bytes], None], on_end: Callable[[Exception | None], None]) -> None:
        """Deliver the body as it arrives. `on_end` is called at most once, as the last call."""

    def pause(self) -> None: ...

    def resume(self) -> None: ...

    def release(self) -> None:
        """End the exchange after a complete reply; the connection may be reused."""

    def abort(self) -> None:
        """Close the connection at once."""


class LongBody(Protocol):
    """A body that is sent in pieces, as fast as the server takes them. It can be read again, if it may have to be."""

    def __len__(self) -> int: ...

    def __aiter__(self) -> AsyncIterator[bytes]: ...


class RequestHead(NamedTuple):
    """What all requests to one endpoint of a server begin with. It is made once."""

    address: ServerAddress
    data: bytes
    """The head up to the value of content-length, which is its last header."""


_FRAMING = (b"content-length", b"transfer-encoding")


def make_request_head(method: bytes, url: httpx.URL, headers: httpx.Headers, pool_key: PoolKey) -> RequestHead:
    raw = [line for line in headers.raw if line[0].lower() not in _FRAMING]
    return RequestHead(_address_of(url, pool_key), _join_lines(method, url, raw, pool_key) + b"content-length: ")


def _address_of(url: httpx.URL, pool_key: PoolKey) -> ServerAddress:
    port = url.port or (443 if url.scheme == "https" else 80)
    return ServerAddress(url.scheme, url.raw_host.decode("ascii"), port, pool_key)


class PushStream(httpx.AsyncByteStream):
    """A body that httpx reads by iteration. Nothing is read ahead of it."""

    def __init__(self, body: ResponseBody) -> None:
        self.body = body
        self._is_unfinished = False
        """The iteration has begun, and the body has not ended."""

    async def __aiter__(self) -> AsyncIterator[bytes]:
        queue: asyncio.Queue[bytes | Exception | None] = asyncio.Queue()
        self._is_unfinished = True

        def on_data(data: bytes) -> None:
            queue.put_nowait(data)
            self.body.pause()

        def on_end(error: Exception | None) -> None:
            self._is_unfinished = False
            queue.put_nowait(error)

        self.body.push(on_data, on_end)
        while (item := await queue.get()) is not None:
            if isinstance(item, Exception):
                raise item
            yield item
            if self._is_unfinished and queue.empty():
                self.body.resume()

    async def aclose(self) -> None:
        """Close the connection if the reader has stopped early. A body that was never read may still end soon."""
        if self._is_unfinished:
            self.body.abort()
        else:
            self.body.release()


class BodyTooLarge(Exception):
    """A body has more bytes than its reader takes."""


async def read_whole(body: ResponseBody, max_bytes: int) -> bytes:
    """Return the whole body as it was sent, and end its exchange. Raises BodyTooLarge and httpx.TransportError."""
    ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    data = bytearray()

    def on_data(piece: bytes) -> None:
        data.extend(piece)
        if len(data) > max_bytes:
            on_end(BodyTooLarge())

    def on_end(error: Exception | None) -> None:
        if ended.done():
            return
        if error is None:
            ended.set_result(None)
        else:
            ended.set_exception(error)

    try:
        body.push(on_data, on_end)
        await ended
    except BaseException:
        body.abort()
        raise
    body.release()
    return bytes(data)


class UpstreamTransport(Protocol):
    """Sends the requests to model servers: those for replies with `post`, all others as requests of httpx."""

    def post(
        self,
        head: RequestHead,
        body: bytes | LongBody,
        connect_seconds: float | None,
        read_seconds: float | None,
        headers: Sequence[tuple[bytes, bytes]] = (),
    ) -> Coroutine[Any, Any, ResponseBody]:
        """Send a request, and return the response once its head has arrived. `headers` are sent in addition to those of
        the head.

        Raises httpx.TransportError.
        """

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response: ...

    async def aclose(self) -> None: ...


class PushTransport(httpx.AsyncBaseTransport):
    """The transport for model servers: an `UpstreamTransport` over sockets.

    The request extension `pool_key`, which every request has, says which upstream's connections are used. Of the
    request's timeouts, `connect` bounds the wait for a connection and `read` the wait for the head of the response. The
    reader of the body bounds the time between its bytes.
    """

    def __init__(self, ssl_context: ssl.SSLContext | None = None, *, linger_seconds: float = LINGER_SECONDS) -> None:
        self._pool = Pool(ssl_context, linger_seconds)

    @property
    def open_connections(self) -> int:
        return len(self._pool)

    @property
    def idle_connections(self) -> int:
        """The number of open connections that no request uses."""
        return self._pool.idle_connections

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        address = _address_of(request.url, request.extensions["pool_key"])
        body = await request.aread()
        timeouts = request.extensions.get("timeout", {})
        connection = await self._send_request(
            address, _head(request, len(body)), body, timeouts.get("connect"), timeouts.get("read")
        )
        return httpx.Response(connection.status, headers=connection.headers, stream=PushStream(connection))

    def post(
        self,
        head: RequestHead,
        body: bytes | LongBody,
        connect_seconds: float | None,
        read_seconds: float | None,
        headers: Sequence[tuple[bytes, bytes]] = (),
    ) -> Coroutine[Any, Any, UpstreamConnection]:
        """See `UpstreamTransport.post`."""
        more = b"".join([b"%b: %b\r\n" % line for line in headers]) if headers else b""
        data = b"%b%d\r\n%b\r\n" % (head.data, len(body), more)
        if not isinstance(body, bytes):
            return self._send_long(head.address, data, body, connect_seconds, read_seconds)
        return self._send_request(head.address, data, body, connect_seconds, read_seconds)

    async def _send_long(
        self,
        address: ServerAddress,
        head: bytes,
        body: LongBody,
        connect_seconds: float | None,
        read_seconds: float | None,
    ) -> UpstreamConnection:
        """Send a long body over a new connection, and no faster than the server reads. A server that answers before it
        has all of it gets no more."""
        connection = await self._pool.take(address, connect_seconds, fresh=True)
        answered = connection.request(head, b"", None)
        try:
            async for piece in body:
                if answered.done() or not await connection.write_piece(piece, read_seconds):
                    connection.keep_no_longer()
                    break
            connection.expect_head(read_seconds)
            await answered
        except BaseException:
            answered.cancel()
            connection.abort()
            raise
        return connection if connection.status != _LOGIN_DEMANDED else _refuse_login(connection, address)

    async def _send_request(
        self,
        address: ServerAddress,
        head: bytes,
        body: bytes,
        connect_seconds: float | None,
        read_seconds: float | None,
    ) -> UpstreamConnection:
        connection = self._pool.take_idle(address) or await self._pool.take(address, connect_seconds)
        try:
            await connection.request(head, body, read_seconds)
            return connection if connection.status != _LOGIN_DEMANDED else _refuse_login(connection, address)
        except (httpx.NetworkError, httpx.RemoteProtocolError):
            connection.abort()
            if not connection.reused or connection.touched:
                raise
        except BaseException:
            connection.abort()
            raise
        connection = await self._pool.take(address, connect_seconds, fresh=True)
        try:
            await connection.request(head, body, read_seconds)
        except BaseException:
            connection.abort()
            raise
        return connection if connection.status != _LOGIN_DEMANDED else _refuse_login(connection, address)

    async def aclose(self) -> None:
        self._pool.close()


_LOGIN_DEMANDED = 407


def _refuse_login(connection: UpstreamConnection, address: ServerAddress) -> UpstreamConnection:
    """Raise ProxyRefused if a proxy that is not a tunnel has answered in place of the server."""
    proxy = address.pool_key.options.proxy
    if proxy is None or address.scheme != "http":
        return connection
    connection.abort()
    raise ProxyRefused(f"the proxy {proxy.host}:{proxy.port} answered {_LOGIN_DEMANDED}: it demands another login")


def _head(request: httpx.Request, length: int) -> bytes:
    raw = [line for line in request.headers.raw if line[0].lower() != b"transfer-encoding"]
    if length and not any(name.lower() == b"content-length" for name, _ in raw):
        raw.append((b"content-length", b"%d" % length))
    return _join_lines(request.method.encode(), request.url, raw, request.extensions["pool_key"]) + b"\r\n"


def _join_lines(method: bytes, url: httpx.URL, headers: Iterable[tuple[bytes, bytes]], pool_key: PoolKey) -> bytes:
    """Join the request line and the headers. A proxy that is not a tunnel gets the whole URL (RFC 9112, 3.2.2)."""
    target = url.raw_path
    proxy = pool_key.options.proxy
    if proxy is not None and url.scheme == "http":
        target = b"http://%b%b" % (url.netloc, target)
        if proxy.authorization is not None:
            headers = [*headers, (b"proxy-authorization", proxy.authorization)]
    return b"".join((b"%b %b HTTP/1.1\r\n" % (method, target), *(b"%b: %b\r\n" % line for line in headers)))
