"""A model server's reply pushed through the gateway in one process: the whole path of a reply but the sockets.

The connection is ours and pushes the parts at once; client, inflater, reader, assembler and stages are the gateway's.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import httpx
from app.chat.events import Event, Failed
from app.chat.messages import ChatRequest, Tool
from app.chat.stream import AttemptLog
from app.errors import UpstreamFailed
from app.formats.base import ReplyInfo, ReplyMode
from app.formats.qwen import QWEN
from app.profiles import Profile
from app.routing import Deployment, ModelRoute, PreparedRequest
from app.upstream.http.transport import LongBody, RequestHead

from tests.bare_gateway import make_gateway
from tests.default_limits import upstream_target
from tests.frame_reader import READERS, ReceivedReply

INFO = ReplyInfo(response_id="chat-1", request_id="req-1", model="m", created=1)
TARGET = upstream_target("scripted", "http://model.test/v1", first_token_seconds=10.0, idle_seconds=10.0)
PLAIN = Profile()


class Parts:
    """A response that has all the parts of its body already; it pushes them until its reader lets go."""

    sent_at = 0.0

    def __init__(
        self, parts: Iterable[bytes], broken: bool, status: int = 200, headers: Mapping[str, str] | None = None
    ) -> None:
        self.status = status
        self.headers = httpx.Headers(dict(headers or {})).raw
        self.encoding: str | None = httpx.Headers(self.headers).get("content-encoding")
        self._parts = parts
        self._error = httpx.ReadError("connection reset") if broken else None
        self.wanted = True

    def push(self, on_data: Callable[[bytes], None], on_end: Callable[[Exception | None], None]) -> None:
        for part in self._parts:
            if not self.wanted:
                return
            on_data(part)
        if self.wanted:
            on_end(self._error)

    def release(self) -> None:
        self.wanted = False

    abort = release

    def pause(self) -> None:
        """What was pushed is there already."""

    resume = pause


@dataclass(frozen=True, slots=True)
class Recorded:
    """A transport that answers every request with one reply."""

    parts: Iterable[bytes]
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    broken: bool = False
    """The connection is reset after the last part."""

    async def post(self, head: RequestHead, body: bytes | LongBody, *_: object) -> Parts:
        return Parts(self.parts, self.broken, self.status, self.headers)

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        raise AssertionError(f"{request.url} is not asked")

    async def aclose(self) -> None:
        """It holds nothing."""


@dataclass(slots=True)
class Batches:
    """A receiver that keeps what each read brought."""

    batches: list[list[Event]] = field(default_factory=list)

    def on_events(self, events: list[Event]) -> None:
        self.batches.append(events)

    def on_batches(self, batches: Sequence[list[Event]]) -> None:
        self.batches.extend(batches)

    def on_crash(self, error: Exception) -> None:
        raise AssertionError("a defect while reading a reply") from error


async def replay(
    recorded: Recorded, profile: Profile = PLAIN, tools: Iterable[str | dict[str, Any]] = ()
) -> list[list[Event]]:
    """The events of every read; the last of them is the end of the reply. `tools` are the functions that are offered,
    or their names."""
    route = ModelRoute("m", (Deployment(TARGET, "m", profile),), {})
    gateway = make_gateway(route, recorded)
    asked = ChatRequest("m", (), tuple(map(make_tool, tools)))
    try:
        prepared = PreparedRequest(route, asked, (b"{}",), (), 0, None)
        reply = await gateway.open(prepared, INFO.response_id, AttemptLog())
    except UpstreamFailed as error:
        return [[Failed(error.fault)]]
    received = Batches()
    reply.start(received)
    return received.batches


def make_tool(function: str | dict[str, Any]) -> Tool:
    schema = {"name": function} if isinstance(function, str) else function
    return Tool(schema["name"], schema)


def read_reply(batches: list[list[Event]], mode: ReplyMode) -> ReceivedReply:
    """What a caller of that mode reads."""
    encoder = QWEN.reply_encoder(INFO, mode)
    data = encoder.open() + b"".join(encoder.feed(events) for events in batches)
    last = batches[-1][-1]
    if mode == "whole" and isinstance(last, Failed):
        data = encoder.fail(UpstreamFailed(last.fault).to_dict(INFO.request_id))
    return READERS[mode](data)
