"""Gateways in processes of their own that can be killed: `python -m tests.live.gateway_processes`.

They are forked from one process that has everything loaded, which makes each of them ready within a tenth of a second.
On each line of its input that process finds a configuration file, and answers with the process id.
"""

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx

from tests.live.gateway import eventually
from tests.redis_server import free_port

_OPEN = ("01", "08")
"""Established, and left by the caller only."""


class Process:
    def __init__(self, number: int, port: int, log: Path) -> None:
        self.number, self._log = number, log
        self.address = ("127.0.0.1", port)

    async def until_ready(self) -> None:
        async with httpx.AsyncClient(
            base_url="http://{}:{}".format(*self.address), trust_env=False, verify=False
        ) as client:
            while not await _answers(client):
                assert self.runs, self.log_text

    def kill(self) -> None:
        os.kill(self.number, signal.SIGKILL)

    async def end(self) -> None:
        """As it is asked to; it says nothing of defects."""
        os.kill(self.number, signal.SIGTERM)
        await eventually(lambda: not self.runs, 10)
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


class ForkServer:
    def __init__(self, folder: Path) -> None:
        self._folder = folder
        command = [sys.executable, "-m", __name__]
        environ = {name: value for name, value in os.environ.items() if not name.startswith("PARLEY_")}
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environ, start_new_session=True
        )

    def start(self, configuration: str) -> Process:
        """It is not ready yet."""
        port = free_port()
        file = self._folder / f"{port}.toml"
        file.write_text(f'{configuration}\n[server]\nport = {port}\nlog_level = "warning"\n')
        assert self._process.stdin and self._process.stdout
        print(file, file=self._process.stdin, flush=True)
        return Process(int(self._process.stdout.readline()), port, file.with_suffix(".log"))

    def close(self) -> None:
        """With all of its children."""
        assert self._process.stdin and self._process.stdout
        self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()


async def _answers(client: httpx.AsyncClient) -> bool:
    try:
        return (await client.get("/readyz")).status_code == 200
    except httpx.TransportError:
        return False


def _is_socket(file: Path) -> bool:
    try:
        return os.readlink(file).startswith("socket:")  # noqa: PTH115 - it is no path
    except FileNotFoundError:
        return False


@contextlib.contextmanager
def run_fork_server(folder: Path) -> Iterator[ForkServer]:
    one = ForkServer(folder)
    try:
        yield one
    finally:
        one.close()


def _serve(file: Path) -> None:
    log = os.open(file.with_suffix(".log"), os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    for number in (1, 2):
        os.dup2(log, number)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    code = 1
    try:
        code = cli.main(["serve", "--config", str(file)])
    finally:
        sys.stderr.flush()
        os._exit(code)


if __name__ == "__main__":
    from app import cli, main, server  # noqa: F401 - they are loaded once for all children

    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for the children
    for line in sys.stdin:
        child = os.fork()
        if not child:
            _serve(Path(line.strip()))
        print(child, flush=True)
    os.killpg(0, signal.SIGKILL)
