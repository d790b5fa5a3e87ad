"""The body of a model server's response: `Connection` is one, and `HttpxBody` is one from any other httpx transport."""

import asyncio
from collections.abc import Callable
from typing import Protocol

import httpx

from app.upstream.http.transport import PushStream


class ResponseBody(Protocol):
    """A response body, which is pushed to its reader."""

    sent_at: float
    """The event loop's time when the request was sent."""
    encoding: str | None
    """The content-encoding of the response."""

    def push(self, on_data: Callable[[bytes], None], on_end: Callable[[Exception | None], None]) -> None:
        """Deliver the body as it arrives. `on_end` is called at most once, as the last call."""

    def pause(self) -> None: ...

    def resume(self) -> None: ...

    def release(self) -> None:
        """End the exchange after a complete reply; the connection may be reused."""

    def abort(self) -> None:
        """Close the connection at once."""


class HttpxBody:
    """The body of an httpx response. The connection of a `PushStream` pushes it; any other body is read by a task."""

    def __init__(self, response: httpx.Response) -> None:
        self._response = response
        stream = response.stream
        self._connection = stream.connection if isinstance(stream, PushStream) else None
        self._puller: asyncio.Task[None] | None = None
        self.sent_at = self._connection.sent_at if self._connection else asyncio.get_running_loop().time()
        self.encoding: str | None = response.headers.get("content-encoding")

    def push(self, on_data: Callable[[bytes], None], on_end: Callable[[Exception | None], None]) -> None:
        if self._connection is not None:
            self._connection.push(on_data, on_end)
        else:
            self._puller = asyncio.get_running_loop().create_task(_pull(self._response, on_data, on_end))

    def pause(self) -> None:
        if self._connection is not None:
            self._connection.pause()

    def resume(self) -> None:
        if self._connection is not None:
            self._connection.resume()

    def release(self) -> None:
        if self._connection is not None:
            self._connection.release()
        else:
            self.abort()

    def abort(self) -> None:
        if self._connection is not None:
            self._connection.abort()
        elif self._puller is not None:
            self._puller.cancel()


async def _pull(
    response: httpx.Response, on_data: Callable[[bytes], None], on_end: Callable[[Exception | None], None]
) -> None:
    try:
        if response.is_stream_consumed:
            on_data(response.content)
        else:
            async for data in response.aiter_raw():
                on_data(data)
    except Exception as error:
        on_end(error)
    else:
        on_end(None)
    finally:
        await response.aclose()
