"""Runs uvicorn for `parley serve`, and shuts it down.

At SIGTERM or SIGINT, `/readyz` answers 503. New requests are still served for `settle_seconds`, so that load
balancers notice, each as the last one of its connection. Then the listener closes, and running streams may finish
within `drain_seconds`. A stream that still runs after that ends with a `response.failed` of code `draining`, never
silently. The same signal a second time ends
everything at once, unless it comes within REPEAT_SECONDS: a signal to a process group reaches a gateway twice if
`make` or a supervisor passes it on. With several workers, Ctrl-C in a terminal reaches each worker as SIGINT and as the
SIGTERM of the supervisor: that counts as one signal, too.

Workers whose supervisor was killed shut down as at SIGTERM, but close the listener at once, so that the next gateway
can use its address.

At SIGHUP each worker reads the configuration again. If the terminal is gone from which the gateway was started, it
shuts down instead.
"""

import asyncio
import contextlib
import errno
import gc
import importlib.util
import logging
import os
import resource
import signal
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from multiprocessing import parent_process, resource_tracker
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple, cast

import uvicorn
from uvicorn.config import STARTUP_FAILURE
from uvicorn.importer import import_from_string
from uvicorn.server import ServerState
from uvicorn.supervisors import Multiprocess, multiprocess

from app.api.application import find_application
from app.api.context import AppContext
from app.config.settings import Settings
from app.config.tables.server import LogFormat, Server
from app.config.warnings import find_warnings
from app.errors import Draining
from app.observe import logs
from app.runtime.own_process import hide_process
from app.server.connection import ClientConnection, evict_idle
from app.server.connection_limits import ConnectionLimits, ConnectionWarnings
from app.server.listener import Listener

log = logging.getLogger("parley.server")

WORKER_SECONDS = 60
"""How long a worker may take to start or to answer its supervisor, before the supervisor replaces it."""
INTERRUPTED = 130
"""The exit code after Ctrl-C, as shells use it: 128 + SIGINT."""
REPEAT_SECONDS = 1.0
"""The same signal within this time is not a second one."""
FINAL_FLUSH_SECONDS = 1.0
"""How long responses may take to send their last frame at shutdown."""
_EXHAUSTED = frozenset((errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM))
"""The errors of a system that has no file, or no memory, for a further connection."""
MAX_OPEN_FILES = 65_536
RESERVED_FILES = 256
"""The number of open files that clients cannot use: caches, logs, documents and connections to upstreams need them."""
PONG_SECONDS = 60.0
"""How long a client of a socket may take to answer a ping."""
MAIN_LOOP_SECONDS = 0.1
"""How often uvicorn's main loop runs."""
KEEPALIVE_IDLE_SECONDS, KEEPALIVE_PROBE_SECONDS, KEEPALIVE_PROBES = 60, 15, 4
"""When TCP starts to probe a silent peer, the time between probes, and how many of them may stay unanswered."""


GC_THRESHOLD = 100_000
"""How many new container objects start a garbage collection. Reference counting frees what a request leaves, so a
collection finds next to nothing, but it visits the replies in progress, with an object or more for each chunk. With
10,000, each time that a few dozen of them have grown there was a pause of 10 to 20 ms."""


SWITCH_SECONDS = 0.0005
"""How long a thread that parses a large body may keep the interpreter while the event loop waits for it. With Python's
5 ms, the p99 of a chunk of 64 paced streams was 3.1 instead of 2.2 ms beside 4 turns of agents a second, and 4.2
instead of 3.5 ms beside 10 (medians of 2 runs in turn)."""


class _AddressSettings(NamedTuple):
    """What to change when an address cannot be used."""

    port: str
    host: str


class CannotListen(Exception):
    """The gateway cannot listen at its address. The message says why, and what to do."""


