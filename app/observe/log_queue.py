"""Write log lines to a file descriptor from a separate thread, so that a slow reader never blocks the gateway.

Writing to a pipe that is not read blocks. Lines therefore wait in a queue of bounded size; those that do not fit are
dropped and counted, and a separate line reports the count once lines are written again.
"""

import contextlib
import logging
import os
import select
import threading
import time
from collections.abc import Callable
from queue import SimpleQueue
from typing import TextIO

from app.runtime.background_thread import start_background_thread

MAX_QUEUE_BYTES = 4 * 1024 * 1024
FLUSH_SECONDS = 2.0
"""How long the process waits at its end until the queued lines are written."""
GATHER_SECONDS = 0.02
"""How long lines are gathered after a write. A thread that wakes for each line interrupts the gateway each time."""


class _Flush(threading.Event):
    """A mark in the queue; set when all lines before it have been written."""


class _Stop:
    """A mark in the queue that ends the thread."""


class QueuedHandler(logging.Handler):
    """Formats each record at once and queues the line. `dropped_line` formats the count of dropped lines."""

    def __init__(
        self, stream: TextIO, dropped_line: Callable[[int], str], max_queue_bytes: int = MAX_QUEUE_BYTES
    ) -> None:
        super().__init__()
        self._write = _writer(stream)
        self._dropped_line = dropped_line
        self._max_queue_bytes = max_queue_bytes
        self._queue: SimpleQueue[bytes | _Flush | _Stop] = SimpleQueue()
        self._thread: threading.Thread | None = None
        self._starting = threading.Lock()
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

    def handle(self, record: logging.LogRecord) -> bool:
        """Handle a record as every handler does. The thread is started without the handler's lock: no other thread
        could log while it starts."""
        handled = super().handle(record)
        if self._thread is None:
            self._start()
        return handled

    def _start(self) -> None:
        """Start the thread, unless that is done at the moment. Where no thread can be started, the lines wait for the
        next attempt, which is that of the next line."""
        if not self._starting.acquire(blocking=False):
            return
        try:
            if self._thread is None:
                with contextlib.suppress(RuntimeError):
                    self._thread = start_background_thread("log writer", self._run)
        finally:
            self._starting.release()

    def flush(self) -> None:
        """Wait until all lines so far are written, at most FLUSH_SECONDS."""
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
        block = b""
        while True:
            item = self._queue.get()
            if isinstance(item, bytes):
                if len(block) + len(item) > select.PIPE_BUF:
                    self._write_block(block)
                    block = b""
                block += item
                if not self._queue.empty():
                    continue
            self._write_block(block)
            block = b""
            if isinstance(item, _Flush):
                item.set()
            elif isinstance(item, _Stop):
                return
            else:
                time.sleep(GATHER_SECONDS)

    def _write_block(self, block: bytes) -> None:
        """Write whole lines, of at most PIPE_BUF together: larger writes of several processes may interleave."""
        self._write(block)
        self._written_bytes += len(block)
        count = self._dropped - self._reported
        if count:
            self._reported += count
            self._write(f"{self._dropped_line(count)}\n".encode())


def _writer(stream: TextIO) -> Callable[[bytes], None]:
    """Return a function that writes to the stream, and past its buffer if it has a file descriptor.

    A thread that is blocked in a write must not hold the buffer's lock when the interpreter exits.
    """
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
    """Write all data. If the reader has closed the pipe, the lines are lost: there is nowhere to report it."""
    while data:
        try:
            data = data[os.write(descriptor, data) :]
        except BlockingIOError:  # another program has set O_NONBLOCK on the shared file
            select.select([], [descriptor], [])
        except OSError:
            return
