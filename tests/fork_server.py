"""The command `parley` without the second that loading its modules takes.

A process that has them loaded forks a child for each command, and the child runs the command as `python -m app.cli`
does. To whoever starts it, the command is `tests/fork_client.py`.
"""

import atexit
import contextlib
import functools
import json
import os
import selectors
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TextIO, cast

ROOT = Path(__file__).parents[1]


@functools.cache
def forked_parley() -> tuple[str, ...]:
    """The command: like `(sys.executable, "-m", "app.cli")`. Its server ends with this process."""
    address = str(Path(tempfile.mkdtemp(prefix="parley-tests-")) / "socket")
    environ = {name: value for name, value in os.environ.items() if not name.startswith("PARLEY_")}
    server = subprocess.Popen(
        [sys.executable, "-m", __name__, address],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=ROOT,
        env=environ,
        start_new_session=True,
    )
    assert server.stdout and server.stdout.readline() == b"ready\n"
    atexit.register(_end, server)
    # Without the modules of the environment, which take longer to find than the client takes to run.
    return (sys.executable, "-ISE", str(ROOT / "tests/fork_client.py"), address)


def _end(server: subprocess.Popen[bytes]) -> None:
    assert server.stdin and server.stdout
    server.stdin.close()
    server.wait()
    server.stdout.close()


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
        """Returns in each child, with the arguments of its command."""
        while True:
            for key, _ in self._selector.select():
                arguments: list[str] | None = key.data()
                if arguments is not None:
                    return arguments

    def _start(self) -> list[str] | None:
        client, _ = self._listener.accept()
        size, files, _, _ = socket.recv_fds(client, 4, 4)
        with client.makefile("rb") as whole:
            request = json.loads(whole.read(int.from_bytes(size, "big")))
        pid = os.fork()
        if not pid:
            self._leave()
            client.close()
            _become(request["environ"], files)
            return ["parley", *request["arguments"]]
        for file in files:
            os.close(file)
        child = _Child(pid, client)
        self._children.append(child)
        self._selector.register(client, selectors.EVENT_READ, functools.partial(self._pass_on, child))
        self._selector.register(child.handle, selectors.EVENT_READ, functools.partial(self._reap, child))
        return None

    def _pass_on(self, child: _Child) -> None:
        try:
            signals = child.client.recv(64)
        except ConnectionError:
            signals = b""
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

    def _end(self) -> None:
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


if __name__ == "__main__":
    import gc

    from app import cli, main, server  # noqa: F401 - they are loaded once for all children
    from app.commands import chat, convert, doctor, models, serve  # noqa: F401

    _loop = _Server(sys.argv[1])
    gc.freeze()
    print("ready", flush=True)
    sys.argv = _loop.serve()
    del _loop
    sys.exit(cli.main(sys.argv[1:]))
