"""Reads the body of a request within limits of size and time, and sends whole responses.

A compressed body is limited twice: as it arrives, and as it is decompressed. That happens in another thread, a piece at
a time, so that neither memory nor time is taken by what a few bytes claim to be.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias, TypeVar

import msgspec

from app.api.coroutines import SuspendedCoroutine
from app.api.response_writer import OfferedWriter
from app.api.response_writer import Scope as Scope
from app.errors import BadRequest, BodyTimeout, ParleyError, TooLarge, UnsupportedEncoding
from app.formats.base import WriteError, choose_status, wrap_error
from app.formats.request_memory import CallerMemory
from app.runtime.decompress import REQUEST_ENCODINGS, decompress_pieces
from app.runtime.memory_budget import UNCOUNTED_BYTES, Lease
from app.runtime.pieces import Pieces
from app.runtime.value_count import count_values, find_marks

T = TypeVar("T")


Receive: TypeAlias = Callable[[], Awaitable[dict[str, Any]]]


LARGE_BYTES = 256 * 1024
"""Bodies of which more must be read are parsed and prepared in another thread, so that other requests are served
meanwhile."""
PARSE_WAIT_SECONDS = 10.0
"""How long a large body waits for the memory that parsing it needs."""
BYTES_PER_BYTE = 3
"""A parsed body needs about this many bytes for each byte of its text, …"""
BYTES_PER_VALUE = 600
"""… and this many bytes for each of its values."""


class ClientDisconnected(Exception):
    """The client left before its body was read."""


def take_body(scope: Scope, writer: OfferedWriter | None, max_bytes: int, lease: Lease) -> bytes | None:
    """Return the body if `writer` has it whole and it may not be compressed, else None. Raises Busy or TooLarge."""
    if writer is None or b"content-encoding" in scope["state"]["headers"]:
        return None
    body = writer.take_body()
    if body is None:
        return None
    _reserve_memory(len(body), max_bytes, lease)
    return body


async def read_body(scope: Scope, receive: Receive, max_bytes: int, seconds: float, lease: Lease) -> bytes | bytearray:
    """Read the body, and decompress it; `lease` takes memory for it as it arrives.

    Raises BadRequest, BodyTimeout, Busy, UnsupportedEncoding or TooLarge, the latter before reading a body whose
    `content-length` is too large.
    """
    length = dict(scope["headers"]).get(b"content-length", b"")
    if length.isdigit() and int(length) > max_bytes:
        raise TooLarge(f"the body has more than {max_bytes} bytes")
    encoding = _find_encoding(scope)
    if encoding is None:
        return await _read_within(receive, max_bytes, seconds, lease)
    raw = await _read_within(receive, max_bytes, seconds, lease)
    return await _decompress(raw, encoding, max_bytes, lease)


async def _read_within(receive: Receive, max_bytes: int, seconds: float, lease: Lease) -> bytes | bytearray:
    reading = _receive_body(receive, max_bytes, lease)
    try:
        waiting = reading.send(None)
    except StopIteration as done:
        body: bytes | bytearray = done.value
        return body
    try:
        async with asyncio.timeout(seconds):
            return await SuspendedCoroutine(reading, waiting)
    except TimeoutError:
        raise BodyTimeout(f"the body was not complete within {seconds:g} s") from None


def _find_encoding(scope: Scope) -> str | None:
    """Return what the body is compressed with; None if it is not. Raises UnsupportedEncoding."""
    if b"content-encoding" not in scope["state"]["headers"]:
        return None
    values = [value.decode("latin-1") for name, value in scope["headers"] if name == b"content-encoding"]
    names = [name.strip().lower().removeprefix("x-") for value in values for name in value.split(",")]
    found: list[str] = [name for name in names if name not in ("", "identity")]
    if not found:
        return None
    if len(found) > 1 or found[0] not in REQUEST_ENCODINGS:
        text = f"the content-encoding {', '.join(values)!r} cannot be read: send one of {', '.join(REQUEST_ENCODINGS)}"
        raise UnsupportedEncoding(f"{text}, or the body as it is", REQUEST_ENCODINGS)
    return found[0]


async def _decompress(raw: bytes | bytearray, encoding: str, max_bytes: int, lease: Lease) -> bytearray:
    """Decompress a body. Raises BadRequest, Busy or TooLarge."""
    body = bytearray()
    pieces = decompress_pieces(raw, encoding)
    try:
        while (piece := await call_in_thread(next, pieces, None)) is not None:
            body += piece
            _reserve_memory(len(body), max_bytes, lease)
    except ValueError as error:
        raise BadRequest(f"the body is not valid {encoding}: {error}") from None
    return body


async def call_in_thread(function: Callable[..., T], *arguments: object) -> T:
    """Return the result of the function. The arguments are freed when it returns, even if this coroutine goes on later:
    they may be large."""
    held = list(arguments)

    def call() -> T:
        given = held[:]
        held.clear()
        return function(*given)

    return await asyncio.to_thread(call)


def is_large(raw: bytes | bytearray, memory: CallerMemory | None) -> bool:
    """Whether so much of a body must be read that another thread does it. What is remembered need not be read."""
    return len(raw) > LARGE_BYTES and len(raw) - (0 if memory is None else memory.compare(raw)) > LARGE_BYTES


def has_few_values(raw: bytes | bytearray, memory: CallerMemory | None, limit: int) -> bool:
    """Whether a body surely has at most `limit` values; found out without looking at what is remembered of it."""
    if len(raw) <= limit:
        return True
    return memory is not None and memory.compare(raw) > 0 and memory.max_values(raw) <= limit


async def wait_for_parse_memory(
    raw: bytes | bytearray, lease: Lease, max_values: int, memory: CallerMemory | None = None, name: str = "the body"
) -> int:
    """Wait for the memory that parsing the body needs. Raises Busy, or TooLarge if it has more than `max_values`.

    The memory depends on the number of values more than on the size: each number of a list takes an object. Returns
    that number; 0 for a small body, whose values are not counted. `memory` is what the body is read with.
    """
    if len(raw) <= min(max_values, LARGE_BYTES):
        return 0
    find = find_marks if memory is None else memory.find_marks
    values = 1 + len(find(raw) if len(raw) <= LARGE_BYTES else await call_in_thread(find, raw))
    if values > max_values:  # some may be in strings
        values = await call_in_thread(count_values, raw, max_values)
    if values > max_values:
        raise TooLarge(f"{name} has more than {max_values} JSON values")
    if len(raw) > LARGE_BYTES:
        await lease.wait(len(raw) * BYTES_PER_BYTE + values * BYTES_PER_VALUE, PARSE_WAIT_SECONDS)
    return values


async def _receive_body(receive: Receive, max_bytes: int, lease: Lease) -> bytes:
    body, more = Pieces(), True
    while more:
        message = await receive()
        body.add(message.get("body", b""))
        _reserve_memory(body.size, max_bytes, lease)
        more = message.get("more_body", False)
    if message["type"] == "http.disconnect":
        raise ClientDisconnected
    return body.take()


def _reserve_memory(size: int, max_bytes: int, lease: Lease) -> None:
    """Take memory for the body, of which this much has arrived. Raises TooLarge or Busy."""
    if size > max_bytes:
        raise TooLarge(f"the body has more than {max_bytes} bytes")
    if size > max(UNCOUNTED_BYTES, lease.held_bytes):
        lease.take(size - lease.held_bytes)


Send: TypeAlias = Callable[[dict[str, Any]], Awaitable[None]]


async def send_json(send: Send, status: int, body: Any, headers: dict[str, str] | None = None) -> None:
    data = msgspec.json.encode(body)
    lines = [
        (b"content-type", b"application/json"),
        (b"cache-control", b"no-store"),
        (b"content-length", b"%d" % len(data)),
    ]
    lines += [(name.encode(), value.encode()) for name, value in (headers or {}).items()]
    await send({"type": "http.response.start", "status": status, "headers": lines})
    await send({"type": "http.response.body", "body": data})


async def send_no_content(send: Send) -> None:
    """Send 204, after which an `EventSource` does not reconnect."""
    headers = [(b"cache-control", b"no-store")]
    await send({"type": "http.response.start", "status": 204, "headers": headers})
    await send({"type": "http.response.body", "body": b""})


async def send_error(send: Send, error: ParleyError, request_id: str, write_error: WriteError = wrap_error) -> None:
    """Send an error. `write_error` writes it in the format of the endpoint or of the request."""
    status = choose_status(write_error, error)
    await send_json(send, status, write_error(error.to_dict(request_id)), error.list_headers())
