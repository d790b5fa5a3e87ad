"""The event loop looks keys up in an SQLite file itself, and always finds what the file has now."""

import asyncio
import contextlib
import sqlite3
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from app.stores.sqlite import MAX_LOOP_BYTES, SLOW_PAUSE_SECONDS, LoopReader, SqliteStore
from app.stores.sqlite_file import SqliteDatabase
from app.stores.sqlite_schema import FoundRow
from app.stores.worker import SqliteWorker

from tests.cache.sqlite_files import TTL, change_elsewhere, filled, move_into_place, run_with_store


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "cache.db"


async def value_of(store: SqliteStore, key: str = "0") -> bytes | None:
    found = await store.get(key)
    return None if found is None else found.value


CHANGES: dict[str, Callable[[SqliteStore, Path], Awaitable[object]]] = {
    "another process deletes it": lambda _, path: asyncio.to_thread(change_elsewhere, path, "DELETE FROM entries"),
    "it is deleted": lambda store, _: store.delete("0"),
    "all are purged": lambda store, _: store.purge(),
    "those of the model are purged": lambda store, _: store.purge("m"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_deleted_value_is_not_found_although_it_was_read_just_before(change: str, path: Path) -> None:
    filled(path, 2, 10)

    async def scenario(store: SqliteStore) -> None:
        for _ in range(3):
            assert await value_of(store) == bytes(10)
        await CHANGES[change](store, path)
        assert await value_of(store) is None

    run_with_store(path, scenario)


def test_a_value_that_another_process_replaced_is_the_new_one(path: Path) -> None:
    filled(path, 1, 10)

    async def scenario(store: SqliteStore) -> None:
        for _ in range(3):
            assert await value_of(store) == bytes(10)
        await asyncio.to_thread(change_elsewhere, path, "UPDATE contents SET value = CAST('new' AS BLOB)")
        assert await value_of(store) == b"new"

    run_with_store(path, scenario)


OTHER_PROCESS = """
import asyncio, sys
from app.stores.sqlite import SqliteStore

async def main():
    store = SqliteStore(sys.argv[1])
    await store.put(sys.argv[2], b"theirs", ttl_seconds=60, model="m")
    await store.aclose()

asyncio.run(main())
"""


def put_elsewhere(path: Path, key: str) -> None:
    subprocess.run([sys.executable, "-c", OTHER_PROCESS, str(path), key], cwd=Path(__file__).parents[2], check=True)


def test_an_entry_of_another_process_is_found_at_once_although_its_key_was_looked_up_before(path: Path) -> None:
    filled(path, 50, 10)

    async def scenario(store: SqliteStore) -> None:
        for _ in range(3):
            assert await value_of(store, "theirs") is None
        await asyncio.to_thread(put_elsewhere, path, "theirs")
        assert await value_of(store, "theirs") == b"theirs"
        await asyncio.to_thread(change_elsewhere, path, "DELETE FROM entries")
        await asyncio.to_thread(put_elsewhere, path, "theirs")
        assert await value_of(store, "theirs") == b"theirs"

    run_with_store(path, scenario)


def test_a_file_in_the_place_of_another_is_read(path: Path) -> None:
    filled(path, 50, 10)
    other = path.with_name("other.db")
    filled(other, 1, 20)

    async def scenario(store: SqliteStore) -> None:
        for _ in range(3):
            assert await value_of(store) == bytes(10)
        await asyncio.to_thread(move_into_place, other, path)
        for _ in range(3):
            assert await value_of(store) == bytes(20)
        assert await value_of(store, "40") is None

    run_with_store(path, scenario)


def test_a_value_expires_although_it_was_read_a_short_time_ago(path: Path) -> None:
    filled(path, 1, 10)
    now = time.time()

    async def scenario(store: SqliteStore) -> None:
        nonlocal now
        assert await value_of(store) == bytes(10)
        now += TTL["ttl_seconds"] + 10
        assert await value_of(store) is None

    run_with_store(path, scenario, clock=lambda: now)


def test_a_look_up_keeps_no_other_connection_from_ending_the_log(path: Path) -> None:
    filled(path, 3, 10)

    async def scenario(store: SqliteStore) -> None:
        await store.put("new", b"value", **TTL)
        assert [await value_of(store, key) for key in ("0", "new", "no")] == [bytes(10), b"value", None]
        with contextlib.closing(sqlite3.connect(path)) as connection:
            assert connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0] == 0
        assert path.with_name("cache.db-wal").stat().st_size == 0
        assert await value_of(store, "new") == b"value"

    run_with_store(path, scenario)


class Rig:
    """A `LoopReader` of a file, without a store."""

    def __init__(self, path: Path) -> None:
        database = SqliteDatabase(str(path))
        self.thread: SqliteWorker[Callable[[sqlite3.Connection], Any]] = SqliteWorker(
            "reader", lambda ops: [database.use(op) for op in ops], database.close
        )
        self.now, self.step = 100.0, 0.0
        """The time, and how much of it passes between two looks at the clock."""
        self.reader = LoopReader(str(path), self.thread, self._clock)

    def _clock(self) -> float:
        self.now += self.step
        return self.now

    def read(self, key: bytes) -> FoundRow | None:
        return self.reader.read(key, time.time())

    async def wait_for_thread(self) -> None:
        await self.thread.submit(lambda _: None)
        await asyncio.sleep(0)


def with_rig(path: Path, scenario: Callable[[Rig], Awaitable[None]]) -> None:
    async def run() -> None:
        rig = Rig(path)
        try:
            await scenario(rig)
        finally:
            await rig.thread.aclose()
            rig.reader.close()

    asyncio.run(run())


def is_read(row: FoundRow | None) -> bool:
    return row is not None and row.stored is not None


def test_the_thread_reads_until_it_has_opened_the_file_and_what_is_large(path: Path) -> None:
    async def fill(store: SqliteStore) -> None:
        await store.put("small", bytes(MAX_LOOP_BYTES), **TTL)
        await store.put("large", bytes(MAX_LOOP_BYTES + 1), **TTL)

    run_with_store(path, fill)

    async def scenario(rig: Rig) -> None:
        assert [rig.read(key) for key in (b"small", b"no")] == [LoopReader.UNREAD, LoopReader.UNREAD]
        await rig.wait_for_thread()
        large = rig.read(b"large")
        assert large is not None and large.stored is None
        assert is_read(rig.read(b"small")) and rig.read(b"no") is None

    with_rig(path, scenario)


def test_the_thread_reads_for_a_while_after_look_ups_took_long(path: Path) -> None:
    filled(path, 1, 10)

    async def scenario(rig: Rig) -> None:
        rig.read(b"0")
        await rig.wait_for_thread()
        rig.step = 0.02
        assert [is_read(rig.read(b"0")) for _ in range(5)] == [True, True, True, False, False]
        rig.now += SLOW_PAUSE_SECONDS
        assert [is_read(rig.read(b"0")) for _ in range(5)] == [True, True, True, False, False]

    with_rig(path, scenario)


def test_the_event_loop_goes_on_reading_if_a_look_up_took_long_now_and_then(path: Path) -> None:
    filled(path, 1, 10)

    async def scenario(rig: Rig) -> None:
        rig.read(b"0")
        await rig.wait_for_thread()
        for number in range(100):
            rig.step = 0.5 if number % 10 == 0 else 0.0005
            assert is_read(rig.read(b"0"))

    with_rig(path, scenario)


def test_a_damaged_row_is_left_to_the_thread(path: Path) -> None:
    filled(path, 1, 10)
    change_elsewhere(path, "UPDATE contents SET value = 1000000000")

    async def scenario(rig: Rig) -> None:
        rig.read(b"0")
        await rig.wait_for_thread()
        assert rig.read(b"0") == LoopReader.UNREAD

    with_rig(path, scenario)
