"""The connection of a client that has upgraded to a WebSocket. uvicorn and the package `websockets` read its frames.

It is imported at the first upgrade.
"""

from collections.abc import Coroutine
from typing import Any

from typing_extensions import override
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from uvicorn.server import ServerState
from websockets.frames import CloseCode, Frame

from app.errors import Busy
from app.runtime.memory_budget import UNCOUNTED_BYTES, Lease
from app.server.connection_limits import is_too_slow

DRAIN = "parley.drain"
"""The type of the message by which the server tells the application that a socket shall end."""
MAX_FRAGMENTS = 16_384
"""Of one message."""


class SocketConnection(WebSocketsSansIOProtocol):
    """A connection as `ParleyServer` handles all connections."""

    idle = False
    """Sockets are closed by pings, not for being idle."""

    def __init__(self, config: Any, server_state: ServerState, app_state: dict[str, Any], lease: Lease | None) -> None:
        """`lease` counts the memory of a message that is not whole."""
        super().__init__(config, server_state, app_state)
        self._lease = lease
        self._stall_seconds: float = config.limits.stall_seconds
        self._is_draining = False
        self._fragments = 0
        """How many the message has that is not whole."""
        self._unread_bytes = 0
        self._unread_seconds = 0.0

    # What is received.

    @override
    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if not self.handshake_initiated:  # what `websockets` does not read as a handshake
            self.transport.write(b"".join(self.conn.data_to_send()))
            self.transport.close()
            return
        size = len(self.conn.reader.buffer) + sum(map(len, self.frames))
        if self._lease is None or (size <= UNCOUNTED_BYTES and not self._lease.held_bytes):
            return
        try:
            self._count(self._lease, size)
        except Busy as error:
            self.conn.fail(CloseCode.TRY_AGAIN_LATER, error.message[:120])
            self.handle_parser_exception()

    @override
    def handle_parser_exception(self) -> None:
        if self.conn.close_sent is None:  # the handshake is not answered yet
            self.transport.abort()
        else:
            super().handle_parser_exception()

    @staticmethod
    def _count(lease: Lease, size: int) -> None:
        if size > lease.held_bytes:
            lease.take(size - lease.held_bytes)
        else:
            lease.change(size)

    @override
    def handle_text(self, event: Frame) -> None:
        super().handle_text(event)
        self._join_fragments()

    @override
    def handle_bytes(self, event: Frame) -> None:
        super().handle_bytes(event)
        self._join_fragments()

    @override
    def handle_cont(self, event: Frame) -> None:
        self._fragments += 1
        if self._fragments == MAX_FRAGMENTS:
            self.conn.fail(CloseCode.POLICY_VIOLATION, f"a message has more than {MAX_FRAGMENTS} fragments")
            self.handle_parser_exception()
        elif self._fragments < MAX_FRAGMENTS:
            joined: Any = self.frames[0]
            joined += event.data
            event.data = b""
            super().handle_cont(event)
            del self.frames[1:]

    def _join_fragments(self) -> None:
        """Hold the fragments of a message as one value: a list of very short ones takes many times their bytes."""
        self._fragments = 1
        joined: Any = [bytearray(one) for one in self.frames]
        self.frames = joined

    @override
    def send(self, message: Any) -> Coroutine[Any, Any, None]:
        if message["type"] == "websocket.http.response.body":
            return self._send_denial(message)
        return super().send(message)

    async def _send_denial(self, message: Any) -> None:
        await super().send(message)
        self.handshake_complete = True  # else uvicorn 0.54.0 logs the refusal as an error of the application

    @override
    def pause_writing(self) -> None:
        """Read nothing from a client that does not read: each of its pings would have to be answered."""
        super().pause_writing()
        self.transport.pause_reading()

    @override
    def resume_writing(self) -> None:
        super().resume_writing()
        if not self.read_paused:
            self.transport.resume_reading()

    # What the server asks of its connections.

    def tick(self, seconds: float) -> None:
        """Drop a client that reads its data too slowly. The pings limit how long it may be silent."""
        unread = self.transport.get_write_buffer_size()
        if not unread or not self._unread_bytes:
            self._unread_bytes, self._unread_seconds = unread, 0.0
        if not unread:
            return
        self._unread_bytes = max(self._unread_bytes, unread)
        self._unread_seconds += seconds
        if self._unread_seconds > self._stall_seconds:
            if is_too_slow(self._unread_bytes - unread, self._stall_seconds):
                self.drop()
            self._unread_bytes, self._unread_seconds = unread, 0.0

    def waited_seconds(self) -> float:
        return 0.0

    def end_after_response(self) -> None:
        """Nothing ends before `shutdown`: a socket is told to by the next request."""

    @override
    def shutdown(self) -> None:
        """Let the responses in progress end, then close."""
        if not self.handshake_complete or self.close_sent or self._is_draining:
            super().shutdown()
            return
        self._is_draining = True
        message: Any = {"type": DRAIN}
        self.queue.put_nowait(message)

    def drop(self) -> None:
        self.transport.abort()

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        if self._lease is not None:
            self._lease.release()
