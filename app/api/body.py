"""The body of a caller's request, within limits of size and time."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias

from app.api.stepping import Rest
from app.errors import BadRequest, BodyTimeout, TooLarge

Scope: TypeAlias = dict[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[dict[str, Any]]]


class CallerGone(Exception):
    """The caller left while it was being read."""


async def read_body(scope: Scope, receive: Receive, max_bytes: int, seconds: float) -> bytes | bytearray:
    """Raises BodyTimeout, and TooLarge before reading what is announced as too long."""
    for name, value in scope["headers"]:
        if name == b"content-length" and value.isdigit() and int(value) > max_bytes:
            raise TooLarge(f"the body has more than {max_bytes} bytes")
        if name == b"content-encoding" and value.lower() != b"identity":
            raise BadRequest("a body must not be compressed")
    reading = _received(receive, max_bytes)
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


async def _received(receive: Receive, max_bytes: int) -> bytes | bytearray:
    message = await receive()
    body: bytes | bytearray = message.get("body", b"")
    if message["type"] == "http.request" and message.get("more_body"):
        body = bytearray(body)
        while message.get("more_body"):
            message = await receive()
            body += message.get("body", b"")
            if len(body) > max_bytes:
                raise TooLarge(f"the body has more than {max_bytes} bytes")
    if message["type"] == "http.disconnect":
        raise CallerGone
    if len(body) > max_bytes:
        raise TooLarge(f"the body has more than {max_bytes} bytes")
    return body
