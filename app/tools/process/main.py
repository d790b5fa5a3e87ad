"""The tool process: it holds the connections to one server of tools, and serves the gateway's requests on its input.

It ends when the gateway closes the pipe or dies, and ends the processes of the server before.
"""

import asyncio
import logging
import os
import resource
import signal
import sys
import warnings
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any

from app.runtime.own_process import hide_process
from app.tools.process.connection import CONNECTION_CLOSED, NOT_CONFIGURED, Connection, Reports, ServerDown
from app.tools.process.protocol import (
    HEAD,
    CallEnded,
    CallTool,
    CancelCall,
    CloseConnection,
    FromProcess,
    Line,
    ListFailed,
    ListTools,
    LogLine,
    OpenConnection,
    State,
    StateChanged,
    ToolList,
    ToolsChanged,
    decode_to_process,
    encode_frame,
)
from app.tools.process.results import fail

_MAX_MEMORY_BYTES = 1024 * 1024 * 1024
"""Of the data of this process alone, without its children."""
_LOG_LINES_PER_SECOND = 20
"""Of one connection."""


class ToolProcess:
    def __init__(self, writer: asyncio.StreamWriter) -> None:
        self._writer = writer
        self._connections: dict[int, Connection] = {}
        self._requests: dict[int, asyncio.Task[None]] = {}
        self._closing: set[asyncio.Task[None]] = set()

    async def serve(self, reader: asyncio.StreamReader) -> None:
        try:
            while True:
                (size,) = HEAD.unpack(await reader.readexactly(HEAD.size))
                self._accept(decode_to_process(await reader.readexactly(size)))
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        for task in list(self._requests.values()):
            task.cancel()
        await asyncio.gather(*self._requests.values(), return_exceptions=True)
        closing = [connection.aclose() for connection in self._connections.values()]
        await asyncio.gather(*closing, *self._closing, return_exceptions=True)

    def _accept(self, message: object) -> None:
        match message:
            case OpenConnection(connection=id_, spec=spec):
                log = _LimitedLog(id_, self._write)
                reports = Reports(log.add, partial(self._report_change, id_), partial(self._report_state, id_))
                self._connections[id_] = Connection(spec, reports)
            case CloseConnection(connection=id_):
                task = asyncio.create_task(self._connections.pop(id_).aclose())
                self._closing.add(task)
                task.add_done_callback(self._closing.discard)
            case ListTools():
                self._start(message.request, self._list_tools(message))
            case CallTool():
                self._start(message.request, self._call(message))
            case CancelCall(request=request):
                running = self._requests.get(request)
                if running is not None:
                    running.cancel()

    def _start(self, request: int, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._requests[request] = task
        task.add_done_callback(lambda _: self._requests.pop(request, None))

    async def _list_tools(self, message: ListTools) -> None:
        try:
            connection = self._connections.get(message.connection)
            if connection is None:
                raise ServerDown(NOT_CONFIGURED)
            frame = encode_frame(ToolList(message.request, await connection.list_tools()))
        except ServerDown as error:
            frame = encode_frame(ListFailed(message.request, str(error)))
        except Exception as error:
            frame = encode_frame(ListFailed(message.request, _describe_defect(error)))
        self._writer.write(frame)

    async def _call(self, message: CallTool) -> None:
        connection = self._connections.get(message.connection)
        try:
            if connection is None:
                answer = fail(f"the server of the tool is not available: {NOT_CONFIGURED}", CONNECTION_CLOSED)
            else:
                answer = await connection.call(message)
            frame = encode_frame(CallEnded(message.request, answer))
        except Exception as error:
            frame = encode_frame(CallEnded(message.request, fail(_describe_defect(error), CONNECTION_CLOSED)))
        self._writer.write(frame)
        await self._writer.drain()

    def _report_change(self, connection: int) -> None:
        self._write(ToolsChanged(connection))

    def _report_state(self, connection: int, state: State, pid: int | None, error: str | None) -> None:
        self._write(StateChanged(connection, state, pid, error))

    def _write(self, message: FromProcess) -> None:
        self._writer.write(encode_frame(message))


def _describe_defect(error: Exception) -> str:
    """A request must have an answer, whatever the SDK raises."""
    return f"the gateway could not read what the server sent ({type(error).__name__})"


class _LimitedLog:
    """Passes the lines of one connection on, up to a number each second."""

    def __init__(self, connection: int, write: Callable[[FromProcess], None]) -> None:
        self._connection = connection
        self._write = write
        self._second, self._lines = 0, 0

    def add(self, level: Line, text: str) -> None:
        second = int(asyncio.get_running_loop().time())
        if second != self._second:
            self._second, self._lines = second, 0
        self._lines += 1
        if self._lines <= _LOG_LINES_PER_SECOND:
            self._write(LogLine(self._connection, level, text[:2000]))


async def main() -> None:
    loop = asyncio.get_running_loop()
    out = os.fdopen(os.dup(1), "wb", buffering=0)
    os.dup2(2, 1)  # what a library prints must not get between the frames
    reader = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    transport, protocol = await loop.connect_write_pipe(asyncio.streams.FlowControlMixin, out)
    await ToolProcess(asyncio.StreamWriter(transport, protocol, None, loop)).serve(reader)


def run() -> None:
    hide_process()
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # the gateway closes the pipe when it ends
    logging.disable(logging.CRITICAL)
    warnings.simplefilter("ignore")
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    resource.setrlimit(resource.RLIMIT_DATA, (_MAX_MEMORY_BYTES, hard))
    asyncio.run(main())


if __name__ == "__main__":
    run()
