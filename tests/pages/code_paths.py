"""Which functions of `app/` a request, a continued turn, a chunk and a cache hit call, traced over real sockets.

`python -P code_paths.py` in the folder of a checkout, which is in PYTHONPATH, prints as JSON the files of the
functions that each path calls, in order, with the cache in memory. Calls of comprehensions and lambdas do not count:
newer versions of Python do not make them. A path is traced several times, and the shortest trace counts, because a
timer of the server may run beside it. The first time, which also loads and connects, does not count.
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


def next_turn(path: str, body: Body, text: str) -> Body:
    """The next request of a session: the conversation of this one, a reply, and this text."""
    field = "input" if path == "/v1/responses" else "messages"
    earlier = body[field]
    if isinstance(earlier, str):
        earlier = [{"role": "user", "content": earlier}]
    replied = [{"role": "assistant", "content": "Yes."}, {"role": "user", "content": text}]
    return body | {field: [*earlier, *replied]}


def long_session(path: str, text: str) -> Body:
    """A request of a session whose conversation is long enough to be remembered."""
    body = streamed(path, text + " long" * 8000)
    for turn in range(20):
        body = next_turn(path, body, f"Question {turn}")
    return body


@contextmanager
def called_files() -> Iterator[list[str]]:
    """The file of `app/` of each function that is called in this thread, in order."""
    files: list[str] = []

    def on_call(frame: FrameType, event: str, _: Any) -> None:
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(FOLDER) and not code.co_name.startswith("<"):
            files.append(code.co_filename)

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

    async def trace_all(self, number: int) -> dict[str, list[str]]:
        files: dict[str, list[str]] = {}
        for path in ENDPOINTS:
            text = f"Question {number} to {path}"
            files |= await self.trace(path, request_bytes(path, streamed(path, text)))
            session = long_session(path, text)
            await self.trace(path, request_bytes(path, session))
            continued = await self.trace(path, request_bytes(path, next_turn(path, session, "Go on")))
            files[f"continued turn of {path}"] = continued[f"request of {path}"]
        return files

    async def trace(self, path: str, raw: bytes) -> dict[str, list[str]]:
        """The calls of a request until it is sent, those of one chunk, and those of a hit."""
        expected = len(self._upstream.requests) + 1
        self._gates.close()
        with called_files() as request:
            self._writer.write(raw)
            await self._upstream.request(expected)
        await read_head(self._reader)
        await asyncio.sleep(CHUNK_SECONDS)
        with called_files() as chunk:
            self._gates.second_chunk.set()
            await self._reader.readuntil(b"two")
            await asyncio.sleep(CHUNK_SECONDS)
        self._gates.end.set()
        await read_end(self._reader)
        await asyncio.sleep(QUIET_SECONDS)
        with called_files() as hit:
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


async def trace_paths() -> dict[str, list[str]]:
    gates = Gates()
    script = Reply([say("One"), gates.second_chunk, say(" two"), gates.end, end(), DONE], chunked=True)
    async with (
        ScriptedServer(script) as upstream,
        caching(upstream, "memory:", apply="always") as gateway,
        connected(gateway.address) as (reader, writer),
    ):
        tracer = Tracer(upstream, gates, reader, writer)
        rounds = [await tracer.trace_all(number) for number in range(1 + ROUNDS)]
    found = {name: min((calls[name] for calls in rounds[1:]), key=len) for name in rounds[0]}
    return {name: [file.removeprefix(FOLDER) for file in files] for name, files in found.items()}


def main() -> None:
    print(json.dumps(asyncio.run(trace_paths())))


if __name__ == "__main__":
    main()