class ParleyServer(uvicorn.Server):
    """A uvicorn server that drains before it stops. It calls `on_listening` once, when it accepts connections."""

    stop_signal: int | None = None
    """The signal that started the shutdown."""

    def __init__(self, config: "ServerConfig", on_listening: Callable[[], None] | None = None) -> None:
        super().__init__(config)
        self._on_listening = on_listening
        self._limits = config.limits
        self._has_sockets = config.has_sockets
        self._warnings = ConnectionWarnings()
        self._metrics_sockets = config.metrics_sockets
        self._metrics_listeners: list[Listener] = []
        self._metrics_state = ServerState()
        """The connections to the port of the metrics. They are not counted with those of clients."""
        self._terminal = find_terminal()
        self._stopped_at = 0.0

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Start the shutdown. Unlike uvicorn, it does not raise the signal again at the end: a shutdown on request is a
        success."""
        context = self._get_context()
        if context is None or not self.started:
            super().handle_exit(sig, frame)
        elif self.stop_signal is None:
            self.stop_signal, self._stopped_at = sig, time.monotonic()
            context.draining = True
            for connection in self.server_state.connections:
                cast(ClientConnection, connection).end_after_response()
            asyncio.get_running_loop().call_later(context.server.settle_seconds, self._exit)
        elif sig == self.stop_signal and time.monotonic() - self._stopped_at >= REPEAT_SECONDS:
            self._exit()
            _end_replies(context)
            asyncio.get_running_loop().call_later(FINAL_FLUSH_SECONDS, self.drop_connections)

    def handle_hangup(self, sig: int, frame: FrameType | None) -> None:
        """Reload the configuration, or start the shutdown if the terminal is gone."""
        context = self._get_context()
        if context is None or not self.started or is_terminal_gone(self._terminal):
            self.handle_exit(sig, frame)
        else:
            asyncio.get_running_loop().call_soon_threadsafe(context.on_hangup)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start to listen. The garbage collector then ignores all objects that exist so far, because they are never
        freed, and runs less often. Threads let the event loop run sooner."""
        assert sockets is not None  # `bind` made them
        for one in (*sockets, *self._metrics_sockets):
            # uvloop closes no files in the processes that it starts. While one of them has these, the system accepts
            # connections that are never answered after this process has closed them.
            one.set_inheritable(False)
        try:
            await self.listen(sockets)
        except OSError as error:  # another process began to listen at the address after `bind`
            self.started = False
            for listener in self.servers:
                listener.close()
            await self.lifespan.shutdown()
            raise CannotListen(_explain_bind_error(error, self.config.host, self.config.port)) from error
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGHUP})
        if self._on_listening is not None:
            self._on_listening()
        gc.collect()
        gc.freeze()
        gc.set_threshold(GC_THRESHOLD, 20, 20)
        sys.setswitchinterval(SWITCH_SECONDS)

    async def listen(self, sockets: Sequence[socket.socket]) -> None:
        """Start the application, and accept connections at these bound sockets. Raises OSError."""
        await super().startup([])  # uvicorn then creates no servers of its own
        for one in sockets:
            self.servers.append(cast(Any, self._listen(one, self.config.loaded_app, self.server_state)))
        app = find_application(self.config.loaded_app)
        if app is not None and app.state.metrics_app is not None:
            for one in self._metrics_sockets:
                self._metrics_listeners.append(self._listen(one, app.state.metrics_app, self._metrics_state))

    def _listen(self, bound: socket.socket, app: Any, state: ServerState) -> Listener:
        """Accept connections at a bound socket. Raises OSError."""
        _enable_keepalive(bound)
        make_protocol = partial(
            ClientConnection,
            *(app, self._limits, self._warnings, state, self.lifespan.state),
            is_draining=lambda: self.stop_signal is not None,
            open_socket=self._open_socket if state is self.server_state and self._has_sockets else None,
        )
        return Listener(bound, make_protocol, self.config.backlog, partial(self._on_accept_pause, state.connections))

    def _open_socket(self) -> asyncio.Protocol:
        from app.server.socket_connection import SocketConnection  # most gateways have no client that uses sockets

        context = self._get_context()
        lease = None if context is None else context.budget.lease()
        return SocketConnection(self.config, self.server_state, self.lifespan.state, lease)

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Handles SIGHUP too, unless the parent process ignores it, as nohup does."""
        if threading.current_thread() is not threading.main_thread() or is_hangup_ignored():
            with super().capture_signals():
                yield
            return
        before = signal.signal(signal.SIGHUP, self.handle_hangup)
        try:
            with super().capture_signals():
                yield
        finally:
            signal.signal(signal.SIGHUP, before)

    async def on_tick(self, counter: int) -> bool:
        seconds = self._limits.tick_seconds
        if counter % max(1, round(seconds / MAIN_LOOP_SECONDS)) == 0:
            for connection in [*self.server_state.connections, *self._metrics_state.connections]:
                cast(ClientConnection, connection).tick(max(seconds, MAIN_LOOP_SECONDS))
        self._metrics_state.default_headers = self.server_state.default_headers
        return await super().on_tick(counter)

    def _on_accept_pause(self, connections: set[Any], error: OSError) -> None:
        """Warn that new connections wait, and close idle ones if that helps."""
        if error.errno not in _EXHAUSTED:
            self._warnings.accept.warn(
                "%s: new connections wait, because the system does not let the gateway accept them; "
                "look for a security module or a firewall that forbids it",
                error.strerror,
            )
            return
        evicted = evict_idle(connections)
        self._warnings.accept.warn(
            "%s: new connections wait; %d clients are connected%s; "
            "raise the limit of open files (ulimit -n) or lower server.max_connections",
            error.strerror,
            len(connections),
            ", some idle ones were closed" if evicted else "",
        )

    def _exit(self) -> None:
        self.should_exit = True

    def drop_connections(self) -> None:
        """Close the connections of all clients at once."""
        for connection in list(self.server_state.connections):
            connection.drop()  # type: ignore[union-attr]

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        context = self._get_context()
        if context is not None:
            context.draining = True
            log.info(
                "shutting down: %d replies may finish within %g s",
                len(context.replies.active),
                context.server.drain_seconds,
            )
            loop = asyncio.get_running_loop()
            loop.call_later(context.server.drain_seconds, _end_replies, context)
            loop.call_later(context.server.drain_seconds + FINAL_FLUSH_SECONDS, self.drop_connections)
        for listener in self.servers:
            listener.close()
        for listener in self.servers:
            await listener.wait_closed()  # then uvicorn knows all connections, and tells each of them to end
        await super().shutdown(sockets)
        for own in self._metrics_listeners:
            own.close()
            await own.wait_closed()
        for connection in list(self._metrics_state.connections):
            cast(ClientConnection, connection).drop()

    def _get_context(self) -> AppContext | None:
        """Return the application's context; None while the application is not loaded."""
        app = find_application(self.config.loaded_app) if self.config.loaded else None
        return None if app is None else cast(AppContext, app.state.context)


