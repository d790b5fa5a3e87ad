"""Serves the demo model over HTTP: OpenAI's chat completions and list of models.

It listens on a free loopback port, inside the event loop and the process of the gateway.
"""

import asyncio
import contextlib
import logging
import socket
import time
from collections.abc import AsyncIterator, Iterable
from typing import Any

import uvicorn
from sse_starlette import EventSourceResponse, ServerSentEvent
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request as HttpRequest
from starlette.responses import Response
from starlette.routing import Route
from typing_extensions import override
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from app.demo.model import think
from app.demo.request import MalformedRequest, read_request
from app.demo.wire import to_json, write_chunks, write_completion, write_error, write_models

DELAY_SECONDS = 0.015
"""The pause between two chunks of a stream."""
_ABORT_SECONDS = 0.3
_LOG = logging.getLogger("parley.demo")


class _Stream(EventSourceResponse):
    """A stream that ends by its own end or by its server's stop, and not by a signal to the process.

    At SIGTERM the stock response cuts every stream of the process, but the gateway still drains replies that come
    from here. It also leaves a polling task behind on the loop, which this one never starts.
    """

    @staticmethod
    @override
    async def _listen_for_exit_signal() -> None:
        await asyncio.get_running_loop().create_future()


def create_app(*, delay_seconds: float = DELAY_SECONDS, closing: asyncio.Event | None = None) -> Starlette:
    """`closing` ends every open stream once it is set."""
    ending = closing or asyncio.Event()

    async def complete(http: HttpRequest) -> Response:
        try:
            question = read_request(await http.body())
            events = think(question)
        except MalformedRequest as error:
            return _json(write_error(error.message, error.param), 400)
        except (RecursionError, ValueError, OverflowError):
            return _json(write_error("The request is nested too deeply, or holds a number that is out of range."), 400)
        created = int(time.time())
        if not question.body.stream:
            return _json(write_completion(question, events, created))
        chunks = write_chunks(question, events, created)
        return _Stream(_pace(chunks, delay_seconds, ending), ping=0)

    async def list_models(_: HttpRequest) -> Response:
        return _json(write_models())

    async def answer_error(_: HttpRequest, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        return _json(write_error(error.detail), error.status_code)

    routes = [
        Route("/v1/chat/completions", complete, methods=["POST"]),
        Route("/v1/models", list_models, methods=["GET"]),
    ]
    return Starlette(routes=routes, exception_handlers={HTTPException: answer_error})


def _json(value: dict[str, Any], status: int = 200) -> Response:
    return Response(to_json(value), status, media_type="application/json")


async def _pace(
    chunks: Iterable[dict[str, Any]], delay_seconds: float, closing: asyncio.Event
) -> AsyncIterator[ServerSentEvent]:
    """Yield the chunks; the stream ends early, without `[DONE]`, when the server closes."""
    for chunk in chunks:
        if closing.is_set():
            return
        yield ServerSentEvent(data=to_json(chunk), sep="\n")
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(closing.wait(), delay_seconds)
    if not closing.is_set():
        yield ServerSentEvent(data="[DONE]", sep="\n")


class _Connection(HttpToolsProtocol):
    """A connection without access log; uvicorn's own switch for it works on the whole process."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.access_log = False
        self.logger = _LOG


class DemoServer:
    """The caller of `start` also calls `stop`. A stopped server can be started again."""

    base_url: str = ""
    """`http://127.0.0.1:<port>/v1`, once started."""

    def __init__(self, *, delay_seconds: float = DELAY_SECONDS) -> None:
        self._delay_seconds = delay_seconds
        self._closing = asyncio.Event()
        self._server: uvicorn.Server | None = None
        self._listener: socket.socket | None = None
        self._running: asyncio.Task[None] | None = None

    @property
    def connections(self) -> list[Any]:
        """uvicorn's connections that are open now."""
        return list(self._server.server_state.connections) if self._server else []

    async def start(self) -> None:
        if self._server is not None:
            raise RuntimeError("the demo server is already started")
        self._closing = asyncio.Event()
        listener = socket.create_server(("127.0.0.1", 0))
        try:
            server = await self._listen(listener)
        except BaseException:
            listener.close()
            raise
        self.base_url = f"http://127.0.0.1:{listener.getsockname()[1]}/v1"
        self._server, self._listener = server, listener
        # `serve` would take the signals of the gateway; its parts do the same without.
        self._running = asyncio.create_task(server.main_loop(), name="parley-demo")

    async def _listen(self, listener: socket.socket) -> uvicorn.Server:
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
        """Ends open streams and aborts connections whose clients do not read. Stopping twice does nothing."""
        server, listener, running = self._server, self._listener, self._running
        if server is None or listener is None or running is None:
            return
        self._server = self._listener = self._running = None
        self._closing.set()
        aborting = asyncio.get_running_loop().call_later(_ABORT_SECONDS, _abort_connections, server)
        try:
            server.should_exit = True
            await running
            await server.shutdown(sockets=[listener])
        finally:
            aborting.cancel()
            _abort_connections(server)


def _abort_connections(server: uvicorn.Server) -> None:
    for connection in list(server.server_state.connections):
        connection.transport.abort()
