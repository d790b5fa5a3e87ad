"""The gateway's side of a tool process: starts it with the first request, and again after it has ended.

What it held is then lost: requests in progress fail, and the processes of its server are killed.
"""

import asyncio
import contextlib
import logging
import os
import signal
import sys
from collections.abc import Callable, Mapping
from typing import TypeVar

from msgspec import Struct

from app.chat.server_tools import ToolAnswer
from app.runtime.own_process import hide_process
from app.tools.process.protocol import (
    HEAD,
    CallEnded,
    CallTool,
    CancelCall,
    CloseConnection,
    FromProcess,
    ListedTool,
    ListFailed,
    ListTools,
    LogLine,
    OpenConnection,
    ServerSpec,
    StateChanged,
    ToolList,
    ToolsChanged,
    ToProcess,
    decode_from_process,
    encode_frame,
)

log = logging.getLogger("parley.tools")

GRACE_SECONDS = 10.0
"""A process that does not answer a request is killed this long after the request's own limit."""
_END_SECONDS = 8.0
"""How long the process may take to end its servers: each has two seconds twice."""
_PAUSE_SECONDS = 1.0
"""Between two starts."""
_LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING}
_PASSED_ON = ("SSL_CERT_FILE", "SSL_CERT_DIR")
_Answer = TypeVar("_Answer", ToolList | ListFailed, CallEnded)


class ProcessFailed(Exception):
    """The tool process has ended or cannot be started; the message is one plain sentence."""


class ConnectionEvents(Struct, frozen=True):
    """Who hears of a connection."""

    changed: Callable[[], None]
    state: Callable[[StateChanged], None]
    redact: Callable[[str], str]
    """Removes secrets from what its server writes."""


class ToolProcessClient:
    def __init__(self, environ: Mapping[str, str] | None = None) -> None:
        self._environ = os.environ if environ is None else environ
        self._running: _RunningProcess | None = None
        self._starting = asyncio.Lock()
        self._started_at = 0.0
        self._connections: dict[int, tuple[ServerSpec, ConnectionEvents]] = {}
        self._numbers = 0
        self._closed = False

    @property
    def pid(self) -> int | None:
        """The process; None while there is none."""
        return None if self._running is None else self._running.pid

    @property
    def is_used(self) -> bool:
        """Whether it has been started, or is being started."""
        return self._running is not None or self._starting.locked()

    def add(self, spec: ServerSpec, events: ConnectionEvents) -> int:
        """Return the number of a new connection. Nothing is started."""
        self._numbers += 1
        self._connections[self._numbers] = (spec, events)
        if self._running is not None:
            self._running.send(OpenConnection(self._numbers, spec))
        return self._numbers

    def remove(self, connection: int) -> None:
        """End a connection, and its server's process."""
        if self._connections.pop(connection, None) is not None and self._running is not None:
            self._running.send(CloseConnection(connection))

    async def list_tools(self, connection: int, seconds: float) -> list[ListedTool]:
        """Raises ProcessFailed, also for a server that cannot be used."""
        process = await self._get_process()
        self._numbers += 1
        answer = await process.request(ListTools(self._numbers, connection), seconds)
        if isinstance(answer, ListFailed):
            raise ProcessFailed(answer.message)
        assert isinstance(answer, ToolList)
        return answer.tools

    async def call(
        self,
        connection: int,
        tool: str,
        arguments: bytes,
        seconds: float,
        max_text_bytes: int,
        max_media_bytes: int,
        traceparent: str | None,
        *,
        reads_entries: bool = False,
    ) -> ToolAnswer:
        """Raises ProcessFailed if the process ends. Cancelling it cancels the call."""
        process = await self._get_process()
        self._numbers += 1
        sizes = (max_text_bytes, max_media_bytes)
        call = CallTool(self._numbers, connection, tool, arguments, seconds, *sizes, traceparent, reads_entries)
        answer = await process.request(call, seconds)
        assert isinstance(answer, CallEnded)
        return answer.answer

    async def aclose(self) -> None:
        """End the process and all servers."""
        self._closed = True
        async with self._starting:
            if self._running is not None:
                await self._running.end()

    async def _get_process(self) -> "_RunningProcess":
        if self._running is not None and not self._running.has_ended:
            return self._running
        async with self._starting:
            if self._running is not None and not self._running.has_ended:
                return self._running
            if self._closed:
                raise ProcessFailed("the gateway is shutting down")
            hide_process()
            loop = asyncio.get_running_loop()
            await asyncio.sleep(max(0.0, self._started_at + _PAUSE_SECONDS - loop.time()) if self._started_at else 0)
            self._started_at = loop.time()
            try:
                process = await _start(self._environ)
            except OSError as error:
                raise ProcessFailed(f"the tool process could not be started ({error.strerror})") from error
            self._running = _RunningProcess(process, self._connections)
            for connection, (spec, _) in self._connections.items():
                self._running.send(OpenConnection(connection, spec))
            return self._running


