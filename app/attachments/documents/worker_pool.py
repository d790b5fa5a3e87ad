"""The pool of document workers: gives each job to an idle worker, and stops a job whose caller is cancelled.

One caller uses only some of the workers at the same time, and waiting callers take turns, so that the files of one do
not make those of others wait for long.
"""

import asyncio
import contextlib
import os
import signal
import sys
from collections import Counter, OrderedDict, deque
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from app.attachments.documents.protocol import (
    HEAD,
    STOP,
    DocumentLimits,
    Job,
    JobRefused,
    JobResult,
    PictureJob,
    PictureResult,
    SearchJob,
    SearchResult,
    TextJob,
    TextResult,
    UnreadableFile,
    decode_reply,
    encode_frame,
)
from app.errors import Busy

_GRACE_SECONDS = 5.0
"""A worker that does not answer is killed this long after its own time limit."""


class WorkerSlots:
    """The slots of the workers: so many jobs run at the same time, and so many of one caller."""

    def __init__(self, slots: int, slots_per_caller: int) -> None:
        self._free = slots
        self._slots_per_caller = slots_per_caller
        self._used: Counter[str] = Counter()
        self._queues: OrderedDict[str, deque[asyncio.Future[None]]] = OrderedDict()
        """The waiting jobs of each caller. The first caller is the next whose turn it is."""

    async def acquire(self, caller: str, seconds: float) -> None:
        """Wait for a slot. Raises TimeoutError after so many seconds."""
        slot: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._queues.setdefault(caller, deque()).append(slot)
        self._assign()
        try:
            async with asyncio.timeout(seconds):
                await slot
        except BaseException:
            if slot.done() and not slot.cancelled():
                self.release(caller)
            raise

    def release(self, caller: str) -> None:
        self._free += 1
        self._used[caller] -= 1
        if not self._used[caller]:
            del self._used[caller]
        self._assign()

    def _assign(self) -> None:
        """Give free slots to the callers that wait, one after the other."""
        for caller in list(self._queues):
            queue = self._queues[caller]
            while queue and queue[0].done():
                queue.popleft()
            if queue and self._free and self._used[caller] < self._slots_per_caller:
                self._free -= 1
                self._used[caller] += 1
                queue.popleft().set_result(None)
                self._queues.move_to_end(caller)
            if not queue:
                del self._queues[caller]


