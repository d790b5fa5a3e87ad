"""A scripted upstream on a real socket: exact bytes in exact writes, and a record of its requests.

Every chunk is one write, sent and drained before the next; the event loop turns twice in between, so a client on the
same loop reads chunk by chunk. Nothing waits for time: an `asyncio.Event` among the chunks is a gate.
"""

import asyncio
import contextlib
import socket
import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Self

EVENT_STREAM = {"content-type": "text/event-stream"}
RESET_ON_CLOSE = struct.pack("ii", 1, 0)


@dataclass(frozen=True, slots=True)
class Reply:
    """What is sent for one request."""

    chunks: Iterable[bytes | asyncio.Event] = ()
    """Bytes are one write each; an event is waited for before going on."""
    status: int | None = 200
    """None: no head at all, the chunks are everything."""
    headers: Mapping[str, str] = field(default_factory=lambda: EVENT_STREAM)
    chunked: bool = False
    """Frame every chunk. Otherwise the end of the connection ends the body, unless the headers say its length."""
    abrupt: bool = False
    """Reset the connection after the last chunk."""
    hold: asyncio.Event | None = None
    """Waited for before the head."""

    def head(self) -> bytes:
        """Status line and headers."""
        if self.status is None:
            return b""
        lines = [f"HTTP/1.1 {self.status} ", *(f"{name}: {value}" for name, value in self.headers.items())]
        if self.chunked:
            lines.append("transfer-encoding: chunked")
        elif not self.keeps_alive:
            lines.append("connection: close")
        return "\r\n".join([*lines, "", ""]).encode("latin-1")

    @property
    def keeps_alive(self) -> bool:
        return self.chunked or "content-length" in {name.lower() for name in self.headers}

    def framed(self, chunk: bytes) -> bytes:
        """The chunk as it goes over the wire."""
        return b"%x\r\n%b\r\n" % (len(chunk), chunk) if self.chunked and chunk else chunk


UNSCRIPTED = Reply(status=500, headers={"content-length": "0"})


@dataclass(frozen=True, slots=True)
class Request:
    """One request as it arrived; header names are lower case."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes


@dataclass(slots=True)
class Connection:
    """One connection of a client."""

    closed: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when the peer has closed it, or the script has reset it."""
    sent: int = 0
    """Chunks written so far."""
    finished: int = 0
    """Replies sent to their end."""


class ScriptedServer:
    """Answers the nth request with the nth reply; the last reply is repeated."""

    def __init__(self, *replies: Reply) -> None:
        self.replies = list(replies)
        self.requests: list[Request] = []
        self.connections: list[Connection] = []
        self._answered = 0
        self._arrival = asyncio.Condition()
        self._open: dict[asyncio.Task[None], asyncio.StreamWriter] = {}

    @property
    def address(self) -> tuple[str, int]:
        """Host and port where it listens."""
        host, port = self._server.sockets[0].getsockname()
        return host, port

    @property
    def url(self) -> str:
        """Where it listens, without a path."""
        return "http://{}:{}".format(*self.address)

    async def request(self, number: int = 1) -> Request:
        """The request of that number, counted from 1, as soon as it is there."""
        async with self._arrival:
            await self._arrival.wait_for(lambda: len(self.requests) >= number)
        return self.requests[number - 1]

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        for writer in self._open.values():
            writer.transport.abort()
        await asyncio.gather(*self._open)
        await self._server.wait_closed()

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(self._serve(reader, writer))
        self._open[task] = writer
        task.add_done_callback(self._open.pop)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection, asked = Connection(), asyncio.Queue[Request]()
        self.connections.append(connection)
        answering = asyncio.create_task(self._answer(asked, writer, connection))
        try:
            await self._listen(reader, asked)
        finally:
            writer.transport.abort()
            connection.closed.set()
            answering.cancel()
            await asyncio.gather(answering, return_exceptions=True)
            with contextlib.suppress(ConnectionError):
                await writer.wait_closed()

    async def _listen(self, reader: asyncio.StreamReader, asked: asyncio.Queue[Request]) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                request = await _read_request(reader)
                async with self._arrival:
                    self.requests.append(request)
                    self._arrival.notify_all()
                asked.put_nowait(request)

    async def _answer(
        self, asked: asyncio.Queue[Request], writer: asyncio.StreamWriter, connection: Connection
    ) -> None:
        writer.transport.set_write_buffer_limits(0)
        link: socket.socket = writer.get_extra_info("socket")
        link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with contextlib.suppress(ConnectionError):
            while True:
                reply = self.reply_to(await asked.get())
                await _send(reply, writer, connection)
                connection.finished += 1
                if reply.abrupt:
                    link.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET_ON_CLOSE)
                    writer.transport.abort()
                    return
                if not reply.keeps_alive:
                    writer.write_eof()
                    return

    def reply_to(self, request: Request) -> Reply:
        """The next reply, whatever the request; a server that reads it overrides this."""
        self._answered += 1
        return self.replies[: self._answered][-1] if self.replies else UNSCRIPTED


async def _send(reply: Reply, writer: asyncio.StreamWriter, connection: Connection) -> None:
    if reply.hold:
        await reply.hold.wait()
    await _write(writer, reply.head())
    for chunk in reply.chunks:
        if isinstance(chunk, asyncio.Event):
            await chunk.wait()
        else:
            await _write(writer, reply.framed(chunk))
            connection.sent += 1
    if reply.chunked and not reply.abrupt:
        await _write(writer, b"0\r\n\r\n")


async def _write(writer: asyncio.StreamWriter, data: bytes) -> None:
    if data:
        writer.write(data)
        await writer.drain()
        # One turn lets the loop see that the client can read, the second lets the client read before we write again.
        await asyncio.sleep(0)
        await asyncio.sleep(0)


async def _read_request(reader: asyncio.StreamReader) -> Request:
    first, *lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").rstrip().split("\r\n")
    method, path, _ = first.split(" ", 2)
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    body = await reader.readexactly(int(headers.get("content-length", 0)))
    return Request(method, path, headers, body)
