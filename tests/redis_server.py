"""Real Redis servers of a test's own, each on a free port and a socket in a folder of its own.

Where `redis-server` (Debian's package of that name) is not installed, tests that need one are skipped; in CI, where the
environment has CI, they fail.
"""

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import redis

_ATTEMPTS = 5


class RedisServer:
    """One server; it keeps its port, and forgets all, when it is killed and started again."""

    def __init__(self, folder: Path, *options: str) -> None:
        self._folder, self._options = folder, options
        self._process: subprocess.Popen[str] | None = None
        self.port = 0
        self.socket = folder / "redis.sock"

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}/0"

    def client(self) -> redis.Redis:
        return redis.Redis(unix_socket_path=str(self.socket))

    def start(self) -> None:
        """Returns when the server answers."""
        assert self._process is None, "runs already"
        for _ in range(_ATTEMPTS):
            # Another process may take the free port before the server does.
            port = self.port or free_port()
            if self._started(port):
                self.port = port
                return
        raise AssertionError("redis-server does not start")

    def _started(self, port: int) -> bool:
        arguments = ["--port", str(port), "--bind", "127.0.0.1", "--unixsocket", str(self.socket), "--save", ""]
        command = ["redis-server", *arguments, "--dir", str(self._folder), "--appendonly", "no", *self._options]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        assert process.stdout
        for line in process.stdout:
            if "eady to accept connections" in line:
                # What little it says from here on fits into the pipe.
                self._process = process
                return True
        _reap(process)
        return False

    def pause(self) -> None:
        """Connections stay open and are accepted, and nothing is answered."""
        self._signal(signal.SIGSTOP)

    def go_on(self) -> None:
        self._signal(signal.SIGCONT)

    def kill(self) -> None:
        """As a machine that loses its power."""
        if self._process is not None:
            self._signal(signal.SIGKILL)
            _reap(self._process)
            self._process = None
            self.socket.unlink(missing_ok=True)

    def _signal(self, number: signal.Signals) -> None:
        assert self._process, "does not run"
        self._process.send_signal(number)


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port: int = one.getsockname()[1]
        return port


def _reap(process: subprocess.Popen[str]) -> None:
    process.wait()
    if process.stdout:
        process.stdout.close()


def require_redis() -> None:
    if shutil.which("redis-server"):
        return
    reason = "redis-server is not installed (apt-get install redis-server)"
    if os.environ.get("CI"):
        pytest.fail(reason)
    pytest.skip(reason)


@contextlib.contextmanager
def running_redis(*options: str) -> Iterator[RedisServer]:
    """A server that runs while the context is open; `options` are such as "--maxmemory", "10mb"."""
    require_redis()
    # A socket's path must be short, so pytest's folders will not do.
    with tempfile.TemporaryDirectory(prefix="parley-redis-") as folder:
        server = RedisServer(Path(folder), *options)
        try:
            server.start()
            yield server
        finally:
            server.kill()


def clustered(server: RedisServer) -> None:
    """Gives all slots to this server, and returns when it serves them, which it does after two seconds."""
    with server.client() as client:
        client.execute_command("CLUSTER", "ADDSLOTSRANGE", 0, 16383)
        while b"cluster_state:ok" not in client.execute_command("CLUSTER", "INFO"):
            time.sleep(0.01)


@contextlib.contextmanager
def running_sentinel(master: RedisServer) -> Iterator[int]:
    """The port of a sentinel that knows the server as `main`."""
    with tempfile.TemporaryDirectory(prefix="parley-redis-") as folder:
        port, file = free_port(), Path(folder, "sentinel.conf")
        file.write_text(f"sentinel monitor main 127.0.0.1 {master.port} 1\nport {port}\nbind 127.0.0.1\n")
        command = ["redis-server", str(file), "--sentinel", "--dir", folder]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        try:
            assert process.stdout and any("+monitor master main" in line for line in process.stdout)
            yield port
        finally:
            process.kill()
            _reap(process)


@pytest.fixture(scope="session")
def one_redis() -> Iterator[RedisServer]:
    """The server that all tests share which do it no harm."""
    with running_redis() as server:
        yield server


@pytest.fixture
def shared_redis(one_redis: RedisServer) -> RedisServer:
    """The shared server, empty."""
    with contextlib.closing(one_redis.client()) as client:
        client.flushall()
    return one_redis


@pytest.fixture
def own_redis() -> Iterator[RedisServer]:
    """A server that a test may pause, kill and start again."""
    with running_redis() as server:
        yield server


def store_url(request: pytest.FixtureRequest) -> str:
    """What a fixture's parameter names: a URL as it stands, or `redis`, the server that all tests share."""
    if request.param != "redis":
        return str(request.param)
    server: RedisServer = request.getfixturevalue("shared_redis")
    return server.url
