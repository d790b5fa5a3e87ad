"""A model server on raw sockets that fails in every way. The first step of a request's path names the fault."""

import asyncio
import contextlib
import json
import socket
import struct
from collections.abc import Awaitable, Callable
from typing import Self

RESET = struct.pack("ii", 1, 0)
STREAM = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n"
CHUNKED = f"{STREAM}transfer-encoding: chunked\r\n\r\n".encode()
CLOSING = f"{STREAM}connection: close\r\n\r\n".encode()
TLS_RECORD = b"\x16"
FINISH = b'data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n'

Script = Callable[["Exchange"], Awaitable[None]]


def say(text: str) -> bytes:
    return b"data: " + json.dumps({"choices": [{"index": 0, "delta": {"content": text}}]}).encode() + b"\n\n"


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


class Exchange:
    """One request, and the ways to answer it."""

    def __init__(self, writer: asyncio.StreamWriter, silence: asyncio.Event) -> None:
        self._writer = writer
        self._silence = silence

    async def send(self, *parts: bytes) -> None:
        """Send each part so that it is read alone."""
        for part in parts:
            self._writer.write(part)
            await self._writer.drain()
            await asyncio.sleep(0.002)

    async def stall(self) -> None:
        """Say nothing more until the peer has gone."""
        await self._silence.wait()

    def reset(self) -> None:
        reset(self._writer)


def reset(writer: asyncio.StreamWriter) -> None:
    link: socket.socket = writer.get_extra_info("socket")
    link.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
    writer.transport.abort()


def with_status(status: int, *headers: str) -> Script:
    async def answer(exchange: Exchange) -> None:
        lines = [f"HTTP/1.1 {status} No", "content-length: 2", "content-type: application/json", *headers, "", ""]
        await exchange.send("\r\n".join(lines).encode() + b"{}")

    return answer


async def good(exchange: Exchange) -> None:
    await exchange.send(CLOSING + say("from "), say("good"), FINISH)


async def refused_context(exchange: Exchange) -> None:
    body = b'{"error":{"message":"too long","code":"context_length_exceeded"}}'
    await exchange.send(b"HTTP/1.1 400 No\r\ncontent-length: %d\r\n\r\n%b" % (len(body), body))


async def refused_content(exchange: Exchange) -> None:
    body = b'{"error":{"message":"no","code":"content_filter"}}'
    await exchange.send(b"HTTP/1.1 400 No\r\ncontent-length: %d\r\n\r\n%b" % (len(body), body))


async def black_hole(exchange: Exchange) -> None:
    await exchange.stall()


async def reset_after_request(exchange: Exchange) -> None:
    exchange.reset()


async def reset_in_head(exchange: Exchange) -> None:
    await exchange.send(b"HTTP/1.1 200 OK\r\ncontent-")
    exchange.reset()


async def reset_after_head(exchange: Exchange) -> None:
    await exchange.send(CHUNKED)
    exchange.reset()


async def reset_in_first_chunk(exchange: Exchange) -> None:
    await exchange.send(CHUNKED, chunk(say("from faulty"))[:40])
    exchange.reset()


async def reset_after_chunks(exchange: Exchange) -> None:
    await exchange.send(CHUNKED, chunk(say("from ")), chunk(say("faulty")))
    exchange.reset()


async def close_in_first_chunk(exchange: Exchange) -> None:
    await exchange.send(CHUNKED, chunk(say("from faulty"))[:40])


async def close_in_second_chunk(exchange: Exchange) -> None:
    await exchange.send(CHUNKED, chunk(say("from faulty")), chunk(say("faulty"))[:40])


async def slow_head(exchange: Exchange) -> None:
    await exchange.send(b"HTTP/1.1 200 OK\r\n")
    await exchange.stall()


async def stall_after_head(exchange: Exchange) -> None:
    await exchange.send(CHUNKED)
    await exchange.stall()


async def stall_after_comment(exchange: Exchange) -> None:
    await exchange.send(CHUNKED, chunk(b": wait\n\n"))
    await exchange.stall()


async def stall_between_tokens(exchange: Exchange) -> None:
    await exchange.send(CHUNKED, chunk(say("from faulty")))
    await exchange.stall()


