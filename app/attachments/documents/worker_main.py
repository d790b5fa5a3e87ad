"""The worker process that reads documents: it has imported the libraries and forks for every job.

A job therefore has no start-up cost and its own resource limits, and a hostile document can harm only the child. The
gateway stops a job with an empty frame, and the worker by closing the pipe.
"""

import gc
import logging
import os
import resource
import select
import signal
import sys
import time
from typing import NoReturn

from app.attachments.documents import passages, pictures, texts
from app.attachments.documents.protocol import (
    HEAD,
    Job,
    JobRefused,
    JobResult,
    PictureJob,
    SearchJob,
    UnreadableFile,
    decode_job,
    encode_frame,
)
from app.chat.datauri import decode_base64
from app.runtime.own_process import hide_process

_READ = 1 << 20


def main() -> None:
    """Serve jobs from standard input. Arguments: wall seconds, CPU seconds, bytes of address space."""
    wall, cpu, memory = float(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    out = os.dup(1)
    os.dup2(2, 1)  # text that a library prints must not get between the frames
    os.nice(10)
    hide_process()
    logging.disable(logging.CRITICAL)
    gc.freeze()
    while (payload := _next_frame()) is not None:
        if payload:
            reply, is_closed = _run_in_child(payload, wall, cpu, memory)
            _write(out, reply)
            if is_closed:
                return


def _next_frame() -> bytes | None:
    head = _read_exactly(HEAD.size)
    return None if head is None else _read_exactly(HEAD.unpack(head)[0])


def _read_exactly(size: int) -> bytes | None:
    data = bytearray()
    while len(data) < size:
        more = os.read(0, min(size - len(data), _READ))
        if not more:
            return None
        data += more
    return bytes(data)


def _run_in_child(payload: bytes, wall: float, cpu: int, memory: int) -> tuple[bytes, bool]:
    """Return (the frame to answer with, whether the gateway has closed the pipe)."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        _run_child(payload, writer, cpu, memory)
    os.close(writer)
    output, reason, is_closed = _wait_for_child(reader, time.monotonic() + wall)
    os.close(reader)
    if reason:
        os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    if reason or status:
        return encode_frame(JobRefused(reason or _explain_exit(status))), is_closed
    return output, is_closed


def _wait_for_child(reader: int, deadline: float) -> tuple[bytes, str, bool]:
    """Return (the child's output, why it must be killed, whether the gateway has closed the pipe)."""
    output = bytearray()
    while (seconds_left := deadline - time.monotonic()) > 0:
        ready, _, _ = select.select([reader, 0], [], [], seconds_left)
        if 0 in ready:
            head = _read_exactly(HEAD.size)
            return b"", "was cancelled", head is None
        if ready:
            data = os.read(reader, _READ)
            if not data:
                return bytes(output), "", False
            output += data
    return b"", "took too long to read", False


def _explain_exit(status: int) -> str:
    ended_by = os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0
    return "took too long to read" if ended_by in (signal.SIGXCPU, signal.SIGKILL) else "cannot be read"


def _run_child(payload: bytes, writer: int, cpu: int, memory: int) -> NoReturn:
    try:
        os.close(0)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
        resource.setrlimit(resource.RLIMIT_CPU, (cpu, cpu + 1))
        resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
        _write(writer, encode_frame(run_job(decode_job(payload))))
        os._exit(0)
    finally:
        os._exit(1)


def run_job(job: Job) -> JobResult:
    """Run one job. Returns a JobRefused, and does not raise, for any error that a document can cause."""
    try:
        if isinstance(job, SearchJob):
            return passages.find_passages(job)
        data = decode_base64(job.data) if job.base64 else job.data
    except ValueError:
        return JobRefused("is not base64")
    except MemoryError:
        return JobRefused("needs too much memory to search")
    try:
        return pictures.scale_picture(job, data) if isinstance(job, PictureJob) else texts.extract_text(job, data)
    except UnreadableFile as error:
        return JobRefused(str(error))
    except MemoryError:
        return JobRefused("needs too much memory to read")
    except Exception as error:
        return JobRefused(f"cannot be read: it is damaged ({type(error).__name__})")


def _write(out: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(out, view) :]


if __name__ == "__main__":
    main()
