"""Fetch a URL: look its host up once, connect to an address that was checked, and check every redirect again.

The connection is made to the address itself, with the host name in `Host` and in the TLS handshake, and the
certificate is checked against the name. A name that changes its address between check and connection therefore gains
nothing. Connections are not reused: one to an address must never serve another name. No proxies, cookies, netrc or
credentials are used.

Host names are looked up on separate threads, so that a slow name server does not delay other work. Bodies are limited
both as sent and after decompression.
"""

import asyncio
import socket
import ssl
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from types import TracebackType
from typing import Self

import httpx
from msgspec import Struct

from app.attachments.fetch.address_policy import (
    AllowList,
    FetchTarget,
    Resolver,
    check_addresses,
    check_url_text,
    parse_target,
)
from app.chat.messages import MediaKind
from app.errors import MediaRefused, MediaUnavailable, ParleyError, TooLarge
from app.runtime.decompress import ExpandsTooFar, decompressor_for

_THREADS = 8


class ThreadedResolver:
    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="lookup")

    async def __call__(self, host: str, port: int) -> list[str]:
        """Return all addresses in the order in which to try them. Raises OSError."""
        addresses = await asyncio.get_running_loop().run_in_executor(self._threads, _addresses, host, port)
        return list(dict.fromkeys(addresses))

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)


def _addresses(host: str, port: int) -> list[str]:
    return [str(info[4][0]) for info in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)]


async def read_limited(response: httpx.Response, max_bytes: int) -> bytes:
    """Read and decompress a body.

    Raises TooLarge as soon as it exceeds `max_bytes`, MediaRefused for an unknown encoding or a broken body.
    """
    encoding = response.headers.get("content-encoding", "")
    try:
        decompressor = decompressor_for(encoding)
    except ValueError:
        shown = encoding.strip().lower()[:40]
        raise MediaRefused(f"is sent with Content-Encoding {shown!r}; only gzip and deflate can be read") from None
    body = bytearray()
    async for data in response.aiter_raw():
        try:
            body += decompressor.feed(data, max_bytes - len(body) + 1)
        except ExpandsTooFar:
            raise TooLarge(f"is larger than {max_bytes} bytes") from None
        except ValueError:
            raise MediaRefused("its compressed body is damaged") from None
        if len(body) > max_bytes:
            raise TooLarge(f"is larger than {max_bytes} bytes")
    if not decompressor.complete:
        raise MediaRefused("its compressed body is damaged")
    return bytes(body)


_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_BINARY = ("application/octet-stream", "binary/octet-stream", "application/binary", "")
_TYPES: dict[MediaKind, tuple[str, ...]] = {
    "image": ("image/",),
    "audio": ("audio/", "video/", "application/ogg"),
    "video": ("video/", "audio/", "application/mp4", "application/ogg"),
    "file": ("",),
}


class FetchLimits(Struct, frozen=True):
    allow: tuple[str, ...]
    """Hosts and networks that are allowed though they are not public."""
    max_bytes: int
    max_seconds: float
    """The limit for one URL: waiting for a slot, the look-up, all redirects and the body."""
    max_redirects: int
    max_concurrent: int
    """The limit of all requests together."""


class FetchedFile(Struct, frozen=True):
    data: bytes
    media_type: str
    """As declared by the server, in lower case, without parameters; it may be wrong or empty."""
    url: str
    """The URL after redirects."""
    charset: str | None = None


@cache
def _default_tls() -> ssl.SSLContext:
    """The system's certificates, read once for each process: it takes long."""
    return ssl.create_default_context()


