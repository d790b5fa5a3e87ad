"""An httpx transport for a thousand concurrent streams.

httpx's own transport costs tens of microseconds for every chunk. This one is an ordinary `httpx.AsyncBaseTransport`,
but it can also *push* the body of a response: each socket read is delivered in one call, without a task switch. It
speaks HTTP/1.1 only and reuses connections. If the server had already closed a reused connection and no byte of the
response has arrived, the request is sent once more on a new connection.
"""

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Sequence
from typing import Any, NamedTuple, Protocol

import httpx

from app.upstream.http.connection import LINGER_SECONDS, Connection
from app.upstream.http.pool import Pool, PoolKey, ServerAddress


class ResponseBody(Protocol):
    """A response body, which is pushed to its reader."""

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


class HttpxBody:
    """The body of an httpx response. The connection of a `PushStream` pushes it; any other body is read by a task."""

    def __init__(self, response: httpx.Response) -> None:
        self._response = response
        stream = response.stream
        self._connection = stream.connection if isinstance(stream, PushStream) else None
        self._puller: asyncio.Task[None] | None = None
        self.sent_at = self._connection.sent_at if self._connection else asyncio.get_running_loop().time()
        self.encoding: str | None = response.headers.get("content-encoding")

    def push(self, on_data: Callable[[bytes], None], on_end: Callable[[Exception | None], None]) -> None:
        if self._connection is not None:
            self._connection.push(on_data, on_end)
        else:
            self._puller = asyncio.get_running_loop().create_task(_pull(self._response, on_data, on_end))

    def pause(self) -> None:
        if self._connection is not None:
            self._connection.pause()

    def resume(self) -> None:
        if self._connection is not None:
            self._connection.resume()

    def release(self) -> None:
        if self._connection is not None:
            self._connection.release()
        else:
            self.abort()

    def abort(self) -> None:
        if self._connection is not None:
            self._connection.abort()
        elif self._puller is not None:
            self._puller.cancel()


async def _pull(
    response: httpx.Response, on_data: Callable[[bytes], None], on_end: Callable[[Exception | None], None]
) -> None:
    try:
        if response.is_stream_consumed:
            on_data(response.content)
        else:
            async for data in response.aiter_raw():
                on_data(data)
    except Exception as error:
        on_end(error)
    else:
        on_end(None)
    finally:
        await response.aclose()


class RequestPayload(httpx.AsyncByteStream):
    """A request body that is already in memory. It is sent without a copy."""

    def __init__(self, data: bytes) -> None:
        self.data = data

    async def __aiter__(self) -> AsyncIterator[bytes]:
        yield self.data


class RequestHead(NamedTuple):
    """What all requests to one endpoint of a server begin with. It is made once."""

    address: ServerAddress
    data: bytes
    """The head up to the value of content-length, which is its last header."""


_FRAMING = (b"content-length", b"transfer-encoding")


def make_request_head(method: bytes, url: httpx.URL, headers: httpx.Headers, pool_key: PoolKey) -> RequestHead:
    raw = [line for line in headers.raw if line[0].lower() not in _FRAMING]
    return RequestHead(_address_of(url, pool_key), _join_lines(method, url, raw) + b"content-length: ")


def _address_of(url: httpx.URL, pool_key: PoolKey) -> ServerAddress:
    port = url.port or (443 if url.scheme == "https" else 80)
    return ServerAddress(url.scheme, url.raw_host.decode("ascii"), port, pool_key)


class PushStream(httpx.AsyncByteStream):
    """A response body. Call `connection.push`, or iterate over it: then nothing is read ahead of the iteration."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection

    async def __aiter__(self) -> AsyncIterator[bytes]:
        queue: asyncio.Queue[bytes | Exception | None] = asyncio.Queue()
        ended = False

        def on_data(data: bytes) -> None:
            queue.put_nowait(data)
            self.connection.pause()

        def on_end(error: Exception | None) -> None:
            nonlocal ended
            ended = True
            queue.put_nowait(error)

        self.connection.push(on_data, on_end)
        while (item := await queue.get()) is not None:
            if isinstance(item, Exception):
                raise item
            yield item
            if not ended and queue.empty():
                self.connection.resume()

    async def aclose(self) -> None:
        self.connection.release()


class PushTransport(httpx.AsyncBaseTransport):
    """The transport for model servers.

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
        """Send the request. The response holds no reference to it, because its body may be large."""
        origin = _address_of(request.url, request.extensions["pool_key"])
        body = request.stream.data if isinstance(request.stream, RequestPayload) else await request.aread()
        timeouts = request.extensions.get("timeout", {})
        connection = await self._send_request(
            origin, _head(request, len(body)), body, timeouts.get("connect"), timeouts.get("read")
        )
        return httpx.Response(connection.status, headers=connection.headers, stream=PushStream(connection))

    def post(
        self,
        head: RequestHead,
        body: bytes,
        connect_seconds: float | None,
        read_seconds: float | None,
        headers: Sequence[tuple[bytes, bytes]] = (),
    ) -> Coroutine[Any, Any, Connection]:
        """Send a request without httpx's objects, and return the connection once the head of the response has arrived.
        `headers` are sent in addition to those of the head.

        Raises httpx.TransportError.
        """
        more = b"".join([b"%b: %b\r\n" % line for line in headers]) if headers else b""
        data = b"%b%d\r\n%b\r\n" % (head.data, len(body), more)
        return self._send_request(head.address, data, body, connect_seconds, read_seconds)

    async def _send_request(
        self, origin: ServerAddress, head: bytes, body: bytes, connect_seconds: float | None, read_seconds: float | None
    ) -> Connection:
        connection = self._pool.take_idle(origin) or await self._pool.take(origin, connect_seconds)
        try:
            await connection.request(head, body, read_seconds)
            return connection
        except (httpx.NetworkError, httpx.RemoteProtocolError):
            connection.abort()
            if not connection.reused or connection.touched:
                raise
        except BaseException:
            connection.abort()
            raise
        connection = await self._pool.take(origin, connect_seconds, fresh=True)
        try:
            await connection.request(head, body, read_seconds)
        except BaseException:
            connection.abort()
            raise
        return connection

    async def aclose(self) -> None:
        self._pool.close()


def _head(request: httpx.Request, length: int) -> bytes:
    raw = [line for line in request.headers.raw if line[0].lower() != b"transfer-encoding"]
    if length and not any(name.lower() == b"content-length" for name, _ in raw):
        raw.append((b"content-length", b"%d" % length))
    return _join_lines(request.method.encode(), request.url, raw) + b"\r\n"


def _join_lines(method: bytes, url: httpx.URL, headers: Iterable[tuple[bytes, bytes]]) -> bytes:
    return b"".join((b"%b %b HTTP/1.1\r\n" % (method, url.raw_path), *(b"%b: %b\r\n" % line for line in headers)))
