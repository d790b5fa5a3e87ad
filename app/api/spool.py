"""`Spool`: keeps a request body with files, a short one in memory and a longer one on the disk, and sends it on."""

import asyncio
import os
import tempfile
from collections.abc import AsyncIterator, Sequence
from types import TracebackType
from typing import IO, Self

MEMORY_BYTES = 1024 * 1024
PIECE_BYTES = 256 * 1024


class Spool:
    """A context manager. At its end the file is deleted, which has no name."""

    def __init__(self) -> None:
        self._memory = bytearray()
        self._file: IO[bytes] | None = None
        self._forgets = False
        self.size = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._memory.clear()
        if self._file is not None:
            self._file.close()

    async def write(self, data: bytes) -> None:
        self.size += len(data)
        self._memory += data
        if len(self._memory) > MEMORY_BYTES and not self._forgets:
            held, self._memory = self._memory, bytearray()
            await asyncio.to_thread(self._write_file, held)

    def _write_file(self, data: bytearray) -> None:
        if self._file is None:
            self._file = tempfile.TemporaryFile(buffering=0)  # noqa: SIM115 - closed by __exit__
        view = memoryview(data)
        while view:
            view = view[self._file.write(view) :]

    def forget(self, end: int) -> None:
        """Let go of what is in memory before this place: it is read no more. Nothing goes to the disk from now on."""
        self._forgets = True
        del self._memory[: max(0, end - (self.size - len(self._memory)))]

    async def read(self, start: int, end: int) -> bytes:
        """Return these bytes, or fewer. Requests may read at the same time."""
        on_disk = self.size - len(self._memory)
        if start >= on_disk:
            return bytes(self._memory[start - on_disk : end - on_disk])
        assert self._file is not None
        return await asyncio.to_thread(os.pread, self._file.fileno(), min(end, on_disk) - start, start)


class SpooledBody:
    """A body of a request: bytes, and parts of a spool that are given by their begin and end."""

    def __init__(self, spool: Spool, content_type: str, parts: Sequence[bytes | tuple[int, int]]) -> None:
        self.content_type = content_type
        self._spool = spool
        self._parts = parts

    def __len__(self) -> int:
        return sum(len(part) if isinstance(part, bytes) else part[1] - part[0] for part in self._parts)

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for part in self._parts:
            if isinstance(part, bytes):
                yield part
                continue
            start, end = part
            while start < end:
                piece = await self._spool.read(start, min(end, start + PIECE_BYTES))
                if not piece:
                    raise OSError("the file of an upload is shorter than what was written")
                start += len(piece)
                yield piece
