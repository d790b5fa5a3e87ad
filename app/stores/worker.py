"""A thread that runs all waiting operations as one batch, so that the event loop never waits for the disk."""

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from queue import Empty, SimpleQueue
from typing import Any, Generic, TypeAlias, TypeVar

from app.runtime.background_thread import start_background_thread

Op = TypeVar("Op")
_Job: TypeAlias = tuple[Op, asyncio.Future[Any]]
_Result: TypeAlias = tuple[asyncio.Future[Any], Any]

_LARGEST_BATCH = 256


class SqliteWorker(Generic[Op]):
    """Runs operations of one event loop in a thread, which starts with the first of them."""

    def __init__(self, name: str, run: Callable[[Sequence[Op]], Sequence[Any]], close: Callable[[], None]) -> None:
        """In the thread, `run` returns a result for each operation or raises for all of them; `close` runs last."""
        self._name, self._run, self._close = name, run, close
        self._queue: SimpleQueue[_Job[Op] | None] = SimpleQueue()
        self._ended: asyncio.Future[None] | None = None
        """Done when the thread has ended; None before it starts."""

    @property
    def waiting(self) -> int:
        return self._queue.qsize()

    def submit(self, op: Op) -> asyncio.Future[Any]:
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Any] = loop.create_future()
        if self._ended is None:
            self._ended = loop.create_future()
            start_background_thread(self._name, self._work, loop, self._ended)
        self._queue.put((op, future))
        return future

    async def aclose(self) -> None:
        """Finish all waiting operations. Nothing may be submitted afterwards."""
        if self._ended is not None:
            self._queue.put(None)
            await asyncio.shield(self._ended)

    def _work(self, loop: asyncio.AbstractEventLoop, ended: "asyncio.Future[None]") -> None:
        more = True
        while more:
            batch, more = self._next()
            if batch:
                _settle_in_loop(loop, self._run_batch(batch))
        self._close()
        _settle_in_loop(loop, [(ended, None)])

    def _next(self) -> tuple[list[_Job[Op]], bool]:
        """Return the waiting operations, and whether more may come."""
        batch: list[_Job[Op]] = []
        job = self._queue.get()
        while job is not None:
            batch.append(job)
            if len(batch) == _LARGEST_BATCH:
                return batch, True
            try:
                job = self._queue.get_nowait()
            except Empty:
                return batch, True
        return batch, False

    def _run_batch(self, batch: list[_Job[Op]]) -> list[_Result]:
        try:
            results: Sequence[Any] = self._run([op for op, _ in batch])
        except Exception as error:
            results = [error] * len(batch)
        return [(future, result) for (_, future), result in zip(batch, results, strict=True)]


def _settle_in_loop(loop: asyncio.AbstractEventLoop, settled: list[_Result]) -> None:
    # A closed loop raises RuntimeError: nothing waits for the results then.
    with contextlib.suppress(RuntimeError):
        loop.call_soon_threadsafe(_settle, settled)


def _settle(settled: list[_Result]) -> None:
    for future, result in settled:
        if future.done():
            continue
        if isinstance(result, Exception):
            future.set_exception(result)
        else:
            future.set_result(result)
