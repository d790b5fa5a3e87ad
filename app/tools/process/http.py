"""HTTP to a server of tools, for the SDK's transport: bounded answers, and failures as answers.

In the SDK an error of one connection ends all calls of the session. Here it is an answer with the status 502, and the
body of an interrupted answer ends early, so that only the call that it was for fails.
"""

import asyncio
import contextlib
import json
from collections.abc import AsyncGenerator, AsyncIterator

import httpx2
from msgspec import Struct
from msgspec.structs import replace

from app.tools.process.messages import has_half_pair, repair_halves

LOST, TOO_LARGE, BAD_REQUEST = 502, 413, 400
_SHOWN = 1000
_SESSION = "mcp-session-id"


class HttpFailure(Struct, frozen=True):
    status: int
    reason: str
    """A plain sentence without the address."""
    had_session: bool
    """The request named a session."""
    body: str = ""
    """The beginning of the server's answer."""


class BoundedHttp(httpx2.AsyncBaseTransport):
    """Sends the requests of one session. Those of the protocol are known by their id."""

    def __init__(self, max_body_bytes: int) -> None:
        self._inner = httpx2.AsyncHTTPTransport(limits=httpx2.Limits(max_connections=None))
        self.max_bytes = max_body_bytes
        self._failures: dict[object, HttpFailure] = {}
        self._open: dict[object, _OpenRequest] = {}

    def take_failure(self, id_: object) -> HttpFailure | None:
        """Return how the request with this id has failed, once."""
        return self._failures.pop(id_, None)

    def note_body(self, id_: object, body: bytes) -> None:
        """Add to the failure of a request what the server says of it."""
        failure = self._failures.get(id_)
        if failure is not None:
            self._failures[id_] = replace(failure, body=body[:_SHOWN].decode("utf-8", "replace"))

    def abort(self, id_: object) -> None:
        """Close the stream of a request that is not answered yet."""
        request = self._open.get(id_)
        if request is not None:
            request.abort()

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        id_, has_session = _read_id(await request.aread()), _SESSION in request.headers
        sent = _OpenRequest(asyncio.ensure_future(self._inner.handle_async_request(request)))
        if id_ is not None:
            self._open[id_] = sent
        try:
            response = await sent.wait()
        except (httpx2.HTTPError, OSError) as error:
            self._forget(id_)
            return self._fail(id_, LOST, f"the server cannot be reached ({type(error).__name__})", has_session)
        if response.headers.get("content-encoding", "identity").strip().lower() not in ("", "identity"):
            await response.aclose()
            self._forget(id_)
            return self._fail(id_, LOST, "the server compressed its answer, which it was not asked to", has_session)
        if id_ is not None and response.status_code >= 300:
            reason = f"the server answered with the HTTP status {response.status_code}"
            self._failures[id_] = HttpFailure(response.status_code, reason, has_session)
        else:
            self._failures.pop(id_, None)
        is_json = response.headers.get("content-type", "").lower().startswith("application/json")
        most = self.max_bytes if is_json or response.status_code >= 300 else None
        assert isinstance(response.stream, httpx2.AsyncByteStream)
        body = _Body(self, id_, response.stream, sent, most, has_session)
        if response.status_code == BAD_REQUEST:  # the SDK reads no body but JSON, and some say in it what is wrong
            data = b"".join([part async for part in body])
            await body.aclose()
            return httpx2.Response(response.status_code, headers=response.headers, content=data)
        return httpx2.Response(response.status_code, headers=response.headers, stream=body)

    async def aclose(self) -> None:
        await self._inner.aclose()

    def _fail(self, id_: object, status: int, reason: str, has_session: bool) -> httpx2.Response:
        self._note(id_, HttpFailure(status, reason, has_session))
        return httpx2.Response(status)

    def _note(self, id_: object, failure: HttpFailure) -> None:
        if id_ is not None:
            self._failures[id_] = failure

    def _forget(self, id_: object) -> None:
        self._open.pop(id_, None)


