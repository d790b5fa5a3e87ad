"""Serves the demo model over HTTP: OpenAI's chat completions and list of models.

It listens on a free loopback port, inside the event loop and the process of the gateway.
"""

import asyncio
import math
from collections.abc import AsyncIterator, Iterable
from typing import Any

import uvicorn
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response
from sse_starlette import EventSourceResponse, JSONServerSentEvent, ServerSentEvent
from starlette.exceptions import HTTPException
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.server import ServerState

from app.demo.model import think
from app.demo.request import DemoRequest, read_question
from app.demo.wire import write_chunks, write_completion, write_error, write_models

DELAY_SECONDS = 0.015
"""The pause between two chunks of a stream."""
_REFUSALS = (RequestValidationError, HTTPException, ValueError, OverflowError, RecursionError)
"""The last three: a value of the request cannot be written, or is nested too deeply."""


def create_app(*, delay_seconds: float = DELAY_SECONDS) -> FastAPI:
    app = FastAPI(openapi_url=None, strict_content_type=False, exception_handlers=dict.fromkeys(_REFUSALS, _refuse))

    @app.post("/v1/chat/completions")
    async def complete(body: DemoRequest) -> Response:
        question = read_question(body)
        events = think(question)
        if not body.stream:
            return JSONResponse(write_completion(question, events))
        chunks = [JSONServerSentEvent(chunk, sep="\n") for chunk in write_chunks(question, events)]
        # Without the grace period sse-starlette would cut the stream when the gateway begins to shut down.
        return EventSourceResponse(_pace(chunks, delay_seconds), sep="\n", ping=0, shutdown_grace_period=math.inf)

    @app.get("/v1/models")
    async def list_models() -> dict[str, Any]:
        return write_models()

    return app


async def _pace(chunks: Iterable[ServerSentEvent], delay_seconds: float) -> AsyncIterator[ServerSentEvent]:
    for chunk in chunks:
        yield chunk
        await asyncio.sleep(delay_seconds)
    yield ServerSentEvent("[DONE]", sep="\n")


async def _refuse(_: Request, error: Exception) -> Response:
    status, message = 400, str(error)
    if isinstance(error, HTTPException):
        status, message = error.status_code, error.detail
    elif isinstance(error, RequestValidationError):
        first = error.errors()[0]
        message = f"{'.'.join(map(str, first['loc'][1:])) or 'body'}: {first['msg']}"
    return JSONResponse(write_error(message), status)


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
