"""Sends the commands of many requests to Redis in one round trip.

An idle gateway sends each command at once. While BATCHES_AT_ONCE batches are on their way, further commands wait and
are the next batch: a connection, a timeout and the calls of the operating system are then needed once for all of them.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeAlias

Command: TypeAlias = tuple[str | bytes | int, ...]
SendBatch: TypeAlias = Callable[[Sequence[Command]], Awaitable[list[Any]]]
"""Sends commands. Returns for each its result or the exception that it failed with."""

BATCHES_AT_ONCE = 2
MAX_COMMANDS = 64
MAX_BYTES = 256 * 1024


class CommandBatcher:
    """It belongs to one event loop."""

    def __init__(self, send: SendBatch) -> None:
        self._send = send
        self._waiting: deque[tuple[Command, asyncio.Future[Any]]] = deque()
        self._senders: set[asyncio.Task[None]] = set()

    async def execute(self, command: Command) -> Any:
        """Return the result of the command. Raises what it failed with, or what its batch failed with."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Any] = loop.create_future()
        self._waiting.append((command, future))
        if len(self._senders) < BATCHES_AT_ONCE:
            # It runs after the callbacks that are ready now, so their commands are in its first batch.
            sender = loop.create_task(self._send_waiting())
            self._senders.add(sender)
        return await future

    async def _send_waiting(self) -> None:
        sender = asyncio.current_task()
        assert sender is not None
        try:
            await self._send_batches()
        finally:
            # Not in a callback of the task: a command that comes before the callback would wait forever.
            self._senders.discard(sender)

    async def _send_batches(self) -> None:
        while batch := self._take_batch():
            try:
                results = await self._send([command for command, _ in batch])
            except Exception as error:
                results = [error] * len(batch)
            for (_, future), result in zip(batch, results, strict=True):
                if future.done():  # its request has left
                    continue
                if isinstance(result, Exception):
                    future.set_exception(result)
                else:
                    future.set_result(result)

    def _take_batch(self) -> list[tuple[Command, asyncio.Future[Any]]]:
        batch: list[tuple[Command, asyncio.Future[Any]]] = []
        size = 0
        while self._waiting and len(batch) < MAX_COMMANDS and size < MAX_BYTES:
            command, future = self._waiting.popleft()
            if not future.done():
                batch.append((command, future))
                size += count_bytes(command)
        return batch


def count_bytes(command: Command) -> int:
    """Return the approximate size of a command."""
    return sum(len(part) for part in command if not isinstance(part, int))
