"""Documents are read in processes of their own: within limits, stopped with their caller, none left behind."""

import asyncio
import io
import os
import time
from pathlib import Path
from typing import Any

import pytest
from app.attachments.documents.protocol import SearchJob, UnreadableFile
from app.attachments.documents.worker_pool import DocumentWorkers, WorkerSlots
from app.errors import Busy
from PIL import Image

from tests.attachments.documents import sample_documents
from tests.default_limits import document_limits

pytestmark = pytest.mark.anyio

SLOW = b"<html><body>" + b"<p>a</p><b>c</b>" * 1_000_000
"""Takes some ten seconds to read: more than any test gives it."""


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def make_pool(**limits: Any) -> DocumentWorkers:
    return DocumentWorkers(document_limits(**{"workers": 1, **limits}))


def workers(pool: DocumentWorkers) -> list[int]:
    return [worker.pid for worker in pool.workers]


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


async def test_one_worker_reads_one_document_after_the_other() -> None:
    async with make_pool() as pool:
        assert (await pool.extract_text(b"hello", "a.txt")).sections == [(1, "", "hello")]
        [first] = workers(pool)
        assert (await pool.extract_text("aGVsbG8=", "a.txt")).sections == [(1, "", "hello")]
        assert (await pool.scale_picture(sample_documents.picture(40, 30), max_short_side=15)).width == 20
        assert workers(pool) == [first]
        # It starts without the gateway's modules, which would take half of its time to start.
        assert "pydantic_core" not in memory_map(first)
    assert not alive(first)


async def test_what_is_refused_costs_no_worker() -> None:
    async with make_pool() as pool:
        with pytest.raises(UnreadableFile, match="is empty"):
            await pool.extract_text(b"", "")
        [first] = workers(pool)
        assert (await pool.extract_text(b"x", "")).sections and workers(pool) == [first]


@pytest.mark.parametrize("limits", [{"cpu_seconds": 1}, {"wall_seconds": 0.3}])
async def test_a_document_that_takes_too_long_is_refused_and_the_next_is_read(limits: dict[str, Any]) -> None:
    async with make_pool(**limits) as pool:
        with pytest.raises(UnreadableFile, match="took too long to read"):
            await pool.extract_text(SLOW, "")
        assert (await pool.extract_text(b"x", "")).sections == [(1, "", "x")]


async def test_a_document_that_needs_too_much_memory_is_refused_and_the_next_is_read() -> None:
    white = io.BytesIO()
    Image.new("RGB", (7000, 7000)).save(white, "PNG", compress_level=1)
    async with make_pool(memory_bytes=256 << 20) as pool:
        with pytest.raises(UnreadableFile, match="needs too much memory"):
            await pool.scale_picture(white.getvalue(), max_short_side=10)
        assert (await pool.extract_text(b"x", "")).sections == [(1, "", "x")]


async def test_a_caller_who_leaves_stops_the_reading_and_the_worker_goes_on() -> None:
    async with make_pool(cpu_seconds=60, wall_seconds=60.0) as pool:
        await pool.extract_text(b"x", "")
        task = asyncio.create_task(pool.extract_text(SLOW, ""))
        await _child_of(*workers(pool))
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        started = time.monotonic()
        assert (await pool.extract_text(b"y", "")).sections == [(1, "", "y")]
        assert time.monotonic() - started < 5


async def _child_of(pid: int) -> None:
    """Returns when the worker has forked for its job."""
    while not children(pid):  # what happens in another process raises no event
        await asyncio.sleep(0.005)


def children(pid: int) -> str:
    return Path(f"/proc/{pid}/task/{pid}/children").read_text()


def memory_map(pid: int) -> str:
    """With the names of the libraries that the process has loaded."""
    return Path(f"/proc/{pid}/maps").read_text()


async def test_a_caller_who_leaves_while_the_worker_starts_leaves_a_worker_that_works() -> None:
    async with make_pool() as pool:
        task = asyncio.create_task(pool.extract_text(SLOW, ""))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert (await pool.extract_text(b"y", "")).sections == [(1, "", "y")]


async def test_a_book_is_searched_within_the_limits_of_a_worker() -> None:
    book = "".join(f"Sentence {number} says something else. " for number in range(60_000)) + "The zebra is here."
    async with make_pool() as pool:
        job = SearchJob([[book]], "zebra", 2000, 200, 20, keywords=True, front=False)
        (best,) = (await pool.search(job)).passages
        assert "zebra" in book[best.start : best.end]
    async with make_pool(cpu_seconds=1, wall_seconds=0.2) as pool:
        with pytest.raises(UnreadableFile, match="took too long"):
            await pool.search(job)


