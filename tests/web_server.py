"""A web server on loopback: complete responses, and those that never end."""

import asyncio
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Self

Answer = Callable[[asyncio.StreamWriter], Awaitable[None]]


class Site:
    """A web server on a port of loopback, with one answer for each path, that keeps what it was asked."""

    def __init__(self, answers: dict[str, bytes | Answer] | None = None) -> None:
        self._answers = answers or {}
        self.requests: list[str] = []
        self.gone = asyncio.Event()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.close()
        await self._server.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            self.requests.append(head)
            answer = self._answers.get(head.split()[1], b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n")
            if isinstance(answer, bytes):
                writer.write(answer)
                await writer.drain()
            else:
                await answer(writer)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            self.gone.set()
            writer.close()

    def answer(self, path: str, answer: bytes | Answer) -> None:
        self._answers[path] = answer

    def url(self, path: str, host: str = "media.test") -> str:
        return f"http://{host}:{self.port}{path}"


def reply(body: bytes = b"bytes", kind: str = "image/png", status: int = 200, **headers: str) -> bytes:
    lines = {"content-type": kind, "content-length": str(len(body)), **headers}
    head = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in lines.items() if value)
    return f"HTTP/1.1 {status} X\r\n{head}\r\n".encode() + body


async def endless(writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: image/png\r\n\r\n")
    while True:
        writer.write(bytes(65536))
        await writer.drain()


def waiting(*sent: bytes) -> Answer:
    async def answer(writer: asyncio.StreamWriter) -> None:
        for piece in sent:
            writer.write(piece)
        await writer.drain()
        await asyncio.Event().wait()

    return answer


async def drip(writer: asyncio.StreamWriter) -> None:
    """A byte now and then."""
    writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: image/png\r\n\r\n")
    while not writer.transport.is_closing():
        writer.write(b"x")
        await writer.drain()
        await asyncio.sleep(0.02)
