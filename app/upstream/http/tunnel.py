"""Connections through an HTTP proxy."""

import asyncio
import ssl

import httpx

from app.upstream.http.options import Proxy

MAX_ANSWER_BYTES = 16 * 1024


class ProxyUnreachable(httpx.ConnectError):
    """No connection to the proxy could be made."""


class ProxyRefused(httpx.ConnectError):
    """The proxy did not open a tunnel to the server."""


async def open_tunnel(
    proxy: Proxy, context: ssl.SSLContext | None, server: tuple[str, int] | None, protocol: asyncio.Protocol
) -> asyncio.Transport | None:
    """Connect to the proxy, with TLS if there is a context.

    Without a server the protocol speaks to the proxy itself. Otherwise the proxy is asked for a tunnel to it (RFC 9110,
    9.3.6), whose transport is returned; the protocol has not seen it yet. Raises OSError, ProxyRefused.
    """
    loop = asyncio.get_running_loop()
    name = proxy.host if context else None
    if server is None:
        await loop.create_connection(lambda: protocol, proxy.host, proxy.port, ssl=context, server_hostname=name)
        return None
    transport, asking = await loop.create_connection(
        lambda: _Asking(loop), proxy.host, proxy.port, ssl=context, server_hostname=name
    )
    try:
        transport.write(_make_request(proxy, *server))
        status = await asking.answered
    except BaseException:
        transport.abort()
        raise
    if not 200 <= status < 300:
        transport.abort()
        raise ProxyRefused(f"the proxy {proxy.host}:{proxy.port} answered {status} to the request for a tunnel")
    return transport


def _make_request(proxy: Proxy, host: str, port: int) -> bytes:
    address = f"{f'[{host}]' if ':' in host else host}:{port}".encode("ascii")
    authorization = b"" if proxy.authorization is None else b"proxy-authorization: %b\r\n" % proxy.authorization
    return b"CONNECT %b HTTP/1.1\r\nhost: %b\r\n%b\r\n" % (address, address, authorization)


class _Asking(asyncio.Protocol):
    """Reads the head of the proxy's answer. Nothing may follow it: the server speaks only when it is spoken to."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.answered: asyncio.Future[int] = loop.create_future()
        self._head = b""

    def data_received(self, data: bytes) -> None:
        self._head += data
        head, end, _ = self._head.partition(b"\r\n\r\n")
        if self.answered.done() or not (end or len(self._head) > MAX_ANSWER_BYTES):
            return
        words = head.split(b"\r\n", 1)[0].split(b" ", 2)
        if not end or len(words) < 2 or not words[0].startswith(b"HTTP/1.") or not words[1].isdigit():
            self.answered.set_exception(ProxyRefused("the proxy's answer is not HTTP"))
        else:
            self.answered.set_result(int(words[1]))

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.answered.done():
            self.answered.set_exception(ProxyRefused("the proxy closed the connection without an answer"))