async def test_a_worker_that_dies_is_replaced() -> None:
    async with make_pool() as pool:
        await pool.extract_text(b"x", "")
        [first] = workers(pool)
        os.kill(first, 9)
        with pytest.raises(Busy):
            await pool.extract_text(b"x", "")
        assert (await pool.extract_text(b"x", "")).sections and workers(pool) != [first]


async def test_one_document_too_many_is_refused_as_busy() -> None:
    async with make_pool(max_waiting=1) as pool:
        tasks = [asyncio.create_task(pool.extract_text(b"x", "")) for _ in range(3)]
        found = await asyncio.gather(*tasks, return_exceptions=True)
    assert sorted(type(one).__name__ for one in found) == ["Busy", "TextResult", "TextResult"]


async def test_one_caller_leaves_workers_to_others() -> None:
    async with make_pool(workers=2, workers_per_caller=1, cpu_seconds=60, wall_seconds=60.0) as pool:
        for name in ("a", "b"):
            await pool.extract_text(b"x", "", caller=name)
        greedy = [asyncio.create_task(pool.extract_text(SLOW, "", caller="greedy")) for _ in range(6)]
        await asyncio.sleep(0.1)
        async with asyncio.timeout(5):
            assert (await pool.extract_text(b"x", "", caller="modest")).sections
        assert not any(task.done() for task in greedy)
        for task in greedy:
            task.cancel()
        await asyncio.gather(*greedy, return_exceptions=True)
        assert (await pool.extract_text(b"x", "", caller="greedy")).sections


async def test_a_document_waits_only_so_long_for_a_worker() -> None:
    async with make_pool(queue_seconds=0.2, cpu_seconds=60, wall_seconds=60.0) as pool:
        await pool.extract_text(b"x", "")
        task = asyncio.create_task(pool.extract_text(SLOW, ""))
        await asyncio.sleep(0)
        with pytest.raises(Busy, match=r"became free within 0\.2 s") as caught:
            await pool.extract_text(b"x", "")
        assert (caught.value.status, caught.value.headers) == (503, {"retry-after": "1"})
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        async with asyncio.timeout(30):
            while not await has_free_worker(pool):  # another process starts, which takes time on a busy machine
                pass


async def has_free_worker(pool: DocumentWorkers) -> bool:
    try:
        return bool((await pool.extract_text(b"x", "")).sections)
    except Busy:
        return False


async def test_callers_take_turns() -> None:
    slots, order = WorkerSlots(1, 1), []

    async def use(caller: str) -> None:
        await slots.acquire(caller, 5)
        order.append(caller)
        await asyncio.sleep(0)
        slots.release(caller)

    await slots.acquire("x", 5)
    tasks = [asyncio.create_task(use(caller)) for caller in "aaabbc"]
    await asyncio.sleep(0)
    tasks[1].cancel()
    slots.release("x")
    await asyncio.gather(*tasks, return_exceptions=True)
    assert "".join(order) == "abcab"


async def test_the_end_of_the_gateway_ends_a_reading() -> None:
    pool = make_pool(cpu_seconds=60, wall_seconds=60.0)
    await pool.extract_text(b"x", "")
    task = asyncio.create_task(pool.extract_text(SLOW, ""))
    [pid] = workers(pool)
    await _child_of(pid)
    await pool.aclose()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not alive(pid)
    with pytest.raises(Busy):
        await pool.extract_text(b"x", "")


async def test_bombs_are_refused_while_the_loop_keeps_its_pace() -> None:
    bombs = [sample_documents.zip_bomb("word/document.xml", 32 << 20), sample_documents.long_pdf(100_000), SLOW]
    limits = {"workers": 2, "workers_per_caller": 2, "cpu_seconds": 1, "max_unpacked_bytes": 16 << 20}
    async with make_pool(**limits) as pool:
        tasks = [asyncio.create_task(pool.extract_text(bomb, "")) for bomb in bombs]
        tasks.append(asyncio.create_task(pool.scale_picture(sample_documents.huge_png(50_000, 50_000))))  # type: ignore[arg-type]
        worst, last = 0.0, time.monotonic()
        while not all(task.done() for task in tasks):
            await asyncio.sleep(0.002)
            now = time.monotonic()
            worst, last = max(worst, now - last), now
        found = await asyncio.gather(*tasks, return_exceptions=True)
    assert [type(one) for one in found] == [UnreadableFile] * 4
    assert worst < 0.5
