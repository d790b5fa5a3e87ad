"""The body of a model server's response, from any httpx transport."""

import asyncio
from collections.abc import Callable

import httpx

from app.decompress import Decompressor
from app.upstream.http.connection import Connection
from app.upstream.http.transport import PushStream


class ResponseBody:
    """A response body. `PushTransport` pushes it; from any other transport (tests) a task reads it."""

    def __init__(self, response: httpx.Response | Connection, decompressor: Decompressor) -> None:
        self.decompressor = decompressor
        self._response: httpx.Response | None = None
        self._connection: Connection | None = None
        if isinstance(response, Connection):
            self._connection = response
        else:
            self._response = response
            stream = response.stream
            self._connection = stream.connection if isinstance(stream, PushStream) else None
        self._puller: asyncio.Task[None] | None = None
        self.sent_at = self._connection.sent_at if self._connection else asyncio.get_running_loop().time()
        """The event loop's time when the request was sent."""

    def push(self, on_data: Callable[[bytes], None], on_end: Callable[[Exception | None], None]) -> None:
        if self._connection is not None:
            self._connection.push(on_data, on_end)
        else:
            assert self._response is not None
            self._puller = asyncio.get_running_loop().create_task(_pull(self._response, on_data, on_end))

    def pause(self) -> None:
        if self._connection is not None:
            self._connection.pause()

    def resume(self) -> None:
        if self._connection is not None:
            self._connection.resume()

    def release(self) -> None:
        """End the exchange after a complete reply; the connection may be reused."""
        if self._connection is not None:
            self._connection.release()
        else:
            self.abort()

    def abort(self) -> None:
        """Close the connection at once."""
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
