"""Serves the demo model over HTTP: OpenAI's chat completions and list of models.

It listens on a free loopback port, inside the event loop and the process of the gateway.
"""

import asyncio
from collections.abc import AsyncIterator, Iterable
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request as HttpRequest
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.server import ServerState

from app.demo.model import think
from app.demo.request import read_request
from app.demo.wire import to_json, write_chunks, write_completion, write_error, write_models

DELAY_SECONDS = 0.015
"""The pause between two chunks of a stream."""


def create_app(*, delay_seconds: float = DELAY_SECONDS) -> Starlette:
    async def complete(http: HttpRequest) -> Response:
        try:
            question = read_request(await http.body())
            events = think(question)
            if not question.body.stream:
                return _json(write_completion(question, events))
        except (ValueError, OverflowError, RecursionError) as error:
            return _json(write_error(str(error)), 400)
        frames = _pace(write_chunks(question, events), delay_seconds)
        return StreamingResponse(frames, media_type="text/event-stream")

    async def list_models(_: HttpRequest) -> Response:
        return _json(write_models())

    return Starlette(
        routes=[
            Route("/v1/chat/completions", complete, methods=["POST"]),
            Route("/v1/models", list_models, methods=["GET"]),
        ]
    )


def _json(value: dict[str, Any], status: int = 200) -> Response:
    return Response(to_json(value), status, media_type="application/json")


async def _pace(chunks: Iterable[dict[str, Any]], delay_seconds: float) -> AsyncIterator[str]:
    for chunk in chunks:
        yield f"data: {to_json(chunk)}\n\n"
        await asyncio.sleep(delay_seconds)
    yield "data: [DONE]\n\n"


class DemoServer:
    """The caller of `start` also calls `stop`. A stopped server can be started again."""

    base_url: str = ""
    """`http://127.0.0.1:<port>/v1`, once started."""

    def __init__(self, *, delay_seconds: float = DELAY_SECONDS) -> None:
        self._delay_seconds = delay_seconds
        self._server: asyncio.Server | None = None
        self._state = ServerState()

    async def start(self) -> None:
        # The signals of the process and uvicorn's settings for logs belong to the gateway. So only uvicorn's protocol
        # is used, and not its server, and no settings for logs are given.
        if self._server is not None:
            raise RuntimeError("the demo server is already started")
        app = create_app(delay_seconds=self._delay_seconds)
        config = uvicorn.Config(app, ws="none", lifespan="off", log_config=None, log_level=None)
        config.load()
        self._state = state = ServerState()

        def create_protocol() -> asyncio.Protocol:
            return HttpToolsProtocol(config, state, app_state={})

        self._server = await asyncio.get_running_loop().create_server(create_protocol, "127.0.0.1", 0)
        self.base_url = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}/v1"

    async def stop(self) -> None:
        """Closes every connection, also one with an open stream. Stopping twice does nothing."""
        if self._server is None:
            return
        self._server.close()
        self._server = None
        for connection in list(self._state.connections):
            connection.transport.abort()
        await asyncio.gather(*self._state.tasks, return_exceptions=True)