class DocumentWorkers:
    """A pool of worker processes; use it as an async context manager, or call `aclose`.

    A worker starts with the first job that finds none idle, and then keeps running.
    """

    def __init__(self, limits: DocumentLimits) -> None:
        self.limits = limits
        self._idle: list[_WorkerProcess] = []
        self.workers: set[_WorkerProcess] = set()
        """All running workers, idle or busy."""
        self._slots = WorkerSlots(limits.workers, limits.workers_per_caller)
        self._waiting = 0
        self._closed = False
        self._tasks: set[asyncio.Task[JobResult]] = set()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def extract_text(
        self,
        data: bytes | str,
        name: str,
        media_type: str = "",
        charset: str | None = None,
        *,
        searched: bool = False,
        caller: str = "",
    ) -> TextResult:
        """Extract a document's text. `data` is bytes or base64 text. `searched`: only passages of it are put in, so it
        may be longer. Raises UnreadableFile and Busy."""
        limits = self.limits
        max_characters = limits.max_searched_characters if searched else limits.max_characters
        sizes = (limits.max_pages, max_characters, limits.max_unpacked_bytes)
        job = TextJob(*_to_bytes(data), name, media_type, charset, *sizes, float(limits.cpu_seconds))
        reply = await self._run(job, caller)
        assert isinstance(reply, TextResult)
        return reply

    async def scale_picture(
        self,
        data: bytes | str,
        max_pixels: int | None = None,
        max_short_side: int | None = None,
        max_bytes: int | None = None,
        formats: tuple[str, ...] = ("png", "jpeg", "gif", "webp"),
        *,
        decode: bool = False,
        caller: str = "",
    ) -> PictureResult:
        """Identify an image, and change it where it exceeds a limit or is in none of the formats. With `decode`, an
        image that need not be changed is decoded too. Raises UnreadableFile and Busy."""
        sizes = (max_pixels, max_short_side, max_bytes)
        reply = await self._run(PictureJob(*_to_bytes(data), self.limits.max_pixels, *sizes, formats, decode), caller)
        assert isinstance(reply, PictureResult)
        return reply

    async def search(self, job: SearchJob, *, caller: str = "") -> SearchResult:
        """Rank the passages of files. Raises UnreadableFile, where it takes too long or too much memory, and Busy."""
        reply = await self._run(job, caller)
        assert isinstance(reply, SearchResult)
        return reply

    async def aclose(self) -> None:
        self._closed = True
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*(worker.kill() for worker in list(self.workers)))
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _run(self, job: Job, caller: str) -> JobResult:
        if self._waiting >= self.limits.max_waiting or self._closed:
            raise Busy(f"{self._waiting} documents already wait to be read; try again later")
        self._waiting += 1
        try:
            await self._slots.acquire(caller, self.limits.queue_seconds)
        except TimeoutError:
            seconds = self.limits.queue_seconds
            raise Busy(f"no process to read the file became free within {seconds:g} s; try again later") from None
        finally:
            self._waiting -= 1
        pending = _PendingJob(encode_frame(job))
        task = asyncio.create_task(self._serve(pending, caller))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        try:
            reply = await asyncio.shield(task)
        except asyncio.CancelledError:
            pending.abandon()
            task.add_done_callback(_ignore_error)
            raise
        if isinstance(reply, JobRefused):
            raise UnreadableFile(reply.message)
        return reply

    async def _serve(self, pending: "_PendingJob", caller: str) -> JobResult:
        """Run a job and free its slot when the worker has answered, even if the caller was cancelled before."""
        try:
            worker = self._idle.pop() if self._idle else await self._start_worker()
            reply = await self._exchange(worker, pending)
            self._idle.append(worker)
            return reply
        except (OSError, EOFError, TimeoutError) as error:
            raise Busy(f"the document worker stopped ({type(error).__name__}); try again") from error
        finally:
            self._slots.release(caller)

    async def _exchange(self, worker: "_WorkerProcess", pending: "_PendingJob") -> JobResult:
        if pending.abandoned:
            return JobRefused("was cancelled")
        pending.worker = worker
        try:
            async with asyncio.timeout(self.limits.wall_seconds + _GRACE_SECONDS):
                return await worker.exchange(pending.job)
        except BaseException:
            self.workers.discard(worker)
            await asyncio.shield(worker.kill())
            raise

    async def _start_worker(self) -> "_WorkerProcess":
        limits = self.limits
        numbers = (str(limits.wall_seconds), str(limits.cpu_seconds), str(limits.memory_bytes))
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "app.attachments.documents.worker_main", *numbers),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            env={"PYTHONPATH": ":".join(filter(None, sys.path))},  # no keys of the gateway: documents are hostile
            start_new_session=True,
        )
        worker = _WorkerProcess(process)
        self.workers.add(worker)
        return worker


@dataclass(slots=True)
class _PendingJob:
    """A job, the worker that runs it, and whether its caller was cancelled."""

    job: bytes
    worker: "_WorkerProcess | None" = None
    abandoned: bool = False

    def abandon(self) -> None:
        self.abandoned = True
        if self.worker is not None:
            self.worker.stop()


class _WorkerProcess:
    def __init__(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdin is not None and process.stdout is not None
        self.pid = process.pid
        self._process = process
        self._stdin = process.stdin
        self._stdout = process.stdout

    async def exchange(self, job: bytes) -> JobResult:
        self._stdin.write(job)
        await self._stdin.drain()
        (size,) = HEAD.unpack(await self._stdout.readexactly(HEAD.size))
        reply: JobResult = decode_reply(await self._stdout.readexactly(size))
        return reply

    def stop(self) -> None:
        self._stdin.write(STOP)

    async def kill(self) -> None:
        """Kill the worker and the child that runs its job: the two are one process group."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        self._stdin.close()
        await self._process.wait()


def _to_bytes(data: bytes | str) -> tuple[bytes, bool]:
    """Return (the bytes to send, whether they are base64)."""
    return (data, False) if isinstance(data, bytes) else (data.encode("utf-8", "surrogatepass"), True)


def _ignore_error(task: asyncio.Task[JobResult]) -> None:
    """Mark the error of a job whose caller was cancelled as retrieved, or asyncio would log it."""
    if not task.cancelled():
        task.exception()
