"""Errors as HTTP responses: one shape everywhere."""

from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias

import msgspec

from app.errors import ParleyError

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


async def send_nothing(send: Send) -> None:
    """204: an `EventSource` that gets it does not come back."""
    headers = [(b"cache-control", b"no-store")]
    await send({"type": "http.response.start", "status": 204, "headers": headers})
    await send({"type": "http.response.body", "body": b""})


async def send_error(send: Send, error: ParleyError, request_id: str) -> None:
    told = error.to_dict(request_id)
    await send_json(send, error.status, error.shape(told) if error.shape else {"error": told}, error.headers)
