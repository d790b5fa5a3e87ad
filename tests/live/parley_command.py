"""The command `parley serve` in a process of its own."""

import asyncio
import os
import signal
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx

from tests.scripted_server import ScriptedServer


class Process:
    def __init__(self, process: asyncio.subprocess.Process, port: int) -> None:
        self._process = process
        self.address = ("127.0.0.1", port)

    def signal(self, number: int) -> None:
        self._process.send_signal(number)

    def signal_all(self, number: int) -> None:
        """As a terminal does."""
        os.killpg(self._process.pid, number)

    async def ended(self) -> tuple[int, str]:
        """Its exit code and what it said."""
        async with asyncio.timeout(20):
            _, output = await self._process.communicate()
        return self._process.returncode or 0, output.decode()

    async def ready(self) -> int:
        async with httpx.AsyncClient(verify=False) as client:
            response = await client.get("http://{}:{}/readyz".format(*self.address))
            return response.status_code

    async def until_ready(self) -> None:
        async with asyncio.timeout(30):
            while True:
                try:
                    assert await self.ready() == 200
                    return
                except httpx.TransportError:
                    assert self._process.returncode is None
                    await asyncio.sleep(0.05)

    async def until_draining(self) -> None:
        async with asyncio.timeout(5):
            while await self.ready() == 200:
                await asyncio.sleep(0.02)

    async def until_deaf(self) -> None:
        """Nobody listens any more."""
        async with asyncio.timeout(5):
            while True:
                try:
                    await self.ready()
                except httpx.TransportError:
                    return
                await asyncio.sleep(0.05)


@asynccontextmanager
async def process(
    upstream: ScriptedServer | None,
    *,
    workers: int = 1,
    cache: str = "null:",
    before: tuple[str, ...] = (),
    **server: object,
) -> AsyncIterator[Process]:
    """`before` is a command that runs the gateway as its last words."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    environ = {name: value for name, value in os.environ.items() if not name.startswith("PARLEY_")}
    environ |= {f"PARLEY_SERVER__{name.upper()}": str(value) for name, value in server.items()}
    environ |= {"PARLEY_SERVER__PORT": str(port), "PARLEY_SERVER__WORKERS": str(workers)}
    environ["PARLEY_CACHE__URL"] = cache
    if upstream is not None:
        environ["PARLEY_UPSTREAM_URL"] = f"{upstream.url}/v1"
    running = await asyncio.create_subprocess_exec(
        *(*before, sys.executable, "-m", "app.cli", "serve"),
        env=environ,
        stderr=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        start_new_session=True,
    )
    try:
        one = Process(running, port)
        await one.until_ready()
        yield one
    finally:
        if running.returncode is None:
            os.killpg(running.pid, signal.SIGKILL)
            await running.communicate()
