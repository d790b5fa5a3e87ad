"""The process in which documents are read: it has imported the libraries, and forks for every job.

So a job costs no start-up, its limits are its own, and what a hostile document does to a library ends with the child.
The gateway stops a job with an empty frame, and all by closing the pipe.
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

from app.attachments.documents import pictures, texts
from app.attachments.documents.protocol import (
    HEAD,
    Job,
    JobRefused,
    JobResult,
    PictureJob,
    UnreadableFile,
    decode_job,
    encode_frame,
)
from app.chat.datauri import decode_base64

_READ = 1 << 20


def main() -> None:
    """Arguments: wall seconds, CPU seconds, bytes of address space."""
    wall, cpu, memory = float(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    out = os.dup(1)
    os.dup2(2, 1)  # what a library prints must not stand between frames
    os.nice(10)
    logging.disable(logging.CRITICAL)
    gc.freeze()
    while (payload := _next_frame()) is not None:
        if payload:
            reply, over = _run_in_child(payload, wall, cpu, memory)
            _write(out, reply)
            if over:
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
    """(the reply's frame, whether the gateway is gone)."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        _run_child(payload, writer, cpu, memory)
    os.close(writer)
    said, why, over = _wait_for_child(reader, time.monotonic() + wall)
    os.close(reader)
    if why:
        os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    if why or status:
        return encode_frame(JobRefused(why or _explain_exit(status))), over
    return said, over


def _wait_for_child(reader: int, deadline: float) -> tuple[bytes, str, bool]:
    """(what the child said, why it must be stopped, whether the gateway is gone)."""
    said = bytearray()
    while (left := deadline - time.monotonic()) > 0:
        ready, _, _ = select.select([reader, 0], [], [], left)
        if 0 in ready:
            head = _read_exactly(HEAD.size)
            return b"", "was not waited for", head is None
        if ready:
            data = os.read(reader, _READ)
            if not data:
                return bytes(said), "", False
            said += data
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
    """What a document holds, or why it is not read. Never raises for what a document can do."""
    try:
        data = decode_base64(job.data) if job.base64 else job.data
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
