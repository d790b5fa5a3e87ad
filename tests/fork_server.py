"""Python programs without the second that loading the gateway's modules takes.

A process loads these modules once, and forks a child for each program. The program runs in the child as
`python -m MODULE` would run it. The process that is started in its place is `tests/fork_client.py`.
"""

import atexit
import contextlib
import functools
import json
import os
import runpy
import selectors
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import traceback
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NoReturn, TextIO, cast

from tests.clean_environment import clean_environment
from tests.forked_workers import end_process, fork_workers, read_exit_code

ROOT = Path(__file__).parents[1]
ADDRESS = "TESTS_FORK_SERVER"
"""The environment variable with the address of a server that several processes share."""
SPAWN_WORKERS = "TESTS_SPAWN_WORKERS"
"""The environment variable that lets a gateway start its workers as users' gateways do, instead of forking them."""


def forked(module: str) -> tuple[str, ...]:
    """The command: like `(sys.executable, "-m", module)`."""
    # Without the modules of the environment, which take longer to find than the client takes to run.
    return (sys.executable, "-ISE", str(ROOT / "tests/fork_client.py"), fork_server(), module)


def forked_parley() -> tuple[str, ...]:
    return forked("app.cli")


@functools.cache
def fork_server() -> str:
    """The address of the server that this process shares with others, or of its own, which ends with it."""
    return os.environ.get(ADDRESS) or _start_server()


def share_fork_server() -> None:
    """From now on, processes that this one starts share a server, which ends with this one."""
    os.environ[ADDRESS] = _start_server()


def _start_server() -> str:
    until_exit = contextlib.ExitStack()
    atexit.register(until_exit.close)
    address, _ = until_exit.enter_context(running_fork_server())
    return address


@contextlib.contextmanager
def running_fork_server() -> Iterator[tuple[str, int]]:
    """The address and the process id of a server of the caller's own."""
    address = str(Path(tempfile.mkdtemp(prefix="parley-tests-")) / "socket")
    with subprocess.Popen(
        [sys.executable, "-m", __name__, address],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=ROOT,
        env=clean_environment(),
        start_new_session=True,
    ) as server:
        assert server.stdout and server.stdout.readline() == b"ready\n"
        yield address, server.pid


class _Child:
    def __init__(self, pid: int, client: socket.socket) -> None:
        self.pid, self.client = pid, client
        self.handle = os.pidfd_open(pid)


class _Server:
    def __init__(self, address: str) -> None:
        self._address = Path(address)
        self._selector = selectors.DefaultSelector()
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(address)
        self._listener.listen(64)
        self._children: list[_Child] = []
        self._selector.register(self._listener, selectors.EVENT_READ, self._start)
        self._selector.register(0, selectors.EVENT_READ, self._end)

    def serve(self) -> list[str]:
        """Returns in each child, with its module and arguments."""
        while True:
            # One at a time: what is done for one file may close the file of the next, such as that of a client which
            # leaves when its child ends.
            key, _ = self._selector.select()[0]
            program: list[str] | None = key.data()
            if program is not None:
                return program

    def _start(self) -> list[str] | None:
        _load()
        client, _ = self._listener.accept()
        request, files = _receive(client)
        pid = os.fork() if request else None
        if pid == 0:
            self._leave()
            client.close()
            _become(request["environ"], files)
            return list(request["program"])
        for file in files:
            os.close(file)
        if pid is None:
            client.close()
            return None
        with contextlib.suppress(OSError):  # the client has left
            client.sendall(pid.to_bytes(4, "big"))
        child = _Child(pid, client)
        self._children.append(child)
        self._selector.register(client, selectors.EVENT_READ, functools.partial(self._pass_on, child))
        self._selector.register(child.handle, selectors.EVENT_READ, functools.partial(self._reap, child))
        return None

    def _pass_on(self, child: _Child) -> None:
        signals = b""
        with contextlib.suppress(ConnectionError):
            signals = child.client.recv(64)
        for number in signals:
            signal.pidfd_send_signal(child.handle, number)
        if not signals:
            self._selector.unregister(child.client)
            _kill(child)

    def _reap(self, child: _Child) -> None:
        _, status = os.waitpid(child.pid, 0)
        code = os.waitstatus_to_exitcode(status)
        with contextlib.suppress(OSError):  # the client has left
            child.client.sendall(code.to_bytes(4, "big", signed=True))
        with contextlib.suppress(KeyError):
            self._selector.unregister(child.client)
        self._selector.unregister(child.handle)
        os.close(child.handle)
        child.client.close()
        self._children.remove(child)

    def _end(self) -> NoReturn:
        """Those who started this process are gone."""
        for child in self._children:
            _kill(child)
        self._address.unlink()
        self._address.parent.rmdir()
        sys.exit()

    def _leave(self) -> None:
        """Close what a child has inherited."""
        self._selector.close()
        self._listener.close()
        for child in self._children:
            os.close(child.handle)
            child.client.close()


def _receive(client: socket.socket) -> tuple[dict[str, Any], list[int]]:
    """The request of a client and its files. The request is empty if the client has left."""
    files: list[int] = []
    with contextlib.suppress(ConnectionError), client.makefile("rb") as whole:
        size, files, _, _ = socket.recv_fds(client, 4, 4)
        length = int.from_bytes(size, "big")
        text = whole.read(length)
        if size and len(text) == length:
            return json.loads(text), files
    return {}, files


@functools.cache
def _load() -> None:
    """Load what all children need: not before the first comes, because there may be none."""
    import gc

    from app import main
    from app.commands import chat, convert, doctor, models, serve  # noqa: F401
    from app.config.settings import Settings

    from tests.restored_logging import restored_logging

    with restored_logging():
        main.create_app(Settings.model_validate({"cache": {"url": "null:"}, "usage": {"url": "null:"}}))
    gc.collect()
    gc.freeze()


def _kill(child: _Child) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGKILL)


def _become(environ: dict[str, str], files: Sequence[int]) -> None:
    """Take the environment and the files of the client: standard input, output and error, and the current folder."""
    os.setsid()
    *standard, folder = files
    os.fchdir(folder)
    for number, file in enumerate(standard):
        os.dup2(file, number)
    for file in files:
        os.close(file)
    os.environ.clear()
    os.environ.update(environ)
    sys.stdin, sys.stdout, sys.stderr = (_open(number, mode) for number, mode in enumerate("rww"))


def _open(number: int, mode: str) -> TextIO:
    """As Python does when it starts."""
    line_by_line = number == 2 or os.isatty(number)
    return cast(TextIO, os.fdopen(number, mode, 1 if line_by_line else -1, "utf-8", closefd=False))


def _run(module: str, *arguments: str) -> None:
    """Run the module, and end as Python does, but without taking apart all modules at the end."""
    sys.argv = ["", *arguments]
    if SPAWN_WORKERS not in os.environ:
        fork_workers()
    sys.modules.pop(module, None)  # or a warning would say that it was imported before
    try:
        runpy.run_module(module, run_name="__main__", alter_sys=True)
    except SystemExit as ended:
        threading._shutdown()  # type: ignore[attr-defined]
        atexit._run_exitfuncs()
        end_process(read_exit_code(ended))


if __name__ == "__main__":
    _loop = _Server(sys.argv[1])
    print("ready", flush=True)
    try:
        _program = _loop.serve()
    except Exception:  # a defect: its clients learn at once that there is no server any more
        traceback.print_exc()
        end_process(1)
    del _loop
    _run(*_program)
