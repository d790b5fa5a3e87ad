"""The HTTP face of the demonstration model: OpenAI's chat completions and list of models."""

import asyncio
import time
from collections.abc import AsyncIterator, Iterable

from sse_starlette import EventSourceResponse, ServerSentEvent
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request as HttpRequest
from starlette.responses import Response
from starlette.routing import Route
from typing_extensions import override

from app.demo import wire
from app.demo.brain import think
from app.demo.fields import Refused
from app.demo.request import read

DELAY_SECONDS = 0.015


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

    async def completions(http: HttpRequest) -> Response:
        try:
            request = read(await http.body())
            deltas = think(request)
        except Refused as refused:
            return _json(wire.error(refused.message, param=refused.param), 400)
        except RecursionError:
            return _json(wire.error("The request is nested too deeply."), 400)
        created = int(time.time())
        if not request.stream:
            return _json(wire.completion(request, deltas, created))
        chunks = wire.chunks(request, deltas, created)
        return _Stream(_paced(chunks, delay_seconds, ending), ping=0)

    routes = [
        Route("/v1/chat/completions", completions, methods=["POST"]),
        Route("/v1/models", _models, methods=["GET"]),
    ]
    return Starlette(routes=routes, exception_handlers={HTTPException: _no_such_place})


async def _models(_: HttpRequest) -> Response:
    return _json(wire.models())


async def _no_such_place(_: HttpRequest, exc: Exception) -> Response:
    assert isinstance(exc, HTTPException)
    return _json(wire.error(exc.detail), exc.status_code)


def _json(value: wire.Json, status: int = 200) -> Response:
    return Response(wire.text(value), status, media_type="application/json")


async def _paced(
    chunks: Iterable[wire.Json], delay_seconds: float, closing: asyncio.Event
) -> AsyncIterator[ServerSentEvent]:
    """One event after the other; ends early, and so without `[DONE]`, when the server closes."""
    for chunk in chunks:
        if closing.is_set():
            return
        yield ServerSentEvent(data=wire.text(chunk), sep="\n")
        await _wait(closing, delay_seconds)
    if not closing.is_set():
        yield ServerSentEvent(data="[DONE]", sep="\n")


async def _wait(closing: asyncio.Event, seconds: float) -> None:
    if not seconds:
        return await asyncio.sleep(0)  # sending alone does not let others run
    try:
        async with asyncio.timeout(seconds):
            await closing.wait()
    except TimeoutError:
        return None
    return None