def is_hangup_ignored() -> bool:
    return signal.getsignal(signal.SIGHUP) is signal.SIG_IGN


def find_terminal() -> int | None:
    """Return the file descriptor of the terminal from which this process was started; None if there is none."""
    return next((number for number in (0, 1, 2) if os.isatty(number)), None)


def is_terminal_gone(terminal: int | None) -> bool:
    """Whether there was a terminal, which has hung up: the kernel then makes every use of it fail."""
    return terminal is not None and not os.isatty(terminal)


def _enable_keepalive(listening: socket.socket) -> None:
    """Set TCP keep-alive, which connections inherit: a connection then ends when its peer vanishes without closing."""
    if listening.family not in (socket.AF_INET, socket.AF_INET6):
        return
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    if hasattr(socket, "TCP_KEEPIDLE"):
        listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, KEEPALIVE_IDLE_SECONDS)
        listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, KEEPALIVE_PROBE_SECONDS)
        listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, KEEPALIVE_PROBES)


def _end_replies(context: AppContext) -> None:
    for response in list(context.replies.active):
        response.fail(Draining("this gateway is shutting down; send the request again"))


def connection_limits(server: Server) -> ConnectionLimits:
    """Return the limits of connections. Clients get at most half of the open files, because each request may need a
    second one for its model server."""
    files = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    files = MAX_OPEN_FILES if files == resource.RLIM_INFINITY else files
    return ConnectionLimits(
        max_connections=min(server.max_connections, max(1, (files - min(RESERVED_FILES, files // 4)) // 2)),
        max_head_bytes=server.max_head_bytes,
        head_seconds=server.head_seconds,
        body_seconds=server.body_seconds,
        keep_alive_seconds=server.keep_alive_seconds,
        stall_seconds=server.stall_seconds,
    )


def raise_open_files() -> None:
    """Raise the soft limit of open files to the hard limit; the usual 1024 is for programs that use select."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MAX_OPEN_FILES if hard == resource.RLIM_INFINITY else min(hard, MAX_OPEN_FILES)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


class ServerConfig(uvicorn.Config):
    """uvicorn's configuration, the limits of connections, and the bound sockets of the metrics' own port."""

    def __init__(
        self, limits: ConnectionLimits, metrics_sockets: Sequence[socket.socket], app: Any, **options: Any
    ) -> None:
        super().__init__(app, **options)
        self.limits = limits
        self.has_sockets = importlib.util.find_spec("websockets") is not None
        """Clients may open WebSockets; the application decides about each of them."""
        self.metrics_sockets = metrics_sockets


def config(
    server: Server, app: Any = "app.main:create_app", metrics_sockets: Sequence[socket.socket] = ()
) -> ServerConfig:
    """Return the configuration of the server; `app` is a factory."""
    return ServerConfig(
        connection_limits(server),
        metrics_sockets,
        app,
        factory=True,
        host=server.host,
        port=server.port,
        workers=server.workers,
        ws="none",
        ws_max_size=server.max_body_bytes,
        ws_ping_timeout=PONG_SECONDS,
        lifespan="on",
        access_log=False,
        log_config=None,
        server_header=False,
        proxy_headers=False,
        timeout_worker_healthcheck=WORKER_SECONDS,
        timeout_graceful_shutdown=int(server.drain_seconds + FINAL_FLUSH_SECONDS) + 2,
        backlog=4096,
        http=ClientConnection,
    )


def serve(settings: Settings, banner: Callable[[int], list[str]]) -> int:
    """Serve until a signal comes, and return the exit code. `banner` returns the lines to print once the server accepts
    connections; its argument is the port. Raises CannotListen, and SettingsError for files that the settings name."""
    raise_open_files()
    hide_process()
    uvicorn_config = config(settings.server, metrics_sockets=bind_metrics_port(settings))
    sockets = bind(settings.server)
    lines = banner(sockets[0].getsockname()[1])
    on_listening = partial(_print_banner, lines, [*find_warnings(settings)], settings.server.log_format)
    if settings.server.workers > 1:
        logs.configure(settings.server.log_level, settings.server.log_format)
        with tempfile.TemporaryDirectory(prefix="parley-") as folder:
            return _Supervisor(Path(folder), uvicorn_config, sockets, on_listening).serve()
    instance = ParleyServer(uvicorn_config, on_listening)
    instance.run(sockets)
    if not instance.started:
        return 1
    return INTERRUPTED if instance.stop_signal == signal.SIGINT else 0


def _print_banner(banner: list[str], warnings: list[str], log_format: LogFormat) -> None:
    """Print the banner for people, and log the warnings. For a program that reads the log, log the banner's first line
    instead of all. All of it is written before a client gets an answer."""
    if logs.log_format(log_format, sys.stderr) == "console":
        sys.stderr.write("".join(f"{line}\n" for line in banner))
        sys.stderr.flush()
    else:
        log.info(banner[0])
    for warning in warnings:
        log.warning("%s", warning)
    logs.flush()


_PORT_SETTINGS = _AddressSettings("--port or PARLEY_SERVER__PORT", "server.host or --host")
_METRICS_SETTINGS = _AddressSettings("metrics.port or PARLEY_METRICS__PORT", "metrics.host or PARLEY_METRICS__HOST")


def bind_metrics_port(settings: Settings) -> list[socket.socket]:
    """Bind the port of its own that the settings give /metrics, if they do. Raises CannotListen."""
    port = settings.metrics.port
    if port is None or not settings.metrics.enabled:
        return []
    host = settings.server.host if settings.metrics.host is None else settings.metrics.host
    return _bind(host, port, _METRICS_SETTINGS)


def bind(server: Server) -> list[socket.socket]:
    """Bind a socket for each address of the host; `::` is all addresses of both families. Raises CannotListen."""
    return _bind(server.host, server.port, _PORT_SETTINGS)


def _bind(host: str, port: int, settings: _AddressSettings) -> list[socket.socket]:
    bound: list[socket.socket] = []
    try:
        found = socket.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        for family, kind, protocol, _, address in dict.fromkeys(found):
            one = socket.socket(family, kind, protocol)
            bound.append(one)
            one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                # `::` serves both families, whatever the system's default is.
                one.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, address[0] != "::")
            one.bind((address[0], port, *address[2:]))
            one.set_inheritable(True)
            port = port or one.getsockname()[1]
    except OSError as error:
        for one in bound:
            one.close()
        raise CannotListen(_explain_bind_error(error, host, port, settings)) from error
    return bound


def _explain_bind_error(error: OSError, host: str, port: int, settings: _AddressSettings = _PORT_SETTINGS) -> str:
    if isinstance(error, socket.gaierror):
        return f"cannot listen on host {host!r}: this name has no address ({error.strerror}). Set {settings.host}"
    match error.errno:
        case errno.EADDRINUSE:
            return (
                f"port {port} of {host} is already in use by another program. "
                f"Stop that program, or choose another port with {settings.port}"
            )
        case errno.EACCES:
            text = f"port {port} of {host} may not be used without privileges"
            return f"{text}. Choose a port from 1024 up with {settings.port}"
        case errno.EADDRNOTAVAIL:
            return f"this machine has no address {host}. Set {settings.host}, for example to 127.0.0.1"
    return f"cannot listen on port {port} of {host}: {os.strerror(error.errno or 0)}"


class _GatewayWorker(multiprocess.Process):
    """A worker process that drains like a single process. While it starts it ignores Ctrl-C: its supervisor ends it."""

    config: ServerConfig

    def __init__(
        self,
        folder: Path,
        config: ServerConfig,
        sockets: list[socket.socket],
        on_listening: Callable[[], None] | None,
    ) -> None:
        """`folder` is the one that all workers share."""
        super().__init__(config, sockets)
        self._folder = folder
        self._on_listening = on_listening

    def start(self) -> None:
        resource_tracker.ensure_running()  # starting it unblocks the signal
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            super().start()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        # The worker has it alone now. So when the worker ends, the supervisor no longer waits for its answer.
        self.child_conn.close()

    def target(self, sockets: list[socket.socket] | None = None) -> None:
        hide_process()
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
        self.config.app = partial(import_from_string(self.config.app), worker_folder=self._folder)
        # Before uvicorn starts the thread that answers the supervisor: at the same time as this one, it would make a
        # server of its own, which never starts.
        self._server = ParleyServer(self.config, self._on_listening)
        threading.Thread(target=_stop_without_supervisor, args=(self._server,), daemon=True).start()
        try:
            super().target(sockets)
        except CannotListen as error:
            log.error("%s", error)
            sys.exit(STARTUP_FAILURE)


def _stop_without_supervisor(server: uvicorn.Server) -> None:
    """Shut the server down when the supervisor of this worker ends without ending it."""
    supervisor = parent_process()
    assert supervisor is not None
    supervisor.join()
    if not server.should_exit:
        log.warning("the supervisor of this worker has ended: shutting down")
        server.should_exit = True


class _Supervisor(Multiprocess):
    """Starts and watches the workers. Only its first worker calls `on_listening`; a replacement does not.

    It starts every worker itself: uvicorn's supervisor takes no class of workers."""

    config: ServerConfig
    _interrupted = False

    def __init__(
        self,
        folder: Path,
        config: ServerConfig,
        sockets: list[socket.socket],
        on_listening: Callable[[], None] | None,
    ) -> None:
        """`folder` is the one that all workers share."""
        ignored = is_hangup_ignored()
        super().__init__(config, sockets)
        if ignored:
            signal.signal(signal.SIGHUP, signal.SIG_IGN)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGHUP})
        self._on_listening = on_listening
        self._folder = folder
        self._terminal = find_terminal()
        self._to_reload: list[multiprocess.Process] = []
        """The workers that have not got the signal yet to reload the configuration."""

    def init_processes(self) -> None:
        for number in range(self.processes_num):
            self.processes.append(self._start_worker(self._on_listening if number == 0 else None))

    def _start_worker(self, on_listening: Callable[[], None] | None = None) -> _GatewayWorker:
        worker = _GatewayWorker(self._folder, self.config, self.sockets, on_listening)
        worker.start()
        return worker

    def serve(self) -> int:
        self.run()
        if any(process.exitcode == STARTUP_FAILURE for process in self.processes):
            return 1
        return INTERRUPTED if self._interrupted else 0

    def handle_int(self) -> None:
        self._interrupted = True
        super().handle_int()

    def handle_hup(self) -> None:
        """Let each worker reload the configuration, or shut down as at SIGTERM if the terminal is gone."""
        if is_terminal_gone(self._terminal):
            self.handle_term()
            return
        self._to_reload = list(self.processes)
        self._signal_workers()

    def keep_subprocess_alive(self) -> None:
        """Replace the workers that have ended or hang. One that could not start would fail again: then end all."""
        self._signal_workers()
        for at, process in enumerate(self.processes):
            if self.should_exit.is_set():
                return
            if process.is_alive(timeout=self.config.timeout_worker_healthcheck):
                continue
            process.kill()
            process.join()
            if process.exitcode == STARTUP_FAILURE:
                log.error("the worker %s failed to start: shutting down", process.pid)
                self.should_exit.set()
            elif not self.should_exit.is_set():
                log.warning("the worker %s has ended: a new one is started", process.pid)
                self.processes[at] = self._start_worker()

    def handle_ttin(self) -> None:
        self.processes_num += 1
        self.processes.append(self._start_worker())

    def _signal_workers(self) -> None:
        """Signal the workers that are to reload. One that still starts is signalled later, because it would be ended by
        the signal, and may have read the configuration already."""
        waiting = [process for process in self._to_reload if process.exitcode is None]
        self._to_reload = []
        for process in waiting:
            if process.pid is not None and process.is_ready():
                os.kill(process.pid, signal.SIGHUP)
            else:
                self._to_reload.append(process)

    def terminate_all(self) -> None:
        """Close the supervisor's copy of the listener first: it would accept connections that no worker answers."""
        for listener in (*self.sockets, *self.config.metrics_sockets):
            listener.close()
        super().terminate_all()
