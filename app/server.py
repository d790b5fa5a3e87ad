"""`parley serve`: uvicorn, and how it goes down.

At SIGTERM the readiness answer turns to 503; new requests are still served for `settle_seconds`, so that load balancers
notice; then the listener closes and running streams may finish for `drain_seconds`. What is left then ends with a
`response.failed` of code `draining`, never silently. A second signal ends at once.
"""

import asyncio
import socket
from types import FrameType
from typing import Any

import uvicorn
from uvicorn.supervisors import Multiprocess, multiprocess

from app.errors import Draining
from app.settings import Settings

KEEPALIVE_SECONDS = 75
"""Longer than proxies in front hold an idle connection, so that it is they who close it."""


class ParleyServer(uvicorn.Server):
    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        desk = self._desk()
        if self.should_exit or desk is None or desk.draining:
            super().handle_exit(sig, frame)
            return
        desk.draining = True
        asyncio.get_running_loop().call_later(desk.server.settle_seconds, super().handle_exit, sig, frame)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        desk = self._desk()
        if desk is not None:
            asyncio.get_running_loop().call_later(desk.server.drain_seconds, _end_all, desk)
        await super().shutdown(sockets)

    def _desk(self) -> Any:
        app = self.config.loaded_app if self.config.loaded else None
        while app is not None and not hasattr(app, "state"):
            app = getattr(app, "app", None)
        return app.state.desk if app is not None else None


def _end_all(desk: Any) -> None:
    for delivery in list(desk.active):
        delivery.fail(Draining("this gateway is going down; send the request again"))


def serve(settings: Settings) -> int:
    """Serve until a signal; the exit code."""
    server = settings.server
    config = uvicorn.Config(
        "app.main:create_app",
        factory=True,
        host=server.host,
        port=server.port,
        workers=server.workers,
        http="httptools",
        ws="none",
        lifespan="on",
        access_log=False,
        log_config=None,
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=KEEPALIVE_SECONDS,
        timeout_graceful_shutdown=int(server.drain_seconds) + 5,
        backlog=4096,
    )
    instance = ParleyServer(config)
    if server.workers == 1:
        instance.run()
        return 0 if instance.started else 1
    multiprocess.Process = _Worker  # type: ignore[misc]  # uvicorn's supervisor takes no other way to its server
    Multiprocess(config, sockets=[config.bind_socket()]).run()
    return 0


class _Worker(multiprocess.Process):
    """A worker process that goes down as a single one does."""

    @property
    def server(self) -> uvicorn.Server:
        if self._server is None:
            self._server = ParleyServer(self.config)
        return self._server
