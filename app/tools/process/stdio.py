"""A server of tools as a child process: JSON lines on its standard input and output, in bounded memory.

The SDK's own transport reads lines of any length, in quadratic time, and gives the child its standard error.
"""

import asyncio
import contextlib
import os
import resource
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.shared.message import SessionMessage

from app.runtime.own_process import find_prctl
from app.tools.process.messages import parse_message, refuse_long
from app.tools.process.protocol import Line, ServerSpec

_END_SECONDS = 2.0
"""How long a child may take to end after its input was closed, and again after SIGTERM."""
_WRITE_SECONDS = 30.0
"""A child that does not read its input for so long has failed."""
_STDERR_BYTES_PER_SECOND = 4096
_STDERR_SECONDS = 0.2
_MAX_LAST_LINE = 300
_READ = 64 * 1024
_SKIPPED = 16
"""An answer that is so many times longer than its limit has no end."""
_PR_SET_PDEATHSIG, _PR_CAPBSET_DROP = 1, 24
_CAPABILITIES_TO_LOOK = (19, 21, 38)
"""CAP_SYS_PTRACE, CAP_SYS_ADMIN and CAP_PERFMON: with each of them root reads the memory of all processes."""

Log = Callable[[Line, str], None]
Streams = tuple[MemoryObjectReceiveStream[SessionMessage | Exception], MemoryObjectSendStream[SessionMessage]]


class ChildEnd(asyncio.Event):
    """Set when the child has ended, or sends a message that is too long."""

    last_line = ""
    """The last line that it wrote to its standard error, shortened."""


class ChildProtocol(asyncio.subprocess.SubprocessStreamProtocol):
    """Knows when the child itself has ended: `Process.wait` also waits for all who hold its pipes."""

    def __init__(self, limit: int, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(limit, loop)
        self.ended = asyncio.Event()

    def process_exited(self) -> None:
        super().process_exited()
        self.ended.set()


@asynccontextmanager
async def run_child(
    spec: ServerSpec, log: Log, report_pid: Callable[[int], None], closed: ChildEnd
) -> AsyncIterator[Streams]:
    """Start the child and yield its messages and the way to send it some. Raises OSError if it cannot be started."""
    assert spec.command is not None
    loop = asyncio.get_running_loop()
    transport, protocol = await loop.subprocess_exec(
        lambda: ChildProtocol(_READ, loop),
        spec.command,
        *spec.args,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env=spec.env,
        cwd=spec.cwd,
        start_new_session=True,
        preexec_fn=_make_child_setup(),
    )
    process = asyncio.subprocess.Process(transport, protocol, loop)
    report_pid(process.pid)
    received, messages = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    outgoing, to_send = anyio.create_memory_object_stream[SessionMessage](0)
    reading = asyncio.create_task(_read_stderr(process, log, closed))
    tasks = [
        reading,
        asyncio.create_task(_read_messages(process, received, spec.max_message_bytes, log, closed)),
        asyncio.create_task(_write_messages(process, to_send, log, closed)),
        asyncio.create_task(_wait_for_end(protocol, process, log, closed, reading)),
    ]
    try:
        yield messages, outgoing
    finally:
        await asyncio.shield(_end(process, protocol, tasks))
        for stream in (received, messages, outgoing, to_send):
            stream.close()


async def _end(process: asyncio.subprocess.Process, protocol: ChildProtocol, tasks: list[asyncio.Task[None]]) -> None:
    """End the child: its input is closed, then SIGTERM, then SIGKILL to its process group."""
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert process.stdin is not None and process.stdout is not None and process.stderr is not None
    process.stdin.close()
    drains = [asyncio.create_task(_drain(stream)) for stream in (process.stdout, process.stderr)]
    for signal_number in (None, signal.SIGTERM, signal.SIGKILL):
        if signal_number is not None:
            _signal_group(process.pid, signal_number)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_END_SECONDS):
                await protocol.ended.wait()
                break
    _signal_group(process.pid, signal.SIGKILL)  # what the child has left behind
    for task in drains:
        task.cancel()
    await asyncio.gather(*drains, return_exceptions=True)
    process._transport.close()  # type: ignore[attr-defined]  # there is no public way to release pipes others hold


def _signal_group(pid: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, number)


async def _drain(stream: asyncio.StreamReader) -> None:
    """Read and drop what the child still writes, so that it is not kept from ending by a full pipe."""
    while await stream.read(_READ):
        pass


