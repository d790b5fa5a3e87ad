"""Sends ASGI messages to one client. `send` runs without a task, unless it has to wait; then a task finishes it."""

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine
from typing import Any, Protocol, TypeAlias

from app.api.asgi import SuspendedCoroutine

Send: TypeAlias = Callable[[dict[str, Any]], Coroutine[Any, Any, None]]


class Sender(Protocol):
    """The response whose messages are sent."""

    def on_blocked(self) -> None:
        """The client reads more slowly than the response is written."""

    def on_clear(self) -> None:
        """Every queued message has been sent."""

    def disconnect(self) -> None:
        """Nothing can be sent any more."""


class SendQueue:
    """A queue of messages. It holds no reference to its sender, to avoid a reference cycle."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self._loop = asyncio.get_running_loop()
        self._queue: deque[dict[str, Any]] = deque()
        self._flush_task: asyncio.Task[None] | None = None
        self.blocked_since = 0.0
        """The loop's time when the waiting message was passed to `send`."""

    @property
    def blocked(self) -> bool:
        return self._flush_task is not None

    def put(self, message: dict[str, Any], sender: Sender) -> None:
        """Send the message at once if no earlier one waits; otherwise queue it."""
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
        self._flush_task = self._loop.create_task(self._flush(SuspendedCoroutine(coroutine, waiting), sender))

    async def _flush(self, rest: SuspendedCoroutine[None], sender: Sender) -> None:
        try:
            await rest
            while self._queue:
                self.blocked_since = self._loop.time()
                await self._send(self._queue.popleft())
        except Exception:
            sender.disconnect()
            return
        self._flush_task = None
        sender.on_clear()

    def close(self) -> None:
        if self._flush_task is not None:
            self._flush_task.cancel()
