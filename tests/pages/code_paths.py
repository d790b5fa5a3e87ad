"""Which files of `app/` a request, a chunk and a cache hit enter, traced in one thread over real sockets.

`python -P code_paths.py CACHE_URL` in the folder of a checkout, which is in PYTHONPATH, prints the files of each path
as JSON: those that it enters each time, for a timer of the server may run beside it. The first time, which also loads
and connects, does not count.
"""

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

from tests.live.gateway import DONE, end, say
from tests.live.resuming_client import caching
from tests.scripted_server import Reply, ScriptedServer

FOLDER = f"{Path.cwd() / 'app'}/"
ROUNDS = 6
QUIET_SECONDS = 0.2
"""After a reply, until what is written later is written."""
CHUNK_SECONDS = 0.015
"""After a chunk, until other gateways have it."""

ENDPOINTS = ("/v1/chat", "/v1/chat/completions", "/v1/messages", "/v1/responses")
Body = dict[str, Any]


def streamed(path: str, text: str) -> Body:
    """A request of an endpoint for the stream of a reply to this text."""
    body = {"model": "m", "stream": True}
    if path == "/v1/responses":
        return body | {"input": text}
    body["messages"] = [{"role": "user", "content": text}]
    return body | {"max_tokens": 100} if path == "/v1/messages" else body


@contextmanager
def entered_files() -> Iterator[set[str]]:
    """The files of `app/` of which a function is called in this thread."""
    files: set[str] = set()

    def on_call(frame: FrameType, event: str, _: Any) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(FOLDER):
            files.add(frame.f_code.co_filename)

    sys.setprofile(on_call)
    try:
        yield files
    finally:
        sys.setprofile(None)


@asynccontextmanager
async def connected(address: tuple[str, int]) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    reader, writer = await asyncio.open_connection(*address)
    try:
        yield reader, writer
    finally:
        writer.close()
        await writer.wait_closed()


def request_bytes(path: str, body: Body) -> bytes:
    raw = json.dumps(body).encode()
    return f"POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-length: {len(raw)}\r\n\r\n".encode() + raw


async def read_head(reader: asyncio.StreamReader) -> None:
    head = await reader.readuntil(b"\r\n\r\n")
    if not head.startswith(b"HTTP/1.1 200 ") or b"transfer-encoding: chunked" not in head:
        raise RuntimeError(f"no stream: {head!r}")


async def read_end(reader: asyncio.StreamReader) -> None:
    await reader.readuntil(b"\r\n0\r\n\r\n")


class Gates:
    """What the model server waits for."""

    def __init__(self) -> None:
        self.second_chunk, self.end = asyncio.Event(), asyncio.Event()

    def close(self) -> None:
        self.second_chunk.clear()
        self.end.clear()


class Tracer:
    """A gateway, its model server, and one connection of a client."""

    def __init__(
        self, upstream: ScriptedServer, gates: Gates, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self._upstream, self._gates = upstream, gates
        self._reader, self._writer = reader, writer

    async def list_all(self, number: int) -> dict[str, set[str]]:
        files: dict[str, set[str]] = {}
        for path in ENDPOINTS:
            files |= await self.list_files(path, f"Question {number} to {path}")
        return files

    async def list_files(self, path: str, text: str) -> dict[str, set[str]]:
        """The files that a request enters until it is sent, those of one chunk, and those of a hit."""
        raw = request_bytes(path, streamed(path, text))
        expected = len(self._upstream.requests) + 1
        self._gates.close()
        with entered_files() as request:
            self._writer.write(raw)
            await self._upstream.request(expected)
        await read_head(self._reader)
        await asyncio.sleep(CHUNK_SECONDS)
        with entered_files() as chunk:
            self._gates.second_chunk.set()
            await self._reader.readuntil(b"two")
            await asyncio.sleep(CHUNK_SECONDS)
        self._gates.end.set()
        await read_end(self._reader)
        await asyncio.sleep(QUIET_SECONDS)
        with entered_files() as hit:
            self._writer.write(raw)
            await read_head(self._reader)
            await read_end(self._reader)
        if len(self._upstream.requests) != expected:
            raise RuntimeError(f"no hit: {path}")
        return {
            f"request of {path}": request,
            f"chunk of {path}": chunk,
            f"hit of {path}": hit,
        }


async def trace_paths(cache_url: str) -> dict[str, list[str]]:
    gates = Gates()
    script = Reply([say("One"), gates.second_chunk, say(" two"), gates.end, end(), DONE], chunked=True)
    async with (
        ScriptedServer(script) as upstream,
        caching(upstream, cache_url, apply="always") as gateway,
        connected(gateway.address) as (reader, writer),
    ):
        tracer = Tracer(upstream, gates, reader, writer)
        rounds = [await tracer.list_all(number) for number in range(1 + ROUNDS)]
    found = {name: set.intersection(*(files[name] for files in rounds[1:])) for name in rounds[0]}
    return {name: sorted(file.removeprefix(FOLDER) for file in files) for name, files in found.items()}


def main(cache_url: str) -> None:
    print(json.dumps(asyncio.run(trace_paths(cache_url))))


if __name__ == "__main__":
    main(sys.argv[1])