async def _wait_for_end(
    protocol: ChildProtocol,
    process: asyncio.subprocess.Process,
    log: Log,
    closed: asyncio.Event,
    reading: asyncio.Task[None],
) -> None:
    await protocol.ended.wait()
    # What it wrote last may still be in the pipe, which another process may hold open.
    await asyncio.wait([reading], timeout=_STDERR_SECONDS)
    log("info", f"the server ended with {_describe_status(process.returncode)}")
    closed.set()


def _describe_status(status: int | None) -> str:
    return f"signal {-status}" if status is not None and status < 0 else f"status {status}"


async def _read_messages(
    process: asyncio.subprocess.Process,
    received: MemoryObjectSendStream[SessionMessage | Exception],
    most: int,
    log: Log,
    closed: asyncio.Event,
) -> None:
    assert process.stdout is not None
    try:
        async for line in read_lines(process.stdout, most):
            message = parse_message(line)
            if message is not None:
                await received.send(SessionMessage(message))
            elif line.strip():
                shown = line[:80].decode(errors="replace").strip()
                log("warning", f"the server wrote a line to its output that is no message of the protocol: {shown!r}")
            await asyncio.sleep(0)  # a flood of lines must not keep other servers waiting
    except MessageTooLong:
        log("warning", "the server wrote a message that is longer than its limit; it is ended")
    except MemoryError:
        log("warning", "the server wrote a message that takes too much memory; it is ended")
    except (anyio.ClosedResourceError, anyio.BrokenResourceError):
        pass
    finally:
        closed.set()


class MessageTooLong(Exception):
    """A line has no end within the limit."""


async def read_lines(stream: asyncio.StreamReader, most: int) -> AsyncIterator[bytes]:
    """Yield whole lines. Little is read ahead: an answer must not wait behind a flood. An answer that is too long is an
    error in its place, so that only its call fails. Raises MessageTooLong."""
    parts: list[bytes] = []
    size = 0
    skipping = False
    while data := await stream.read(_READ):
        first, *others = data.split(b"\n")
        size += len(first)
        if not skipping:
            parts.append(first)
        for line in others:
            if not skipping:
                yield b"".join(parts)
            parts, size, skipping = [line], len(line), False
        if size > most and not skipping:
            error = refuse_long(b"".join(parts[:2]))
            if error is None:
                raise MessageTooLong
            yield error
            parts, skipping = [], True
        if size > most * _SKIPPED:
            raise MessageTooLong


async def _write_messages(
    process: asyncio.subprocess.Process,
    to_send: MemoryObjectReceiveStream[SessionMessage],
    log: Log,
    closed: asyncio.Event,
) -> None:
    assert process.stdin is not None
    try:
        async for message in to_send:
            process.stdin.write(message.message.model_dump_json(by_alias=True, exclude_unset=True).encode() + b"\n")
            async with asyncio.timeout(_WRITE_SECONDS):
                await process.stdin.drain()
    except (OSError, TimeoutError):
        closed.set()
    except ValueError:
        log("warning", "a message to the server could not be written; it is ended")
        closed.set()


async def _read_stderr(process: asyncio.subprocess.Process, log: Log, closed: ChildEnd) -> None:
    """Log what the child writes to its standard error, up to a number of bytes each second, and keep its last line."""
    assert process.stderr is not None
    loop = asyncio.get_running_loop()
    second, left = 0, 0
    while data := await process.stderr.read(_READ):
        if int(loop.time()) != second:
            second, left = int(loop.time()), _STDERR_BYTES_PER_SECOND
        shown = data[:left]
        left -= len(shown)
        closed.last_line = _find_last_line(data) or closed.last_line
        for line in shown.decode(errors="replace").splitlines():
            if line.strip():
                log("debug", f"stderr: {line}")


def _find_last_line(data: bytes) -> str:
    lines = data[-4 * _MAX_LAST_LINE :].decode(errors="replace").splitlines()
    printable = ("".join(filter(str.isprintable, line)).strip() for line in reversed(lines))
    return next(filter(None, printable), "")[:_MAX_LAST_LINE]


def _make_child_setup() -> Callable[[], None]:
    """Return what the child does before it runs its command: it dies with this process, gets back the memory limit that
    this process has for itself alone, and cannot look into other processes, also not as root."""
    parent, _, hard = os.getpid(), *resource.getrlimit(resource.RLIMIT_DATA)
    prctl = find_prctl()

    def set_up() -> None:
        resource.setrlimit(resource.RLIMIT_DATA, (hard, hard))
        if prctl is not None:
            for capability in _CAPABILITIES_TO_LOOK:
                prctl(_PR_CAPBSET_DROP, capability, 0, 0, 0)
            prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
            if os.getppid() != parent:
                os._exit(1)

    return set_up
