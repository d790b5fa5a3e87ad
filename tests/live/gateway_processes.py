"""Gateways in processes of their own that can be killed, and of which the connections are counted.

They are forked from one process that has everything loaded, which makes each of them ready within a tenth of a second.
"""

import asyncio
import contextlib
import os
import signal
import socket
from collections.abc import Iterator
from pathlib import Path

from tests import fork_client
from tests.clean_environment import clean_environment
from tests.fork_server import fork_server
from tests.live.gateway import eventually
from tests.live.raw_client import DEADLINE_SECONDS, readiness
from tests.redis_server import free_port

_OPEN = ("01", "08")
"""Established, and left by the caller only."""


class Process:
    def __init__(self, number: int, port: int, file: Path, log: Path) -> None:
        self.number, self._file, self._log = number, file, log
        self.address = ("127.0.0.1", port)

    async def until_ready(self) -> None:
        async with asyncio.timeout(DEADLINE_SECONDS):
            while await readiness(self.address) != 200:
                assert self.runs, self.log_text
                await asyncio.sleep(0.01)

    def reconfigure(self, old: str, new: str) -> None:
        """Replace a text in its configuration, and tell it to read it again."""
        self._file.write_text(self._file.read_text().replace(old, new))
        os.kill(self.number, signal.SIGHUP)

    def kill(self) -> None:
        os.kill(self.number, signal.SIGKILL)

    async def end(self) -> None:
        """As it is asked to; it says nothing of defects."""
        os.kill(self.number, signal.SIGTERM)
        await eventually(lambda: not self.runs)
        assert "Traceback" not in self.log_text and "defect" not in self.log_text, self.log_text

    @property
    def runs(self) -> bool:
        return Path(f"/proc/{self.number}/stat").exists()

    @property
    def log_text(self) -> str:
        return self._log.read_text()

    @property
    def callers(self) -> int:
        """Connections of callers that are open at its end."""
        rows = (line.split() for line in Path(f"/proc/{self.number}/net/tcp").read_text().splitlines()[1:])
        return sum(row[1].endswith(f":{self.address[1]:04X}") and row[3] in _OPEN for row in rows)

    @property
    def sockets(self) -> int:
        return sum(_is_socket(file) for file in Path(f"/proc/{self.number}/fd").iterdir())


class GatewayProcesses:
    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._connections: list[socket.socket] = []

    def start(self, configuration: str, server: str = "") -> Process:
        """It is not ready yet. `server` are further lines of the table of this name."""
        port = free_port()
        file = self._folder / f"{port}.toml"
        file.write_text(f'{configuration}\n[server]\nport = {port}\nlog_level = "warning"\n{server}')
        log = file.with_suffix(".log")
        environ = clean_environment()
        program = ["app.cli", "serve", "--config", str(file)]
        with Path(os.devnull).open() as nothing, log.open("a") as output:
            folder = os.open(".", os.O_RDONLY)
            files = [nothing.fileno(), output.fileno(), output.fileno(), folder]
            connection = fork_client.start(fork_server(), program, environ, files)
            os.close(folder)
        self._connections.append(connection)
        return Process(fork_client.receive_number(connection), port, file, log)

    def close(self) -> None:
        """Kill those that still run."""
        for connection in self._connections:
            connection.close()


def _is_socket(file: Path) -> bool:
    try:
        return os.readlink(file).startswith("socket:")  # noqa: PTH115 - it is no path
    except FileNotFoundError:
        return False


@contextlib.contextmanager
def run_gateways(folder: Path) -> Iterator[GatewayProcesses]:
    with contextlib.closing(GatewayProcesses(folder)) as gateways:
        yield gateways
