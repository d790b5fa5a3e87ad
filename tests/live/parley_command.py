"""The command `parley serve` in a process of its own."""

import asyncio
import os
import signal
import socket
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from tests.clean_environment import clean_environment
from tests.fork_server import SPAWN_WORKERS, forked_parley
from tests.live.raw_client import readiness
from tests.scripted_server import ScriptedServer

DEADLINE_SECONDS = 180.0
"""A gateway with three workers loads its modules four times, which takes long on a busy machine."""


class Process:
    def __init__(self, process: asyncio.subprocess.Process, port: int, log: Path) -> None:
        """`log` is the file that its stderr goes to."""
        self._process = process
        self._log = log
        self.address = ("127.0.0.1", port)

    def signal(self, number: int) -> None:
        self._process.send_signal(number)

    def signal_all(self, number: int) -> None:
        """As a terminal does."""
        os.killpg(self._process.pid, number)

    def workers(self) -> list[int]:
        """The process ids of its workers, if it was not forked."""
        pid = self._process.pid
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        # The tracker of resources is a child too.
        return [int(child) for child in children if b"_tracker" not in Path(f"/proc/{child}/cmdline").read_bytes()]

    async def ended(self) -> tuple[int, str]:
        """Its exit code and what it said."""
        async with asyncio.timeout(DEADLINE_SECONDS):
            code = await self._process.wait()
        return code, self._log.read_text()

    async def until_logged(self, text: str, times: int = 1) -> None:
        """Until the log has the text this many times, such as once for each worker."""
        async with asyncio.timeout(DEADLINE_SECONDS):
            while self._log.read_text().count(text) < times:
                await asyncio.sleep(0.02)

    async def readiness(self) -> int | None:
        return await readiness(self.address)

    async def until_ready(self) -> None:
        async with asyncio.timeout(DEADLINE_SECONDS):
            while (status := await self.readiness()) is None:
                assert self._process.returncode is None
                await asyncio.sleep(0.02)
        assert status == 200

    async def until_draining(self) -> None:
        async with asyncio.timeout(DEADLINE_SECONDS):
            while await self.readiness() == 200:
                await asyncio.sleep(0.02)

    async def until_closed(self) -> None:
        """Nothing listens any more."""
        async with asyncio.timeout(DEADLINE_SECONDS):
            while await self.readiness() is not None:
                await asyncio.sleep(0.02)


@asynccontextmanager
async def process(
    upstream: ScriptedServer | None,
    *,
    workers: int = 1,
    cache: str = "null:",
    before: tuple[str, ...] = (),
    forked: bool = True,
    spawned: bool = False,
    ready: bool = True,
    **server: object,
) -> AsyncIterator[Process]:
    """`before` is a command that runs the gateway as its last words. With `forked`, the gateway has no interpreter of
    its own, and takes nothing from that command but files, folder and environment. With `spawned`, its workers load
    their modules, as those of users do; else they are forked from it. With `ready`, a worker answers."""
    own_command = (sys.executable, "-m", "app.cli" if spawned else "tests.forked_workers")
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    environ = clean_environment()
    environ |= {f"PARLEY_SERVER__{name.upper()}": str(value) for name, value in server.items()}
    environ |= {"PARLEY_SERVER__PORT": str(port), "PARLEY_SERVER__WORKERS": str(workers)}
    environ["PARLEY_CACHE__URL"] = cache
    if spawned:
        environ[SPAWN_WORKERS] = "1"
    if upstream is not None:
        environ["PARLEY_UPSTREAM_URL"] = f"{upstream.url}/v1"
    with tempfile.NamedTemporaryFile(prefix="parley-log-") as log:
        running = await asyncio.create_subprocess_exec(
            *(*before, *(forked_parley() if forked else own_command), "serve"),
            env=environ,
            stderr=log,
            stdout=asyncio.subprocess.DEVNULL,
            start_new_session=True,
        )
        try:
            one = Process(running, port, Path(log.name))
            if ready:
                await one.until_ready()
            yield one
        finally:
            if running.returncode is None:
                os.killpg(running.pid, signal.SIGKILL)
                await running.wait()
