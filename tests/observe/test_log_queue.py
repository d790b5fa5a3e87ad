"""Log lines reach a reader that reads; one that does not costs lines, never time."""

import io
import logging
import os
import threading
import time
from collections.abc import Callable, Iterator

import pytest
from app.observe.log_queue import FLUSH_SECONDS, QueuedHandler
from app.runtime.background_thread import start_background_thread


def dropped_line(count: int) -> str:
    return f"dropped {count}"


def record(text: str) -> logging.LogRecord:
    return logging.LogRecord("x", logging.INFO, "", 0, text, (), None)


class Pipe:
    """A pipe, a handler that writes to it, and what can be read from it."""

    def __init__(self, max_queue_bytes: int = 100_000) -> None:
        self.reader, self.writer = os.pipe()
        self.stream = os.fdopen(self.writer, "w", encoding="utf-8")
        self.handler = QueuedHandler(self.stream, dropped_line, max_queue_bytes)

    def log(self, text: str) -> None:
        self.handler.handle(record(text))

    def read(self) -> list[str]:
        """All that waits; what is still queued goes on being written meanwhile."""
        flushing = threading.Thread(target=self.handler.flush)
        flushing.start()
        os.set_blocking(self.reader, False)
        data = b""
        while True:
            alive = flushing.is_alive()
            try:
                data += os.read(self.reader, 1 << 20)
            except BlockingIOError:
                if not alive:
                    return data.decode().splitlines()
                time.sleep(0.005)

    def close(self) -> None:
        os.close(self.reader)
        self.handler.close()
        self.stream.close()


@pytest.fixture
def pipe() -> Iterator[Pipe]:
    one = Pipe()
    yield one
    one.close()


def test_lines_come_whole_and_in_order(pipe: Pipe) -> None:
    lines = [f"{number} {'x' * (number % 300)}" for number in range(300)]
    for line in lines:
        pipe.log(line)
    assert pipe.read() == lines


def test_a_pipe_without_a_reader_blocks_no_request(pipe: Pipe) -> None:
    started = time.perf_counter()
    for number in range(5000):
        pipe.log(f"{number} {'x' * 1000}")
    assert time.perf_counter() - started < 2
    lines = pipe.read()
    dropped = [int(line.split()[1]) for line in lines if line.startswith("dropped")]
    kept = [int(line.split()[0]) for line in lines if not line.startswith("dropped")]
    assert kept == sorted(set(kept)) and kept[0] == 0
    assert sum(dropped) and len(kept) + sum(dropped) == 5000
    pipe.log("after")
    assert pipe.read() == ["after"]


def test_what_is_queued_is_bounded(pipe: Pipe) -> None:
    for _ in range(1000):
        pipe.log("x" * 1000)
    lines = pipe.read()
    assert sum(map(len, lines)) < 100_000 + 65_536 + 10_000


def test_a_flush_waits_for_a_reader_only_so_long(pipe: Pipe) -> None:
    for _ in range(200):
        pipe.log("x" * 1000)
    started = time.perf_counter()
    pipe.handler.flush()
    assert FLUSH_SECONDS * 0.9 < time.perf_counter() - started < FLUSH_SECONDS + 2


def test_a_reader_that_has_left_costs_lines_only() -> None:
    pipe = Pipe()
    os.close(pipe.reader)
    for _ in range(200):
        pipe.log("x" * 1000)
    pipe.handler.flush()
    pipe.handler.close()
    pipe.stream.close()


def test_a_descriptor_that_does_not_block_gets_every_line(pipe: Pipe) -> None:
    os.set_blocking(pipe.writer, False)
    lines = [f"{number} {'x' * 900}" for number in range(100)]
    for line in lines:
        pipe.log(line)
    assert pipe.read() == lines


def test_a_stream_without_a_descriptor_gets_the_lines_too() -> None:
    stream = io.StringIO()
    handler = QueuedHandler(stream, dropped_line)
    handler.handle(record("a\ud800"))
    handler.close()
    assert stream.getvalue() == "a\\ud800\n"


def test_a_handler_that_was_closed_leaves_no_thread_behind() -> None:
    before = threading.active_count()
    handler = QueuedHandler(io.StringIO(), dropped_line)
    handler.handle(record("a"))
    handler.close()
    deadline = time.perf_counter() + 5
    while threading.active_count() > before:
        assert time.perf_counter() < deadline
        time.sleep(0.01)


def test_a_handler_that_was_closed_can_be_closed_again_at_once() -> None:
    handler = QueuedHandler(io.StringIO(), dropped_line)
    handler.handle(record("one"))
    handler.close()
    began = time.monotonic()
    handler.flush()
    handler.close()
    assert time.monotonic() - began < FLUSH_SECONDS / 2


def test_the_thread_starts_without_the_lock_of_the_handler(monkeypatch: pytest.MonkeyPatch) -> None:
    handler = QueuedHandler(io.StringIO(), dropped_line)
    free: list[bool] = []

    def start(name: str, target: Callable[[], None]) -> threading.Thread:
        def take() -> None:
            assert handler.lock is not None
            free.append(handler.lock.acquire(timeout=5))
            if free[-1]:
                handler.lock.release()

        other = threading.Thread(target=take)
        other.start()
        other.join()
        return start_background_thread(name, target)

    monkeypatch.setattr("app.observe.log_queue.start_background_thread", start)
    handler.handle(record("one"))
    assert free == [True]


def test_a_line_that_no_thread_can_be_started_for_waits_for_the_next_one(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = io.StringIO()
    handler = QueuedHandler(stream, dropped_line)

    def start(name: str, target: Callable[[], None]) -> threading.Thread:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr("app.observe.log_queue.start_background_thread", start)
        handler.handle(record("one"))
    handler.handle(record("two"))
    handler.close()
    assert stream.getvalue() == "one\ntwo\n"


def test_many_threads_start_one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    stream, started = io.StringIO(), []
    handler = QueuedHandler(stream, dropped_line)

    def start(name: str, target: Callable[[], None]) -> threading.Thread:
        started.append(name)
        time.sleep(0.05)
        return start_background_thread(name, target)

    monkeypatch.setattr("app.observe.log_queue.start_background_thread", start)
    threads = [threading.Thread(target=handler.handle, args=(record("x"),)) for _ in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    handler.close()
    assert started == ["log writer"]
    assert stream.getvalue() == "x\n" * 20