class Fetcher:
    """Fetches URLs; use it as an async context manager.

    Tests pass a `resolver` and a `transport`. The transport gets URLs with the checked address as the host.
    """

    def __init__(
        self,
        limits: FetchLimits,
        resolver: Resolver | None = None,
        transport: httpx.AsyncBaseTransport | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        """Raises ValueError for an entry of the allow list that is neither a host nor a network."""
        self._limits = limits
        self._allowed = AllowList(limits.allow)
        self._lookup = None if resolver else ThreadedResolver()
        self._resolver: Resolver = resolver or self._lookup  # type: ignore[assignment]  # one of the two is set
        self._transport = transport or httpx.AsyncHTTPTransport(
            verify=tls or _default_tls(),
            trust_env=False,
            limits=httpx.Limits(max_connections=limits.max_concurrent, max_keepalive_connections=0),
        )
        self._slots = asyncio.Semaphore(limits.max_concurrent)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        await self._transport.aclose()
        if self._lookup is not None:
            self._lookup.close()

    async def fetch(self, url: str, *, kinds: Iterable[MediaKind], param: str | None = None) -> FetchedFile:
        """Fetch a URL whose declared media type is one of `kinds`.

        Raises MediaRefused, MediaUnavailable or TooLarge, each with `param`, the path of the URL in the request.
        """
        try:
            async with asyncio.timeout(self._limits.max_seconds), self._slots:
                return await self._follow(url, tuple(kinds))
        except TimeoutError:
            error: ParleyError = MediaUnavailable(f"was not fetched within {self._limits.max_seconds:g} s", param)
        except (httpx.TransportError, OSError) as cause:
            error = MediaUnavailable(f"could not be fetched: {_describe_failure(cause)}", param)
        except ParleyError as cause:
            cause.param = param
            error = cause
        raise error from None

    def check_url_text(self, url: str) -> None:
        """Check a URL without any look-up. Raises MediaRefused if its text shows that its address is not public."""
        check_url_text(url, self._allowed)

    async def check_addresses(self, url: str, *, param: str | None = None) -> None:
        """Look up a URL's host and check all its addresses.

        Raises MediaRefused if one of them is not public, MediaUnavailable if the look-up fails.
        """
        try:
            target = parse_target(url, self._allowed)
            async with asyncio.timeout(self._limits.max_seconds):
                check_addresses(target.host, await self._addresses(target), self._allowed)
        except (TimeoutError, OSError):
            raise MediaUnavailable("could not be fetched: its host name was not found", param) from None
        except ParleyError as error:
            error.param = param
            raise

    async def _follow(self, url: str, kinds: tuple[MediaKind, ...]) -> FetchedFile:
        for _ in range(self._limits.max_redirects + 1):
            target = parse_target(url, self._allowed)
            response = await self._send(target, kinds)
            try:
                if response.status_code not in _REDIRECTS:
                    return await self._read(response, target, kinds)
                url = _redirect_url(target, response)
            finally:
                await response.aclose()
        raise MediaRefused(f"redirects more than {self._limits.max_redirects} times")

    async def _send(self, target: FetchTarget, kinds: tuple[MediaKind, ...]) -> httpx.Response:
        addresses = check_addresses(target.host, await self._addresses(target), self._allowed)
        for at, address in enumerate(addresses):
            try:
                return await self._transport.handle_async_request(self._request(target, address, kinds))
            except (httpx.ConnectError, httpx.ConnectTimeout):
                if at + 1 == len(addresses):
                    raise
        raise AssertionError("check_addresses returns at least one address")

    async def _addresses(self, target: FetchTarget) -> list[str]:
        if ":" in target.host or target.host.replace(".", "").isdigit():
            return [target.host]
        return list(await self._resolver(target.host, target.port))

    def _request(self, target: FetchTarget, address: str, kinds: tuple[MediaKind, ...]) -> httpx.Request:
        accept = ", ".join(f"{kind}/*" for kind in kinds if kind != "file")
        headers = {
            "host": target.url.netloc.decode("ascii"),
            "accept": f"{accept}, */*;q=0.8" if accept else "*/*",
            "accept-encoding": "identity",
            "user-agent": "parley-fetch",
            "connection": "close",
        }
        seconds = self._limits.max_seconds
        timeouts = {"connect": min(seconds, 5.0), "read": seconds, "write": seconds, "pool": seconds}
        extensions = {"timeout": timeouts, "sni_hostname": target.host}
        return httpx.Request("GET", target.url.copy_with(host=address), headers=headers, extensions=extensions)

    async def _read(self, response: httpx.Response, target: FetchTarget, kinds: tuple[MediaKind, ...]) -> FetchedFile:
        status = response.status_code
        if status in (408, 425, 429) or status >= 500:
            raise MediaUnavailable(f"its server answered with status {status}")
        if status != 200:
            raise MediaRefused(f"its server answered with status {status}")
        media_type = response.headers.get("content-type", "").partition(";")[0].strip().lower()
        if media_type not in _BINARY and not any(media_type.startswith(_TYPES[kind]) for kind in kinds):
            raise MediaRefused(f"is declared as {media_type[:100]!r}; expected {' or '.join(kinds)}")
        length = response.headers.get("content-length", "")
        if length.isdigit() and int(length[:20]) > self._limits.max_bytes:
            raise TooLarge(f"is larger than {self._limits.max_bytes} bytes")
        data = await read_limited(response, self._limits.max_bytes)
        return FetchedFile(data, media_type, str(target.url), response.charset_encoding)


def _redirect_url(target: FetchTarget, response: httpx.Response) -> str:
    location = response.headers.get("location", "")
    try:
        return str(target.url.join(location)) if location else ""
    except (httpx.InvalidURL, ValueError):
        raise MediaRefused("redirects to a URL that is not valid") from None


def _describe_failure(cause: Exception) -> str:
    """Describe a failure without naming an address, which callers must not see."""
    if isinstance(cause, httpx.ConnectError | httpx.ConnectTimeout):
        return "no connection to its host"
    if isinstance(cause, httpx.TransportError):
        return "its server closed the connection or does not speak HTTP"
    return "its host name was not found"
