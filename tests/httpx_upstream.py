"""Model servers that are an httpx transport in this process: a function, respx, another gateway."""

import asyncio
from collections.abc import Callable, Sequence

import httpx
from app.upstream.http.transport import LongBody, RequestHead
from typing_extensions import override


class PulledReply:
    """The response of an httpx transport, which a task reads and pushes."""

    def __init__(self, response: httpx.Response) -> None:
        self._response = response
        self._reader: asyncio.Task[None] | None = None
        self.status = response.status_code
        self.headers = response.headers.raw
        self.sent_at = asyncio.get_running_loop().time()
        self.encoding: str | None = response.headers.get("content-encoding")

    def push(self, on_data: Callable[[bytes], None], on_end: Callable[[Exception | None], None]) -> None:
        self._reader = asyncio.get_running_loop().create_task(self._read(on_data, on_end))

    async def _read(self, on_data: Callable[[bytes], None], on_end: Callable[[Exception | None], None]) -> None:
        try:
            if self._response.is_stream_consumed:
                on_data(self._response.content)
            else:
                async for data in self._response.aiter_raw():
                    on_data(data)
        except Exception as error:
            on_end(error)
        else:
            on_end(None)
        finally:
            await self._response.aclose()

    def pause(self) -> None:
        """What was read is pushed all the same."""

    resume = pause

    def abort(self) -> None:
        if self._reader is not None:
            self._reader.cancel()

    release = abort


class HttpxUpstream(httpx.AsyncBaseTransport):
    """Answers the requests for replies as it answers all others."""

    async def post(
        self,
        head: RequestHead,
        body: bytes | LongBody,
        connect_seconds: float | None,
        read_seconds: float | None,
        headers: Sequence[tuple[bytes, bytes]] = (),
    ) -> PulledReply:
        scheme, host, port, _ = head.address
        first, *lines = head.data.removesuffix(b"content-length: ").splitlines()
        path = first.split(b" ")[1].decode()
        named = [line.partition(b": ") for line in lines]
        request = httpx.Request(
            "POST",
            httpx.URL(scheme=scheme, host=host, port=port, raw_path=path.encode()),
            headers=[*((name, value) for name, _, value in named), *headers],
            content=body,
        )
        return PulledReply(await self.handle_async_request(request))


class MockUpstream(HttpxUpstream):
    """Answers with a function, such as the handler of a respx router."""

    def __init__(self, handler: Callable[[httpx.Request], object]) -> None:
        self._mock = httpx.MockTransport(handler)  # type: ignore[arg-type]

    @override
    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        return await self._mock.handle_async_request(request)
