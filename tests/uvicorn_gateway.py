"""A gateway under uvicorn on a socket of its own, and a model server that answers by the model of the request."""

import asyncio
import contextlib
import json
import socket
from collections.abc import AsyncIterator, Iterator
from typing import Any

import httpx
import uvicorn
from app.config.settings import Settings
from app.config.tables.storage import CacheSettings
from app.main import create_app
from typing_extensions import override

from tests.frame_reader import READERS, ReceivedReply
from tests.light_client import light_client
from tests.scripted_server import Reply, Request, ScriptedServer

QUESTION = [{"role": "user", "content": "Hi"}]


class ByModel(ScriptedServer):
    """Answers with what `scripts` holds for the model that a request names."""

    def __init__(self) -> None:
        super().__init__()
        self.scripts: dict[str, Reply] = {}

    @override
    def reply_to(self, request: Request) -> Reply:
        return self.scripts[json.loads(request.body)["model"]]


class QuietServer(uvicorn.Server):
    """Says when it listens, and leaves the signals of the test run alone."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.listening = asyncio.Event()

    @override
    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.listening.set()

    @override
    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


@contextlib.asynccontextmanager
async def serving(settings: Settings) -> AsyncIterator[httpx.AsyncClient]:
    """A client of a gateway that runs while the context is open; without a cache, if the settings name none."""
    if settings.cache.url is None:
        settings = settings.model_copy(update={"cache": CacheSettings(url="null:")})
    application = create_app(settings)
    config = uvicorn.Config(application, port=0, http="httptools", ws="none", log_config=None)
    server = QuietServer(config)
    running = asyncio.create_task(server.serve())
    await server.listening.wait()
    host, port = server.servers[0].sockets[0].getsockname()
    try:
        async with light_client(f"http://{host}:{port}") as client:
            yield client
    finally:
        application.state.context.draining = True  # as a signal does: pages may follow the status, which then ends
        server.should_exit = True
        await running


async def ask(client: httpx.AsyncClient, mode: str, **body: Any) -> tuple[int, ReceivedReply]:
    """Status and telling of one question in one mode."""
    modes = {"stream": mode != "whole"} | ({"stream_mode": mode} if mode != "whole" else {})
    response = await client.post("/v1/chat", json={"messages": QUESTION, **modes, **body})
    streamed = response.headers["content-type"].startswith("text/event-stream")
    assert streamed == (mode != "whole" and response.status_code == 200)
    return response.status_code, READERS[mode if streamed else "whole"](response.content)
