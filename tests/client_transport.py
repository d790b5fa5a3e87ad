"""The transport of a client's connection without a socket, and limits for such a connection."""

import asyncio
from typing import Any

from app.server.connection import ClientConnection
from app.server.connection_limits import ConnectionLimits, ConnectionWarnings
from typing_extensions import override
from uvicorn.server import ServerState

LIMITS = ConnectionLimits(
    max_connections=8,
    max_head_bytes=65536,
    head_seconds=20,
    body_seconds=60,
    keep_alive_seconds=75,
    stall_seconds=120,
)


class Transport(asyncio.Transport):
    """Keeps each write."""

    def __init__(self) -> None:
        super().__init__()
        self.writes: list[bytes] = []
        self.closed = False

    @override
    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.writes.append(bytes(data))

    @override
    def is_closing(self) -> bool:
        return self.closed

    @override
    def close(self) -> None:
        self.closed = True

    abort = close

    @override
    def get_write_buffer_size(self) -> int:
        return 0

    @override
    def pause_reading(self) -> None: ...

    @override
    def resume_reading(self) -> None: ...


def connect(app: Any, transport: asyncio.Transport, state: ServerState | None = None) -> ClientConnection:
    """Return a connection of a client to an ASGI application."""
    connection = ClientConnection(app, LIMITS, ConnectionWarnings(), state or ServerState(), {})
    connection.connection_made(transport)
    return connection
