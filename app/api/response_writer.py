"""Writes a response to one client.

The gateway's own server offers a writer of its own for each request (`app/server/cycle.py`). With any other ASGI server
`SendQueue` is used: `send` runs without a task, unless it has to wait; then a task finishes it.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Protocol, TypeAlias

from app.api.coroutines import SuspendedCoroutine

Scope: TypeAlias = dict[str, Any]
Send: TypeAlias = Callable[[dict[str, Any]], Coroutine[Any, Any, None]]
Headers: TypeAlias = Sequence[tuple[bytes, bytes]]

WRITER = "parley.writer"
"""The ASGI extension by which the gateway's server offers the writer of a request."""


class Sender(Protocol):
    """The response that is written."""

    def on_blocked(self) -> None:
        """The client reads more slowly than the response is written."""

    def on_clear(self) -> None:
        """Everything has been sent, or can be."""

    def disconnect(self) -> None:
        """Nothing can be sent any more."""


class ResponseWriter(Protocol):
    """Call `attach` first, and `detach` at the end: it removes the reference cycle between writer and sender."""

    @property
    def blocked(self) -> bool:
        """Whether the client must read before more is sent."""

    @property
    def blocked_since(self) -> float:
        """The loop's time when the client last read too slowly."""

    @property
    def notices_disconnect(self) -> bool:
        """Whether it calls `disconnect` of its sender when the client disconnects."""

    def attach(self, sender: Sender) -> None: ...

    def detach(self) -> None: ...

    def start(self, status: int, headers: Headers, length: int | None = None) -> None:
        """Set the head. It may be sent only with the first bytes of the body. `length` is the body's, in bytes; None:
        unknown. It is sent as content-length."""

    def write(self, data: bytes, *, last: bool) -> None: ...

    def abort(self) -> None:
        """Close the client's connection now."""

    def cut(self) -> None:
        """Close the client's connection behind what was written, without the end of the body, so that the client knows
        that it is not whole."""


class OfferedWriter(ResponseWriter, Protocol):
    """The writer that the gateway's server offers."""

    extra_headers: Headers
    """Sent with every head."""

    def take_body(self) -> bytes | None:
        """Return the body of the request if it has arrived whole; None if it must be received."""

    @property
    def response_started(self) -> bool: ...


def find_offered_writer(scope: Scope) -> OfferedWriter | None:
    extension = scope.get("extensions", {}).get(WRITER)
    writer: OfferedWriter | None = None if extension is None else extension["writer"]
    return writer


def make_send_queue(scope: Scope, send: Send) -> "SendQueue":
    """A writer for an endpoint that other ASGI applications wrap: everything must pass through their `send`."""
    offered = find_offered_writer(scope)
    return SendQueue(send, offered)


class SendQueue:
    """A writer for any ASGI server."""

    notices_disconnect = False

    def __init__(self, send: Send, offered: OfferedWriter | None = None) -> None:
        """`offered` closes the client's connection; None: the server offers no writer."""
        self._send = send
        self._offered = offered
        self._cuts = False
        """The body has no end."""
        self._loop = asyncio.get_running_loop()
        self._sender: Sender | None = None
        self._queue: deque[dict[str, Any]] = deque()
        self._flush_task: asyncio.Task[None] | None = None
        self.blocked_since = 0.0

    @property
    def blocked(self) -> bool:
        return self._flush_task is not None

    def attach(self, sender: Sender) -> None:
        self._sender = sender

    def detach(self) -> None:
        self._sender = None
        if self._flush_task is not None:
            self._flush_task.cancel()

    def abort(self) -> None:
        if self._offered is not None:
            self._offered.abort()

    def cut(self) -> None:
        """Any ASGI server closes the connection of an application that returns without the end of its response."""
        self._cuts = True
        if self._flush_task is None:
            self._close_cut()

    def _close_cut(self) -> None:
        if self._cuts and self._offered is not None:
            self._offered.cut()

    def start(self, status: int, headers: Headers, length: int | None = None) -> None:
        lines = [*headers] if length is None else [*headers, (b"content-length", b"%d" % length)]
        self._put({"type": "http.response.start", "status": status, "headers": lines})

    def write(self, data: bytes, *, last: bool) -> None:
        self._put({"type": "http.response.body", "body": data, "more_body": not last})

    def _put(self, message: dict[str, Any]) -> None:
        """Send the message at once if no earlier one waits; otherwise queue it."""
        sender = self._sender
        if sender is None:
            return
        if self._flush_task is not None:
            self._queue.append(message)
            return
        coroutine = self._send(message)
        try:
            waiting = coroutine.send(None)
        except StopIteration:
            return
        except Exception:
            sender.disconnect()
            return
        self.blocked_since = self._loop.time()
        sender.on_blocked()
        self._flush_task = self._loop.create_task(self._flush(SuspendedCoroutine(coroutine, waiting)))

    async def _flush(self, rest: SuspendedCoroutine[None]) -> None:
        try:
            await rest
            while self._queue:
                self.blocked_since = self._loop.time()
                await self._send(self._queue.popleft())
        except Exception:
            if self._sender is not None:
                self._sender.disconnect()
            return
        self._flush_task = None
        self._close_cut()
        if self._sender is not None:
            self._sender.on_clear()
