"""A model server on loopback that answers as those of a report did: the n-th request to one gets its n-th answer."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from http.client import responses

from app.replay.report import Message, Report, encode

READ_SECONDS = 0.002
"""The pause between two reads, so that they arrive as two."""
_NOT_SENT = frozenset(("content-length", "transfer-encoding", "connection", "content-encoding"))
_HEAD_BYTES = 256 * 1024


class ScriptedServer:
    """After the last answer of a server, it is given again."""

    def __init__(self, report: Report) -> None:
        self._names = report.list_upstreams()
        self._answers = {name: [one.reply for one in report.exchanges if one.upstream == name] for name in self._names}
        self._asked = dict.fromkeys(self._names, 0)
        self._server: asyncio.Server | None = None
        self._port = 0

    async def start(self, port: int = 0) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", port, limit=_HEAD_BYTES)
        self._port = self._server.sockets[0].getsockname()[1]

    async def aclose(self) -> None:
        if self._server is not None:
            self._server.close()
            await self._server.wait_closed()

    @property
    def addresses(self) -> dict[str, str]:
        """The base_url of each model server of the report."""
        return {name: f"http://127.0.0.1:{self._port}/{number}/v1" for number, name in enumerate(self._names)}

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            with contextlib.suppress(OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, ValueError):
                answer = self._choose(await _read_path(reader))
                if answer is not None:
                    await _write_answer(writer, answer)
        finally:
            writer.close()

    def _choose(self, path: str) -> Message | None:
        """Return the next answer of the server that the path names; None if it gave none."""
        number = path.split("/")[1]
        name = self._names[int(number)] if number.isdigit() and int(number) < len(self._names) else self._names[0]
        answers = self._answers[name]
        asked, self._asked[name] = self._asked[name], self._asked[name] + 1
        return answers[min(asked, len(answers) - 1)] if answers else None


async def _read_path(reader: asyncio.StreamReader) -> str:
    """Read a request to its end, and return its path. Raises OSError and ValueError."""
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    first, *lines = head.split("\r\n")
    headers = dict(line.lower().split(": ", 1) for line in lines if ": " in line)
    await reader.readexactly(int(headers.get("content-length", "0")))
    return first.split(" ")[1]


async def _write_answer(writer: asyncio.StreamWriter, answer: Message) -> None:
    """Send the reads one by one. A body that broke has no end."""
    lines = [f"HTTP/1.1 {answer.status} {responses.get(answer.status, '')}"]
    lines += [f"{name}: {value}" for name, value in answer.headers if name.lower() not in _NOT_SENT]
    head = "\r\n".join([*lines, "transfer-encoding: chunked", "connection: close", "", ""])
    writer.write(head.encode("latin-1", "replace"))
    for _, text in answer.reads:
        data = encode(text)
        if data:
            writer.write(b"%x\r\n%b\r\n" % (len(data), data))
            await writer.drain()
            await asyncio.sleep(READ_SECONDS)
    if answer.end != "cut" and not answer.is_cut:
        writer.write(b"0\r\n\r\n")
    await writer.drain()


@asynccontextmanager
async def serving(report: Report, port: int = 0) -> AsyncIterator[ScriptedServer]:
    server = ScriptedServer(report)
    await server.start(port)
    try:
        yield server
    finally:
        await server.aclose()
