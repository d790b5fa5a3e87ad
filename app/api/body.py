"""The body of a caller's request, within limits of size and time."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias

from app.api.stepping import Rest
from app.chat.json_size import count_values
from app.errors import BadRequest, BodyTimeout, TooLarge
from app.memory_budget import UNCOUNTED_BYTES, Lease

Scope: TypeAlias = dict[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[dict[str, Any]]]


LARGE_BYTES = 256 * 1024
"""Bodies above it are read and prepared in another thread: others are answered meanwhile."""
PARSE_WAIT_SECONDS = 10.0
"""How long a large body waits until there is memory to parse it in."""
BYTES_PER_BYTE = 3
"""What is made of a body takes about so many times its size, for its texts, …"""
BYTES_PER_VALUE = 600
"""… and so many bytes for each of its values."""


class CallerGone(Exception):
    """The caller left while it was being read."""


async def read_body(scope: Scope, receive: Receive, max_bytes: int, seconds: float, lease: Lease) -> bytes | bytearray:
    """The body; `lease` holds its bytes as they come. Raises BodyTimeout, Busy, and TooLarge before reading what is
    announced as too long."""
    for name, value in scope["headers"]:
        if name == b"content-length" and value.isdigit() and int(value) > max_bytes:
            raise TooLarge(f"the body has more than {max_bytes} bytes")
        if name == b"content-encoding" and value.lower() != b"identity":
            raise BadRequest("a body must not be compressed")
    reading = _received(receive, max_bytes, lease)
    try:
        waiting = reading.send(None)
    except StopIteration as done:
        body: bytes | bytearray = done.value
        return body
    try:
        async with asyncio.timeout(seconds):
            return await Rest(reading, waiting)
    except TimeoutError:
        raise BodyTimeout(f"the body did not come within {seconds:g} s") from None


async def await_parsing(raw: bytes | bytearray, lease: Lease, max_values: int) -> None:
    """Waits until there is memory to parse the body in. Raises Busy, and TooLarge for more values than may be.

    What a body becomes depends on its values more than on its size: each number of a list takes an object.
    """
    if len(raw) <= LARGE_BYTES:
        values = count_values(raw, max_values) if len(raw) > max_values else 0
    else:
        values = await asyncio.to_thread(count_values, raw, max_values)
    if values > max_values:
        raise TooLarge(f"the body has more than {max_values} JSON values")
    if len(raw) > LARGE_BYTES:
        await lease.wait(len(raw) * BYTES_PER_BYTE + values * BYTES_PER_VALUE, PARSE_WAIT_SECONDS)


async def _received(receive: Receive, max_bytes: int, lease: Lease) -> bytes | bytearray:
    message = await receive()
    body: bytes | bytearray = message.get("body", b"")
    _hold(body, max_bytes, lease)
    if message["type"] == "http.request" and message.get("more_body"):
        body = bytearray(body)
        while message.get("more_body"):
            message = await receive()
            body += message.get("body", b"")
            _hold(body, max_bytes, lease)
    if message["type"] == "http.disconnect":
        raise CallerGone
    return body


def _hold(body: bytes | bytearray, max_bytes: int, lease: Lease) -> None:
    """Raises TooLarge, Busy."""
    if len(body) > max_bytes:
        raise TooLarge(f"the body has more than {max_bytes} bytes")
    if len(body) > UNCOUNTED_BYTES:
        lease.take(len(body) - lease.held_bytes)