class _OpenRequest:
    """A request that is waiting for its head, or whose body is read."""

    def __init__(self, head: "asyncio.Future[httpx2.Response]") -> None:
        self._head = head
        self._reading: asyncio.Future[bytes] | None = None
        self._aborted = False

    async def wait(self) -> httpx2.Response:
        try:
            return await asyncio.shield(self._head)
        except asyncio.CancelledError:
            if self._aborted and self._head.cancelled():
                raise httpx2.ReadError("aborted") from None
            self._head.cancel()
            raise

    async def read(self, chunks: AsyncIterator[bytes]) -> bytes | None:
        """Return the next bytes of the body; None at its end, or when it was aborted."""
        if self.is_aborted():
            return None
        reading = self._reading = asyncio.ensure_future(_next(chunks))
        try:
            return await asyncio.shield(reading)
        except StopAsyncIteration:
            return None
        except asyncio.CancelledError:
            if self.is_aborted() and reading.cancelled():
                return None
            reading.cancel()
            raise

    def is_aborted(self) -> bool:
        return self._aborted

    def abort(self) -> None:
        self._aborted = True
        for future in (self._head, self._reading):
            if future is not None and not future.done():
                future.cancel()


async def _next(chunks: AsyncIterator[bytes]) -> bytes:
    try:
        return await anext(chunks)
    except StopAsyncIteration:
        return b""


class _Body(httpx2.AsyncByteStream):
    """The body of an answer. It ends early where it is too long, cannot be read, or was aborted."""

    def __init__(
        self,
        http: BoundedHttp,
        id_: object,
        stream: httpx2.AsyncByteStream,
        request: _OpenRequest,
        most: int | None,
        has_session: bool,
    ) -> None:
        self._http = http
        self._id = id_
        self._stream = stream
        self._request = request
        self._most = most
        self._has_session = has_session

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async with contextlib.aclosing(self._read()) as chunks:
            if self._most is not None:
                body = repair_halves(b"".join([data async for data in chunks]))
                self._http.note_body(self._id, body)
                yield body
                return
            async for lines in _repair_lines(chunks, self._http.max_bytes):
                yield lines

    async def _read(self) -> AsyncGenerator[bytes, None]:
        size = 0
        chunks = aiter(self._stream)
        try:
            while data := await self._request.read(chunks):
                size += len(data)
                if self._most is not None and size > self._most:
                    self._note(TOO_LARGE, "the server's answer is longer than its limit")
                    return
                yield data
        except (httpx2.HTTPError, OSError) as error:
            self._note(LOST, f"the connection to the server was lost ({type(error).__name__})")

    async def aclose(self) -> None:
        self._http._forget(self._id)
        with contextlib.suppress(Exception):
            await self._stream.aclose()

    def _note(self, status: int, reason: str) -> None:
        self._http._note(self._id, HttpFailure(status, reason, self._has_session))


async def _repair_lines(chunks: AsyncIterator[bytes], most: int) -> AsyncIterator[bytes]:
    """Mend the lines of a stream of events. A line that is longer than any event may be goes on as it is."""
    parts: list[bytes] = []
    size = 0
    async for data in chunks:
        head, newline, rest = data.rpartition(b"\n")
        if newline or size + len(rest) > most:
            lines = b"".join([*parts, head, newline])
            yield _repair_data(lines) if newline else lines
            parts, size = [], 0
        parts.append(rest)
        size += len(rest)
    yield b"".join(parts)


def _repair_data(lines: bytes) -> bytes:
    if not has_half_pair(lines):
        return lines
    return b"\n".join(
        b"data: " + repair_halves(line[len(b"data:") :].strip()) if line.startswith(b"data:") else line
        for line in lines.split(b"\n")
    )


def _read_id(body: bytes) -> object:
    """Return the id of the JSON-RPC request in a body; None if there is none."""
    try:
        message = json.loads(body) if body else None
    except ValueError:
        return None
    return message.get("id") if isinstance(message, dict) and "method" in message else None
