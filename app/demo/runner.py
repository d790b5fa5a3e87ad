"""Runs the demonstration model server on a free loopback port, inside the loop and the process of the gateway."""

import asyncio
import logging
import socket
from typing import Any

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from app.demo.server import DELAY_SECONDS, create_app

_HANG_UP_SECONDS = 0.3


class _Connection(HttpToolsProtocol):
    """A connection without access log; uvicorn's own switch for it works on the whole process."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.access_log = False
        self.logger = _LOG


_LOG = logging.getLogger("parley.demo")


class DemoServer:
    """Whoever starts it stops it; a stopped one can be started again."""

    base_url: str = ""
    """`http://127.0.0.1:<port>/v1`, once started."""

    def __init__(self, *, delay_seconds: float = DELAY_SECONDS) -> None:
        self._delay_seconds = delay_seconds
        self._closing = asyncio.Event()
        self._server: uvicorn.Server | None = None
        self._listener: socket.socket | None = None
        self._ticking: asyncio.Task[None] | None = None

    @property
    def connections(self) -> list[Any]:
        """uvicorn's connections that are open now."""
        return list(self._server.server_state.connections) if self._server else []

    async def start(self) -> None:
        if self._server is not None:
            raise RuntimeError("the demonstration server is already started")
        self._closing = asyncio.Event()
        listener = socket.create_server(("127.0.0.1", 0))
        try:
            server = await self._listening(listener)
        except BaseException:
            listener.close()
            raise
        self.base_url = f"http://127.0.0.1:{listener.getsockname()[1]}/v1"
        self._server, self._listener = server, listener
        # `serve` would take the signals of the gateway; its parts do the same without.
        self._ticking = asyncio.create_task(server.main_loop(), name="parley-demo")

    async def _listening(self, listener: socket.socket) -> uvicorn.Server:
        app = create_app(delay_seconds=self._delay_seconds, closing=self._closing)
        # The logging settings of uvicorn belong to the process and so to the gateway: none are given here.
        config = uvicorn.Config(
            app, http=_Connection, ws="none", lifespan="off", log_config=None, log_level=None, server_header=False
        )
        config.load()
        server = uvicorn.Server(config)
        server.lifespan = config.lifespan_class(config)
        await server.startup(sockets=[listener])
        return server

    async def stop(self) -> None:
        """Ends what is still streaming and hangs up on clients that do not read; stopping twice does nothing."""
        server, listener, ticking = self._server, self._listener, self._ticking
        if server is None or listener is None or ticking is None:
            return
        self._server = self._listener = self._ticking = None
        self._closing.set()
        hang_up = asyncio.get_running_loop().call_later(_HANG_UP_SECONDS, _hang_up, server)
        try:
            server.should_exit = True
            await ticking
            await server.shutdown(sockets=[listener])
        finally:
            hang_up.cancel()
            _hang_up(server)


def _hang_up(server: uvicorn.Server) -> None:
    for connection in list(server.server_state.connections):
        connection.transport.abort()
