"""A gateway in this process: requests go straight into the application, model servers are a function."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Any, Self

import httpx
from app.api.context import AppContext
from app.attachments.fetch import Resolver
from app.config.settings import Settings
from app.main import create_app
from app.upstream.http.transport import UpstreamTransport
from starlette.types import Message

from tests.httpx_upstream import HttpxUpstream
from tests.restored_logging import restored_logging

SERVER: dict[str, Any] = {
    "upstreams": {"local": {"base_url": "http://model.test/v1"}},
    "models": {"m": {"upstreams": ["local"]}},
}
HELLO = b'data: {"choices":[{"index":0,"delta":{"content":"Hello"}}]}\n\n'
STOP = b'data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n'


class Pieces(httpx.AsyncByteStream):
    """A body that comes in these pieces."""

    def __init__(self, pieces: Iterable[bytes]) -> None:
        self._pieces = pieces

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for piece in self._pieces:
            yield piece


class ModelServer(HttpxUpstream):
    """Answers by the function it is given, or with a short reply; `requests` is what it was sent."""

    def __init__(self, answer: Callable[[httpx.Request], httpx.Response] | None = None) -> None:
        self._answer = answer
        self.requests: list[httpx.Request] = []

    @staticmethod
    def short_reply() -> httpx.Response:
        return streamed(HELLO, STOP)

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        await request.aread()
        self.requests.append(request)
        response = self._answer(request) if self._answer else self.short_reply()
        body = Pieces([response.content]) if response.is_closed else response.stream
        return httpx.Response(response.status_code, headers=response.headers, stream=body, request=request)


def streamed(*pieces: bytes) -> httpx.Response:
    return httpx.Response(200, headers={"content-type": "text/event-stream"}, stream=Pieces(pieces))


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    header_lines: list[tuple[bytes, bytes]]
    body: bytes

    @property
    def headers(self) -> httpx.Headers:
        return httpx.Headers(self.header_lines)

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def frames(self) -> list[Any]:
        """The events of a stream."""
        return [json.loads(line[6:]) for line in self.body.decode().split("\n") if line.startswith("data: ")]


class Running:
    """`with Running({...}) as gateway: gateway.post("/v1/chat", {...})`. Without a cache, if the settings name none."""

    def __init__(
        self,
        settings: dict[str, Any] | None = None,
        server: UpstreamTransport | None = None,
        resolver: Resolver | None = None,
        *,
        make_span_exporter: Callable[[], Any] | None = None,
        loop: asyncio.AbstractEventLoop | None = None,
        load_settings: Callable[[], Settings] | None = None,
    ) -> None:
        """With `loop`, it runs in the loop of another gateway, which is there longer. `load_settings` reads the
        settings of a reload."""
        self._logging = restored_logging()
        self._logging.__enter__()
        tree = {"cache": {"url": "null:"}} | (SERVER if settings is None else settings)
        self.app = create_app(
            Settings.model_validate(tree),
            server,
            resolver,
            load_settings=load_settings,
            make_span_exporter=make_span_exporter,
        )
        self._own_loop = loop is None
        self.loop = loop or asyncio.new_event_loop()
        self.unread = 0
        """How many pieces of the last request were never asked for."""
        self._lifespan: AbstractAsyncContextManager[Any] = self.app.router.lifespan_context(self.app)

    @property
    def context(self) -> AppContext:
        context: AppContext = self.app.state.context
        return context

    def __enter__(self) -> Self:
        self.loop.run_until_complete(self._lifespan.__aenter__())
        return self

    def __exit__(self, *_: object) -> None:
        self.loop.run_until_complete(self._lifespan.__aexit__(None, None, None))
        if self._own_loop:
            self.loop.run_until_complete(self.loop.shutdown_asyncgens())
            self.loop.close()
        self._logging.__exit__(None, None, None)

    def get(self, path: str, headers: dict[str, str] | None = None) -> Answer:
        return self.ask("GET", path, headers=headers)

    def post(self, path: str, body: Any, headers: dict[str, str] | None = None) -> Answer:
        raw = body if isinstance(body, bytes) else json.dumps(body).encode()
        return self.ask("POST", path, [raw], headers)

    def ask(
        self, method: str, path: str, pieces: Sequence[bytes] = (b"",), headers: dict[str, str] | None = None
    ) -> Answer:
        return self.loop.run_until_complete(self.ask_async(method, path, pieces, headers))

    async def ask_async(
        self,
        method: str,
        path: str,
        pieces: Sequence[bytes] = (b"",),
        headers: dict[str, str] | None = None,
        on_body: Callable[[bytes], None] | None = None,
    ) -> Answer:
        """The body goes out piece by piece; the caller stays until the answer has ended. `on_body` gets the pieces of
        the answer as they come."""
        last = len(pieces) - 1
        queue = [{"type": "http.request", "body": piece, "more_body": at < last} for at, piece in enumerate(pieces)]
        ended = asyncio.Event()
        begin: dict[str, Any] = {}
        body: list[bytes] = []

        async def receive() -> Message:
            if queue:
                return queue.pop(0)
            await ended.wait()
            return {"type": "http.disconnect"}

        async def send(message: Message) -> None:
            if message["type"] == "http.response.start":
                assert not begin, "two heads"
                begin.update(message)
            else:
                assert not ended.is_set(), "bytes behind the end"
                body.append(message.get("body", b""))
                if on_body is not None:
                    on_body(body[-1])
                if not message.get("more_body"):
                    ended.set()

        await self.app(make_scope(method, path, headers or {}), receive, send)
        assert ended.is_set(), "no end"
        self.unread = len(queue)
        return Answer(begin["status"], list(begin["headers"]), b"".join(body))


class AnsweringGateway(Running):
    """A gateway whose model server gives one answer, until the test sets another one."""

    def __init__(self, settings: dict[str, Any] | None = None, answer: httpx.Response | None = None) -> None:
        self.answer = answer or ModelServer.short_reply()
        self.server = ModelServer(self._find_answer)
        super().__init__(settings, self.server)

    def _find_answer(self, request: httpx.Request) -> httpx.Response:
        return self.answer

    def exchange(self, path: str, body: Any, answer: httpx.Response, headers: dict[str, str] | None = None) -> Answer:
        """Send a request that the model server answers in this way."""
        self.answer = answer
        return self.post(path, body, headers)

    @property
    def sent(self) -> Any:
        """The last body that the model server was sent."""
        return json.loads(self.server.requests[-1].content)


def make_scope(method: str, path: str, headers: dict[str, str]) -> dict[str, Any]:
    path, _, query = path.partition("?")
    return {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
        "path": path,
        "raw_path": path.encode(),
        "query_string": query.encode(),
        "root_path": "",
        "headers": [(name.lower().encode(), value.encode()) for name, value in headers.items()],
        "client": ("127.0.0.1", 50000),
        "server": ("127.0.0.1", 8000),
        "state": {},
    }
