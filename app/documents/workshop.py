"""The gateway's side of the workers: a job goes to a free one, and is stopped when nobody waits for it any more."""

import asyncio
import contextlib
import os
import signal
import sys
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from app.documents.jobs import (
    HEAD,
    STOP,
    Job,
    PictureJob,
    Read,
    Refused,
    Reply,
    Seen,
    TextJob,
    Unreadable,
    decode_reply,
    frame,
)
from app.documents.limits import DocumentLimits
from app.errors import Busy

_GRACE_SECONDS = 5.0
"""How much later than its own limit a worker that does not answer is killed."""


class Workshop:
    """Use it as an async context, or `aclose` it. Workers start with the first job that needs them, and stay."""

    def __init__(self, limits: DocumentLimits) -> None:
        self.limits = limits
        self._idle: list[_Worker] = []
        self.workers: set[_Worker] = set()
        """All that run."""
        self._places = asyncio.Semaphore(limits.workers)
        self._waiting = 0
        self._closed = False
        self._tasks: set[asyncio.Task[Reply]] = set()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def text(self, data: bytes | str, name: str, media_type: str = "", charset: str | None = None) -> Read:
        """A document's text; `data` are bytes, or base64. Raises Unreadable, Busy."""
        limits = self.limits
        sizes = (limits.max_pages, limits.max_characters, limits.max_unpacked_bytes)
        reply = await self._done(TextJob(*_raw(data), name, media_type, charset, *sizes, float(limits.cpu_seconds)))
        assert isinstance(reply, Read)
        return reply

    async def picture(
        self,
        data: bytes | str,
        max_pixels: int | None = None,
        max_short_side: int | None = None,
        max_bytes: int | None = None,
    ) -> Seen:
        """What an image is, and its bytes where they had to change. Raises Unreadable, Busy."""
        reply = await self._done(PictureJob(*_raw(data), self.limits.max_pixels, max_pixels, max_short_side, max_bytes))
        assert isinstance(reply, Seen)
        return reply

    async def aclose(self) -> None:
        self._closed = True
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*(worker.kill() for worker in list(self.workers)))
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _done(self, job: Job) -> Reply:
        if self._waiting >= self.limits.max_waiting or self._closed:
            raise Busy("too many documents are being read")
        self._waiting += 1
        try:
            await self._places.acquire()
        finally:
            self._waiting -= 1
        ticket = _Ticket(frame(job))
        task = asyncio.create_task(self._served(ticket))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        try:
            reply = await asyncio.shield(task)
        except asyncio.CancelledError:
            ticket.abandon()
            task.add_done_callback(_forget)
            raise
        if isinstance(reply, Refused):
            raise Unreadable(reply.message)
        return reply

    async def _served(self, ticket: "_Ticket") -> Reply:
        """The place is given back when the worker has answered, also when nobody waits for the answer."""
        try:
            worker = self._idle.pop() if self._idle else await self._started()
            reply = await self._exchanged(worker, ticket)
            self._idle.append(worker)
            return reply
        except (OSError, EOFError, TimeoutError) as error:
            raise Busy(f"the reader of documents stopped ({type(error).__name__})") from error
        finally:
            self._places.release()

    async def _exchanged(self, worker: "_Worker", ticket: "_Ticket") -> Reply:
        if ticket.abandoned:
            return Refused("was not waited for")
        ticket.worker = worker
        try:
            async with asyncio.timeout(self.limits.wall_seconds + _GRACE_SECONDS):
                return await worker.exchange(ticket.job)
        except BaseException:
            self.workers.discard(worker)
            await asyncio.shield(worker.kill())
            raise

    async def _started(self) -> "_Worker":
        limits = self.limits
        numbers = (str(limits.wall_seconds), str(limits.cpu_seconds), str(limits.memory_bytes))
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "app.documents.worker", *numbers),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            env={"PYTHONPATH": ":".join(filter(None, sys.path))},  # nothing of ours: documents are hostile
            start_new_session=True,
        )
        worker = _Worker(process)
        self.workers.add(worker)
        return worker


@dataclass(slots=True)
class _Ticket:
    """A job and whether anybody waits for it."""

    job: bytes
    worker: "_Worker | None" = None
    abandoned: bool = False

    def abandon(self) -> None:
        self.abandoned = True
        if self.worker is not None:
            self.worker.stop()


class _Worker:
    def __init__(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdin is not None and process.stdout is not None
        self.pid = process.pid
        self._process = process
        self._stdin = process.stdin
        self._stdout = process.stdout

    async def exchange(self, job: bytes) -> Reply:
        self._stdin.write(job)
        await self._stdin.drain()
        (size,) = HEAD.unpack(await self._stdout.readexactly(HEAD.size))
        reply: Reply = decode_reply(await self._stdout.readexactly(size))
        return reply

    def stop(self) -> None:
        self._stdin.write(STOP)

    async def kill(self) -> None:
        """With the child that it may have: the two are a process group."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        self._stdin.close()
        await self._process.wait()


def _raw(data: bytes | str) -> tuple[bytes, bool]:
    """(what is sent, whether it is base64)."""
    return (data, False) if isinstance(data, bytes) else (data.encode("utf-8", "surrogatepass"), True)


def _forget(task: asyncio.Task[Reply]) -> None:
    """Nobody waits for this answer; its error was looked at."""
    if not task.cancelled():
        task.exception()