async def not_http(exchange: Exchange) -> None:
    await exchange.send(b"\x00\xff\x17 what is this\r\n\r\n")


async def not_events(exchange: Exchange) -> None:
    await exchange.send(CLOSING + b"<html><title>Welcome</title></html>\n\n")


async def error_in_reply(exchange: Exchange) -> None:
    await exchange.send(CLOSING + b'data: {"error":{"message":"busy","code":503,"type":"overloaded"}}\n\n')


async def length_too_long(exchange: Exchange) -> None:
    await exchange.send(f"{STREAM}content-length: 5000\r\n\r\n".encode(), say("from faulty"))


async def length_too_short(exchange: Exchange) -> None:
    await exchange.send(f"{STREAM}content-length: 30\r\n\r\n".encode(), say("from faulty") + FINISH)


SCRIPTS: dict[str, Script] = {
    script.__name__: script
    for script in (
        *(good, refused_context, refused_content, black_hole, reset_after_request, reset_in_head, reset_after_head),
        *(reset_in_first_chunk, reset_after_chunks, close_in_first_chunk, close_in_second_chunk, slow_head),
        *(stall_after_head, stall_after_comment, stall_between_tokens, not_http, not_events, error_in_reply),
        *(length_too_long, length_too_short),
    )
}
SCRIPTS |= {f"status_{status}": with_status(status) for status in (401, 429, 500, 502, 503, 529)}
SCRIPTS |= {f"status_{status}_wait": with_status(status, "retry-after: 7") for status in (429, 500, 502, 503, 529)}


class FaultServer:
    """Answers `POST /<name of a script>/…`. `open` counts the connections that its peers have not closed."""

    def __init__(self, **scripts: Script) -> None:
        """`scripts` are further names, each for one of the scripts."""
        self.scripts = {**SCRIPTS, **scripts}
        self.requests: list[str] = []
        """The names of the scripts that were asked for."""
        self.bodies: list[bytes] = []
        self._handlers: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None
        self._resetting: asyncio.Server | None = None

    @property
    def open(self) -> int:
        return len(self._handlers)

    @property
    def port(self) -> int:
        assert self._server is not None
        return _port(self._server)

    def base_url(self, name: str) -> str:
        """Return the base_url under which every request gets this script, or this fault of the connection itself."""
        if name == "refused":
            with socket.socket() as unused:
                unused.bind(("127.0.0.1", 0))
                return f"http://127.0.0.1:{unused.getsockname()[1]}/v1"
        if name == "reset_after_accept":
            assert self._resetting is not None
            return f"http://127.0.0.1:{_port(self._resetting)}/v1"
        if name == "tls":
            return f"https://127.0.0.1:{self.port}/v1"
        return f"http://127.0.0.1:{self.port}/{name}/v1"

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self._resetting = await asyncio.start_server(lambda _, writer: reset(writer), "127.0.0.1", 0)
        return self

    async def __aexit__(self, *_: object) -> None:
        for server in (self._server, self._resetting):
            assert server is not None
            server.close()
        for handler in self._handlers:
            handler.cancel()
        await asyncio.gather(*self._handlers, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._handlers.add(task)
        try:
            with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
                await self._answer(reader, writer)
        finally:
            writer.transport.abort()
            self._handlers.discard(task)

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        first = await reader.readexactly(1)
        if first == TLS_RECORD:
            return
        head = (first + await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        _, name, *_ = head.split(" ")[1].split("/")
        lengths = [line.partition(": ")[2] for line in head.lower().split("\r\n") if line.startswith("content-length")]
        self.requests.append(name)
        self.bodies.append(await reader.readexactly(int(lengths[0])) if lengths else b"")
        gone = asyncio.Event()
        watcher = asyncio.ensure_future(_wait_for_end(reader, gone))
        try:
            await self.scripts[name](Exchange(writer, gone))
        finally:
            watcher.cancel()


async def _wait_for_end(reader: asyncio.StreamReader, gone: asyncio.Event) -> None:
    with contextlib.suppress(ConnectionError):
        await reader.read()
    gone.set()


def _port(server: asyncio.Server) -> int:
    port: int = server.sockets[0].getsockname()[1]
    return port
