"""`parley serve`: uvicorn, and how it goes down.

At SIGTERM or SIGINT the readiness answer turns to 503; new requests are still served for `settle_seconds`, so that load
balancers notice; then the listener closes and running streams may finish for `drain_seconds`. What is left then ends
with a `response.failed` of code `draining`, never silently. The same signal once more ends everything at once. With
several workers a terminal's Ctrl-C reaches each of them twice, as SIGINT and as the SIGTERM of their supervisor: that
counts as one.
"""

import asyncio
import gc
import signal
import socket
from multiprocessing import resource_tracker
from types import FrameType
from typing import Any

import uvicorn
from uvicorn.config import STARTUP_FAILURE
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle
from uvicorn.supervisors import Multiprocess, multiprocess

from app.api.desk import HANG_UP
from app.errors import Draining
from app.settings import Server, Settings

KEEPALIVE_SECONDS = 75
"""Longer than proxies in front hold an idle connection, so that it is they who close it."""
INTERRUPTED = 130
"""The exit code after Ctrl-C, by the shells' custom."""
LAST_WORDS_SECONDS = 1.0
"""What replies get to end after they were told to."""


class CallerConnection(HttpToolsProtocol):
    """A caller's connection that can be dropped, and whose end every request on it learns, pipelined ones too."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._cycles: list[RequestResponseCycle] = []

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self.scope["extensions"] = {HANG_UP: {"call": self.drop}}

    def on_headers_complete(self) -> None:
        super().on_headers_complete()
        self._cycles = [one for one in self._cycles if not one.response_complete]
        self._cycles.append(self.cycle)

    def drop(self) -> None:
        """Close the connection now. Its requests learn of it before they return, or uvicorn would log an error for a
        response that nobody waits for."""
        self._end_cycles()
        self.transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        self._end_cycles()
        super().connection_lost(exc)
        if self.scope:
            self.scope.pop("extensions", None)  # it holds the connection, which would wait for the garbage collector

    def _end_cycles(self) -> None:
        for cycle in self._cycles:
            cycle.disconnected = cycle.disconnected or not cycle.response_complete
            cycle.message_event.set()
        self._cycles.clear()

    def timeout_keep_alive_handler(self) -> None:
        """Nobody asked for more, and who has not read the last reply by now never will."""
        self.transport.abort()


GC_THRESHOLD = 10_000
"""New containers before a collection; a request makes a few hundred, nearly all of which go by reference count."""


class ParleyServer(uvicorn.Server):
    asked_by: int | None = None
    """The signal that asked it to go down."""

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Signals are not raised again when all is done, as uvicorn does: going down as asked is a success."""
        desk = self._desk()
        if desk is None:
            super().handle_exit(sig, frame)
        elif self.asked_by is None:
            self.asked_by = sig
            desk.draining = True
            asyncio.get_running_loop().call_later(desk.server.settle_seconds, self._exit)
        elif sig == self.asked_by:
            self._exit()
            _end_all(desk)
            asyncio.get_running_loop().call_later(LAST_WORDS_SECONDS, self._drop_all)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """What was loaded to serve stays for good: the collector need not look at it again, nor at every request."""
        await super().startup(sockets)
        gc.collect()
        gc.freeze()
        gc.set_threshold(GC_THRESHOLD, 20, 20)

    def _exit(self) -> None:
        self.should_exit = True

    def _drop_all(self) -> None:
        for connection in list(self.server_state.connections):
            if isinstance(connection, CallerConnection):
                connection.drop()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        desk = self._desk()
        if desk is not None:
            desk.draining = True
            loop = asyncio.get_running_loop()
            loop.call_later(desk.server.drain_seconds, _end_all, desk)
            loop.call_later(desk.server.drain_seconds + LAST_WORDS_SECONDS, self._drop_all)
        await super().shutdown(sockets)

    def _desk(self) -> Any:
        app = self.config.loaded_app if self.config.loaded else None
        while app is not None and not hasattr(app, "state"):
            app = getattr(app, "app", None)
        return app.state.desk if app is not None else None


def _end_all(desk: Any) -> None:
    for delivery in list(desk.active):
        delivery.fail(Draining("this gateway is going down; send the request again"))


def config(server: Server, app: Any = "app.main:create_app") -> uvicorn.Config:
    """How uvicorn is to serve; `app` is a factory."""
    return uvicorn.Config(
        app,
        factory=True,
        host=server.host,
        port=server.port,
        workers=server.workers,
        http=CallerConnection,
        ws="none",
        lifespan="on",
        access_log=False,
        log_config=None,
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=KEEPALIVE_SECONDS,
        timeout_graceful_shutdown=int(server.drain_seconds + LAST_WORDS_SECONDS) + 2,
        backlog=4096,
    )


def serve(settings: Settings) -> int:
    """Serve until a signal; the exit code."""
    ours = config(settings.server)
    if settings.server.workers > 1:
        return _Supervisor(ours, sockets=[ours.bind_socket()]).serve()
    instance = ParleyServer(ours)
    instance.run()
    if not instance.started:
        return 1
    return INTERRUPTED if instance.asked_by == signal.SIGINT else 0


class _Worker(multiprocess.Process):
    """A worker process that goes down as a single one does. A Ctrl-C while it still starts is its supervisor's alone:
    that one ends it."""

    def start(self) -> None:
        resource_tracker.ensure_running()  # starting it unblocks the signal
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            super().start()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)

    def target(self, sockets: list[socket.socket] | None = None) -> None:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
        super().target(sockets)

    @property
    def server(self) -> uvicorn.Server:
        if self._server is None:
            self._server = ParleyServer(self.config)
        return self._server


class _Supervisor(Multiprocess):
    _interrupted = False

    def serve(self) -> int:
        multiprocess.Process = _Worker  # type: ignore[misc]  # uvicorn's supervisor takes no other way to its server
        self.run()
        if any(process.exitcode == STARTUP_FAILURE for process in self.processes):
            return 1
        return INTERRUPTED if self._interrupted else 0

    def handle_int(self) -> None:
        self._interrupted = True
        super().handle_int()

    def terminate_all(self) -> None:
        """Without our own copy of the listener, which would take connections that nobody answers any more."""
        for listener in self.sockets:
            listener.close()
        super().terminate_all()
