"""Log lines on their way to a file descriptor, by a thread of its own, so that a slow reader never stops the gateway.

A pipe that nobody reads blocks whoever writes to it. Lines wait in a queue of bounded size; what does not fit is
dropped and counted, and the count is a line of its own once lines are written again.
"""

import logging
import os
import select
import threading
from collections.abc import Callable, Iterator
from queue import Empty, SimpleQueue
from typing import TextIO

MAX_QUEUE_BYTES = 4 * 1024 * 1024
FLUSH_SECONDS = 2.0
"""How long the end of the process waits for lines that nobody reads."""
_BATCH_BYTES = 64 * 1024


class _Flush(threading.Event):
    """Waits in the queue; set when all lines before it were written."""


class _Stop:
    """Ends the thread."""


class QueuedHandler(logging.Handler):
    """Formats a record at once and queues the line; `dropped_line` makes the line that tells how many were dropped."""

    def __init__(
        self, stream: TextIO, dropped_line: Callable[[int], str], max_queue_bytes: int = MAX_QUEUE_BYTES
    ) -> None:
        super().__init__()
        self._write = _writer(stream)
        self._dropped_line = dropped_line
        self._max_queue_bytes = max_queue_bytes
        self._queue: SimpleQueue[bytes | _Flush | _Stop] = SimpleQueue()
        self._thread: threading.Thread | None = None
        # Each counter has one writer: `emit` under the handler's lock, or the thread.
        self._queued_bytes = self._written_bytes = 0
        self._dropped = self._reported = 0

    def emit(self, record: logging.LogRecord) -> None:
        try:
            line = f"{self.format(record)}\n".encode("utf-8", "backslashreplace")
        except Exception:
            self.handleError(record)
            return
        if self._queued_bytes - self._written_bytes + len(line) > self._max_queue_bytes:
            self._dropped += 1
            return
        self._queued_bytes += len(line)
        self._queue.put(line)
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="log writer", daemon=True)
            self._thread.start()

    def flush(self) -> None:
        """Returns when all lines so far are written, at the latest after FLUSH_SECONDS."""
        if self._thread is not None:
            mark = _Flush()
            self._queue.put(mark)
            mark.wait(FLUSH_SECONDS)

    def close(self) -> None:
        """May be called more than once."""
        self.flush()
        if self._thread is not None:
            self._queue.put(_Stop())
            self._thread = None
        super().close()

    def _run(self) -> None:
        while True:
            batch, end = self._next_batch()
            for piece in _pieces(batch):
                self._write(piece)
            self._written_bytes += sum(map(len, batch))
            self._report_dropped()
            if isinstance(end, _Flush):
                end.set()
            elif end is not None:
                return

    def _next_batch(self) -> tuple[list[bytes], _Flush | _Stop | None]:
        """Lines that wait, at least one, up to a mark; and the mark."""
        batch: list[bytes] = []
        size = 0
        item = self._queue.get()
        try:
            while isinstance(item, bytes):
                batch.append(item)
                size += len(item)
                if size >= _BATCH_BYTES:
                    return batch, None
                item = self._queue.get_nowait()
        except Empty:
            return batch, None
        return batch, item

    def _report_dropped(self) -> None:
        count = self._dropped - self._reported
        if count:
            self._reported += count
            self._write(f"{self._dropped_line(count)}\n".encode())


def _pieces(lines: list[bytes]) -> Iterator[bytes]:
    """Whole lines in pieces that a pipe takes at once: several processes write to it, and lines must not mix."""
    held: list[bytes] = []
    size = 0
    for line in lines:
        if held and size + len(line) > select.PIPE_BUF:
            yield b"".join(held)
            held, size = [], 0
        held.append(line)
        size += len(line)
    if held:
        yield b"".join(held)


def _writer(stream: TextIO) -> Callable[[bytes], None]:
    """What writes to the stream, past its buffers where it has a file descriptor: a thread that is stuck in a write
    must not hold their locks when the interpreter ends."""
    try:
        descriptor = stream.fileno()
    except (OSError, ValueError, AttributeError):
        return lambda data: _write_text(stream, data)
    return lambda data: _write_bytes(descriptor, data)


def _write_text(stream: TextIO, data: bytes) -> None:
    try:
        stream.write(data.decode())
        stream.flush()
    except (OSError, ValueError):  # closed
        pass


def _write_bytes(descriptor: int, data: bytes) -> None:
    """A reader that has left loses the lines: there is nowhere left to say so."""
    rest = memoryview(data)
    while rest:
        try:
            rest = rest[os.write(descriptor, rest) :]
        except BlockingIOError:  # another program has set O_NONBLOCK on the file that it shares with us
            select.select([], [descriptor], [])
        except OSError:
            return
