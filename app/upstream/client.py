"""The only HTTP to model servers: a request out, and its reply as soon as the response's head is there.

The transport is called directly: httpx's client around it would follow redirects with the key, keep the cookies of all
callers in one jar and read proxies from the environment, none of which a gateway may do.
"""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

import httpx
import msgspec

from app import __version__
from app.chat.events import Fault
from app.errors import UpstreamFailed
from app.upstream import faults
from app.upstream.body import Body
from app.upstream.encoding import inflater
from app.upstream.pool import Share
from app.upstream.transport import Payload, PushTransport

MAX_ERROR_BYTES = 256 * 1024
MAX_LIST_BYTES = 8 * 1024 * 1024
ERROR_BODY_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class Target:
    """A model server as the client sees it."""

    name: str
    base_url: str
    headers: httpx.Headers
    """What every request carries, the host included."""
    connect_seconds: float
    first_token_seconds: float
    idle_seconds: float
    max_connections: int = 4096
    max_reply_bytes: int = 64 * 1024 * 1024
    """Of one reply, unpacked."""
    max_reply_seconds: float = 3600.0
    """From the request to the end of the reply."""
    variant: tuple[tuple[str, str], ...] = ()
    """Those of the headers that may change what the server answers."""
    whole_reply_seconds: float = 600.0
    """How long a reply that is not streamed may take."""

    def bounded(self, seconds: float | None) -> "Target":
        """No wait longer than `seconds`."""
        if seconds is None:
            return self
        return replace(
            self,
            connect_seconds=min(self.connect_seconds, seconds),
            first_token_seconds=min(self.first_token_seconds, seconds),
            idle_seconds=min(self.idle_seconds, seconds),
            whole_reply_seconds=min(self.whole_reply_seconds, seconds),
        )

    def whole(self) -> "Target":
        """For a reply that is not streamed: its first byte comes when all of it is there."""
        return replace(self, first_token_seconds=self.whole_reply_seconds)

    @property
    def share(self) -> Share:
        return Share(self.name, self.max_connections)

    def url(self, path: str) -> httpx.URL:
        return _url(self.base_url + path)


@lru_cache(maxsize=1024)
def _url(text: str) -> httpx.URL:
    return httpx.URL(text)


def request_headers(base_url: str, api_key: str | None, headers: Mapping[str, str]) -> httpx.Headers:
    """What every request to a server carries. The body is asked for uncompressed: compressors hold tokens back."""
    base = {
        "host": httpx.URL(base_url).netloc.decode(),
        "accept": "text/event-stream, application/json",
        "accept-encoding": "identity",
        "content-type": "application/json",
        "user-agent": f"parley/{__version__} httpx/{httpx.__version__}",
    }
    if api_key:
        base["authorization"] = f"Bearer {api_key}"
    return httpx.Headers(base | {name.lower(): value for name, value in headers.items()})


class UpstreamClient:
    def __init__(self, transport: httpx.AsyncBaseTransport | None = None) -> None:
        self._transport = transport or PushTransport()

    async def open(self, target: Target, body: bytes) -> Body:
        """The reply's body, once the server has said that it has one. Raises UpstreamFailed."""
        request = httpx.Request(
            "POST",
            target.url("/chat/completions"),
            headers=target.headers,
            stream=Payload(body),
            extensions={
                "timeout": {"connect": target.connect_seconds, "read": target.first_token_seconds},
                "share": target.share,
            },
        )
        try:
            response = await self._transport.handle_async_request(request)
        except httpx.TransportError as error:
            raise UpstreamFailed(transport_fault(error, target)) from error
        if response.status_code != 200:
            raise UpstreamFailed(await self._refusal(response))
        try:
            return Body(response, inflater(response.headers.get("content-encoding")))
        except ValueError as error:
            Body(response, inflater(None)).abort()
            raise UpstreamFailed(
                faults.made("upstream_protocol", f"the model server sent {error}", status=200)
            ) from None

    async def _refusal(self, response: httpx.Response) -> Fault:
        """The fault of a response that is no 200; its body is read up to a limit of size and time."""
        pieces: list[bytes] = []
        body = Body(response, inflater(None))
        try:
            async with asyncio.timeout(ERROR_BODY_SECONDS):
                await _read(response, pieces, MAX_ERROR_BYTES)
        except (TimeoutError, httpx.TransportError):
            body.abort()
        except BaseException:
            body.abort()
            raise
        else:
            body.release()
        return _fault_of(response, b"".join(pieces))

    async def models(self, target: Target) -> list[dict[str, Any]]:
        """What the server itself lists. Raises UpstreamFailed."""
        request = httpx.Request(
            "GET", target.url("/models"), headers=target.headers, extensions={"share": target.share}
        )
        pieces: list[bytes] = []
        try:
            async with asyncio.timeout(target.connect_seconds):
                response = await self._transport.handle_async_request(request)
                try:
                    await _read(response, pieces, MAX_LIST_BYTES)
                finally:
                    await response.aclose()
            data = msgspec.json.decode(inflater(response.headers.get("content-encoding")).feed(b"".join(pieces)))
        except (TimeoutError, httpx.TransportError, ValueError, RecursionError) as error:
            raise UpstreamFailed(faults.made("server_error", f"{target.name} lists no models")) from error
        rows = data.get("data") if isinstance(data, dict) else None
        return [row for row in rows if isinstance(row, dict)] if isinstance(rows, list) else []

    async def aclose(self) -> None:
        await self._transport.aclose()


async def _read(response: httpx.Response, pieces: list[bytes], limit: int) -> None:
    """The body's bytes, as they are sent; what goes beyond the limit is not read."""
    if response.is_stream_consumed:
        pieces.append(response.content)
        return
    async for piece in response.aiter_raw():
        pieces.append(piece)
        limit -= len(piece)
        if limit < 0:
            return


def _fault_of(response: httpx.Response, body: bytes) -> Fault:
    headers: Mapping[str, str] = response.headers
    try:
        body = inflater(headers.get("content-encoding")).feed(body)[:MAX_ERROR_BYTES]
    except ValueError:
        body = b""
    status = response.status_code
    if 300 <= status < 400:
        text = f"the model server redirects ({status}); is its base_url right?"
        return faults.made("upstream_protocol", text, status=status)
    if status < 300:
        return faults.made("upstream_protocol", f"the model server answered {status} instead of 200", status=status)
    return faults.from_response(status, headers, body, datetime.now(UTC))


def transport_fault(error: Exception, target: Target) -> Fault:
    """What broke on the wire, in words that name no address of ours."""
    if isinstance(error, httpx.ConnectTimeout):
        return faults.made("timeout", f"no connection to the model server within {target.connect_seconds:g} s")
    if isinstance(error, httpx.ReadTimeout):
        return faults.made("timeout", f"the model server did not answer within {target.first_token_seconds:g} s")
    if isinstance(error, httpx.PoolTimeout):
        return faults.made("overloaded", "all connections to the model server are in use")
    if isinstance(error, httpx.ConnectError):
        return faults.made("server_error", "no connection to the model server")
    return faults.made("upstream_incomplete", "the connection to the model server broke before its reply was finished")
