"""A caller that sees every single write of the gateway, and can leave or stop reading at any moment."""

import asyncio
import contextlib
import json
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

DEADLINE_SECONDS = 30.0
"""How long a test waits for what must happen: long, because a busy machine is slow."""
ASK = {"model": "m", "messages": [{"role": "user", "content": "Hello"}]}


@dataclass(frozen=True, slots=True)
class Frame:
    """One event; a comment has no type."""

    seq: int | None
    type: str
    data: dict[str, Any]
    size: int


def frames(raw: bytes) -> list[Frame]:
    """Every frame, strictly: nothing but the three lines of the contract, each ended by LF."""
    assert raw.endswith(b"\n\n") or not raw
    return [_frame(part) for part in raw.split(b"\n\n")[:-1]]


def _frame(part: bytes) -> Frame:
    if part.startswith(b":"):
        return Frame(None, "", {}, len(part))
    assert b"\r" not in part
    one, two, three = part.split(b"\n")
    assert (one[:4], two[:7], three[:6]) == (b"id: ", b"event: ", b"data: ")
    data = json.loads(three[6:])
    frame = Frame(int(one[4:]), two[7:].decode(), data, len(part) + 2)
    assert (data["seq"], data["type"]) == (frame.seq, frame.type)
    return frame


def checked(raw: bytes) -> list[Frame]:
    """The frames of a whole stream: numbered without gaps, and ended by exactly one terminal frame."""
    events = [frame for frame in frames(raw) if frame.type]
    assert [frame.seq for frame in events] == list(range(1, len(events) + 1))
    assert events[0].type == "response.started"
    terminal = [frame for frame in events if frame.type in ("response.completed", "response.failed")]
    assert terminal == events[-1:]
    assert frames(raw)[-1].seq is not None
    return events


HEALTH = b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n"
"""A request that leaves its connection open."""


class Caller:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self.writer = reader, writer
        self.more_headers = ""
        """Lines that the head of each `ask` has besides, each with its CRLF."""
        self.status = 0
        self.headers: dict[str, str] = {}

    async def say(self, raw: bytes) -> None:
        """Send these bytes, whatever they are."""
        self.writer.write(raw)
        await self.writer.drain()

    async def get(self, path: str) -> int:
        """The status of a GET request, whose body is not read."""
        await self.say(f"GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n".encode())
        return await self.head()

    async def ask(self, body: dict[str, Any] | None = None, **more: Any) -> None:
        """Send a request; its answer is not waited for."""
        await self.ask_as("r1", body, **more)

    async def ask_as(self, request_id: str, body: dict[str, Any] | None = None, **more: Any) -> None:
        data = json.dumps({**ASK, **(body or {}), **more}).encode()
        head = f"POST /v1/chat HTTP/1.1\r\nhost: localhost\r\nx-request-id: {request_id}\r\n{self.more_headers}"
        await self.say(f"{head}content-length: {len(data)}\r\n\r\n".encode() + data)

    async def head(self) -> int:
        async with asyncio.timeout(DEADLINE_SECONDS):
            lines = (await self._reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        self.status = int(lines[0].split(" ")[1])
        self.headers = {name: value for name, _, value in (line.partition(": ") for line in lines[1:-2])}
        return self.status

    async def write(self) -> bytes:
        """The gateway's next write; empty when the body has ended."""
        async with asyncio.timeout(DEADLINE_SECONDS):
            size = int(await self._reader.readuntil(b"\r\n"), 16)
            return (await self._reader.readexactly(size + 2))[:-2]

    async def event(self) -> Frame:
        """The next write, which is one frame."""
        (frame,) = frames(await self.write())
        return frame

    async def rest(self) -> bytes:
        """The body from here to its end."""
        if "content-length" in self.headers:
            return await self._reader.readexactly(int(self.headers["content-length"]))
        raw = b""
        while data := await self.write():
            raw += data
        return raw

    async def reply(self, body: dict[str, Any] | None = None, **more: Any) -> tuple[int, bytes]:
        await self.ask(body, **more)
        return await self.head(), await self.rest()

    async def until_closed(self) -> bytes:
        """Everything until the gateway closes the connection."""
        async with asyncio.timeout(DEADLINE_SECONDS):
            return await self._reader.read()

    async def closed(self) -> bool:
        """Whether the gateway ends the connection, with nothing more to say."""
        return not await self.until_closed()

    async def cut(self) -> bool:
        """Whether the connection ends in the middle of the body."""
        try:
            while await self.write():
                pass
        except (asyncio.IncompleteReadError, ConnectionError):
            return True
        return False

    async def leave(self) -> None:
        self.writer.transport.abort()
        with contextlib.suppress(ConnectionError):
            await self.writer.wait_closed()


@asynccontextmanager
async def calling(address: tuple[str, int], *, receive_bytes: int | None = None) -> AsyncIterator[Caller]:
    """A connection to the gateway; with `receive_bytes`, one whose system takes no more than about that unread."""
    link = socket.socket()
    link.setblocking(False)
    if receive_bytes is not None:
        link.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
    try:
        await asyncio.get_running_loop().sock_connect(link, address)
    except OSError:
        link.close()
        raise
    limit = receive_bytes // 2 if receive_bytes is not None else 2**24
    caller = Caller(*await asyncio.open_connection(sock=link, limit=limit))
    try:
        yield caller
    finally:
        await caller.leave()


async def reply_of(address: tuple[str, int], body: dict[str, Any] | None = None, **more: Any) -> tuple[int, bytes]:
    async with calling(address) as caller:
        return await caller.reply(body, **more)


async def readiness(address: tuple[str, int]) -> int | None:
    """The status of `/readyz`; None where nothing listens, or the connection ends without an answer."""
    try:
        async with calling(address) as caller:
            return await caller.get("/readyz")
    except (ConnectionError, asyncio.IncompleteReadError):
        return None