async def _start(environ: Mapping[str, str]) -> asyncio.subprocess.Process:
    passed = {name: environ[name] for name in _PASSED_ON if name in environ}
    return await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "app.tools.process.main"),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        env={"PYTHONPATH": ":".join(filter(None, sys.path)), **passed},
        start_new_session=True,
    )


class _RunningProcess:
    def __init__(
        self,
        process: asyncio.subprocess.Process,
        connections: Mapping[int, tuple[ServerSpec, ConnectionEvents]],
    ) -> None:
        assert process.stdin is not None and process.stdout is not None
        self.pid = process.pid
        self._process = process
        self._stdin, self._stdout = process.stdin, process.stdout
        self._connections = connections
        self._requests: dict[int, asyncio.Future[FromProcess]] = {}
        self._children: dict[int, int] = {}
        """The process of the server of each connection."""
        self.has_ended = False
        self._reading = asyncio.create_task(self._read())

    def send(self, message: ToProcess) -> None:
        """Send a message, unless the process ends: then its requests fail when its output has been read to the end."""
        if not self.has_ended and not self._stdin.is_closing():  # uvloop may find the pipe closed first
            self._stdin.write(encode_frame(message))

    async def request(self, message: ListTools | CallTool, seconds: float) -> FromProcess:
        answer: asyncio.Future[FromProcess] = asyncio.get_running_loop().create_future()
        self._requests[message.request] = answer
        self.send(message)
        try:
            async with asyncio.timeout(seconds + GRACE_SECONDS):
                return await answer
        except TimeoutError:
            log.error("the tool process does not answer; it is killed and started again")
            self.kill()
            raise ProcessFailed("the tool process did not answer") from None
        except asyncio.CancelledError:
            self.send(CancelCall(message.request))
            raise
        finally:
            self._requests.pop(message.request, None)

    async def end(self) -> None:
        """Close the pipe, so that the process ends its servers; kill both after some seconds."""
        self._stdin.close()
        try:
            async with asyncio.timeout(_END_SECONDS):
                await self._process.wait()
        except TimeoutError:
            log.warning("the tool process did not end its servers in time; it is killed")
            self.kill()
        await self._reading

    def kill(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            self._process.kill()

    async def _read(self) -> None:
        try:
            while True:
                (size,) = HEAD.unpack(await self._stdout.readexactly(HEAD.size))
                self._accept(decode_from_process(await self._stdout.readexactly(size)))
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        except Exception:
            log.exception("defect while reading from the tool process; it is killed")
            self.kill()
        self._clean_up()
        await self._process.wait()

    def _clean_up(self) -> None:
        """Kill what the process has left behind, and fail the requests that wait for it."""
        self.has_ended = True
        self._stdin.close()
        for pid in self._children.values():
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(pid, signal.SIGKILL)
        for connection, (_, events) in self._connections.items():
            events.state(StateChanged(connection, "down", None, "the tool process has ended"))
            events.changed()
        for answer in self._requests.values():
            if not answer.done():
                answer.set_exception(ProcessFailed("the tool process has ended"))

    def _accept(self, message: FromProcess) -> None:
        match message:
            case ToolList() | ListFailed() | CallEnded():
                answer = self._requests.get(message.request)
                if answer is not None and not answer.done():
                    answer.set_result(message)
            case StateChanged():
                self._accept_state(message)
            case ToolsChanged(connection=connection):
                if connection in self._connections:
                    self._connections[connection][1].changed()
            case LogLine(connection=connection):
                self._log(message)

    def _accept_state(self, message: StateChanged) -> None:
        if message.pid is not None:
            self._children[message.connection] = message.pid
        elif message.state == "down":
            self._children.pop(message.connection, None)
        if message.connection in self._connections:
            self._connections[message.connection][1].state(message)

    def _log(self, message: LogLine) -> None:
        level = _LEVELS[message.level]
        known = self._connections.get(message.connection)
        if known is not None and log.isEnabledFor(level):
            spec, events = known
            fields = {"server": spec.name}
            log.log(level, "MCP server %r: %s", spec.name, events.redact(message.text), extra={"fields": fields})
