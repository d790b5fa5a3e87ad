"""A value that is read again is known without a thread, and never after the file changed."""

import asyncio
import sqlite3
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from app.stores import UNKNOWN, StoredValue
from app.stores.file_version import VersionReader
from app.stores.recent_values import MAX_VALUE_BYTES, RecentValues
from app.stores.sqlite import SqliteStore
from app.stores.sqlite_file import SqliteDatabase
from app.stores.sqlite_schema import FoundRow
from app.stores.worker import SqliteWorker

from tests.cache.sqlite_files import TTL, change_elsewhere, filled, move_into_place, run_with_store


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "cache.db"


async def read_until_recent(store: SqliteStore, key: str = "0") -> StoredValue:
    """Read the key until it is known without the reader."""
    async with asyncio.timeout(10):
        while True:
            known = store.get_nowait(key)
            if isinstance(known, StoredValue):
                return known
            assert await store.get(key) is not None


def test_a_value_that_is_read_again_is_known_without_asking_the_reader(path: Path) -> None:
    filled(path, 3, 10)

    async def scenario(store: SqliteStore) -> None:
        for key in "012":
            assert (await read_until_recent(store, key)).value == bytes(10)
        assert all(isinstance(store.get_nowait(key), StoredValue) for key in "012")

    run_with_store(path, scenario)


CHANGES: dict[str, Callable[[SqliteStore, Path], Awaitable[object]]] = {
    "another process deletes it": lambda _, path: asyncio.to_thread(change_elsewhere, path, "DELETE FROM entries"),
    "another process deletes another": lambda _, path: asyncio.to_thread(
        change_elsewhere, path, "DELETE FROM entries WHERE key = CAST('1' AS BLOB)"
    ),
    "it is deleted": lambda store, _: store.delete("0"),
    "all are purged": lambda store, _: store.purge(),
    "those of the model are purged": lambda store, _: store.purge("m"),
}


@pytest.mark.parametrize("happens", CHANGES)
def test_a_value_is_read_again_after_the_file_changed(happens: str, path: Path) -> None:
    filled(path, 2, 10)

    async def scenario(store: SqliteStore) -> None:
        await read_until_recent(store)
        await CHANGES[happens](store, path)
        assert store.get_nowait("0") in (UNKNOWN, None)
        assert (await store.get("0") is not None) is (happens == "another process deletes another")

    run_with_store(path, scenario)


def test_a_value_that_another_process_replaced_is_the_new_one(path: Path) -> None:
    filled(path, 1, 10)

    async def scenario(store: SqliteStore) -> None:
        await read_until_recent(store)
        await asyncio.to_thread(change_elsewhere, path, "UPDATE contents SET value = CAST('new' AS BLOB)")
        assert store.get_nowait("0") is UNKNOWN
        assert (await read_until_recent(store)).value == b"new"

    run_with_store(path, scenario)


def test_a_value_that_this_process_replaces_is_the_new_one_at_every_moment(path: Path) -> None:
    filled(path, 1, 10)

    async def scenario(store: SqliteStore) -> None:
        await read_until_recent(store)
        assert store.put_nowait("0", b"new", **TTL)
        async with asyncio.timeout(10):
            while (known := store.get_nowait("0")) is not UNKNOWN:  # until it was written
                assert isinstance(known, StoredValue) and known.value == b"new"
                await asyncio.sleep(0)
        assert (await read_until_recent(store)).value == b"new"

    run_with_store(path, scenario)


def test_a_value_of_a_file_that_was_moved_away_is_not_known(path: Path) -> None:
    filled(path, 1, 10)
    other = path.with_name("other.db")
    filled(other, 1, 20)

    async def scenario(store: SqliteStore) -> None:
        await read_until_recent(store)
        await asyncio.to_thread(move_into_place, other, path)
        assert store.get_nowait("0") is UNKNOWN
        assert (await read_until_recent(store)).value == bytes(20)

    run_with_store(path, scenario)


def test_a_value_expires_although_it_was_read_a_short_time_ago(path: Path) -> None:
    filled(path, 1, 10)
    now = time.time()

    async def scenario(store: SqliteStore) -> None:
        nonlocal now
        await read_until_recent(store)
        now += TTL["ttl_seconds"] + 10
        assert store.get_nowait("0") is UNKNOWN
        assert await store.get("0") is None

    run_with_store(path, scenario, clock=lambda: now)


class Rig:
    """`RecentValues` of a file, without a store."""

    def __init__(self, path: Path, max_bytes: int) -> None:
        database = SqliteDatabase(str(path))
        self.reader: SqliteWorker[Callable[[sqlite3.Connection], object]] = SqliteWorker(
            "reader", lambda ops: [database.use(op) for op in ops], database.close
        )
        self.watching = SqliteDatabase(str(path))
        self.values = RecentValues(VersionReader(self.watching, self.reader), max_bytes)

    async def add(self, key: bytes, value: bytes) -> None:
        """Add a value until it is kept, or as often as that takes at most."""
        row = FoundRow(1, StoredValue(value, 0.0), 1e12)
        for _ in range(3):
            self.values.add(key, row, self.values.changes)
            await self.reader.submit(lambda _: None)

    def has(self, key: bytes) -> bool:
        return self.values.get(key, 0.0) is not None


def with_rig(path: Path, scenario: Callable[[Rig], Awaitable[None]], max_bytes: int = 100) -> None:
    filled(path, 1, 10)

    async def run() -> None:
        rig = Rig(path, max_bytes)
        try:
            await scenario(rig)
        finally:
            await rig.reader.aclose()
            rig.watching.close()

    asyncio.run(run())


def test_a_value_is_not_kept_if_the_file_changed_after_the_reader_was_asked(path: Path) -> None:
    async def scenario(rig: Rig) -> None:
        await rig.add(b"first", b"1")
        asked = rig.values.changes
        change_elsewhere(path, "DELETE FROM entries")
        await rig.add(b"second", b"2")  # notices the change
        assert not rig.has(b"first") and rig.has(b"second")
        rig.values.add(b"first", FoundRow(1, StoredValue(b"1", 0.0), 1e12), asked)
        assert not rig.has(b"first")

    with_rig(path, scenario)


def test_a_change_is_noticed_in_the_next_turn_of_the_event_loop(path: Path) -> None:
    """The requests that are answered in one turn had all arrived before it."""

    async def scenario(rig: Rig) -> None:
        await rig.add(b"first", b"1")
        await asyncio.sleep(0)
        assert rig.has(b"first")
        change_elsewhere(path, "DELETE FROM entries")
        assert rig.has(b"first")
        await asyncio.sleep(0)
        assert not rig.has(b"first")

    with_rig(path, scenario)


def test_the_values_that_were_used_longest_ago_make_room(path: Path) -> None:
    async def scenario(rig: Rig) -> None:
        for key in (b"a", b"b"):
            await rig.add(key, bytes(50))
        assert rig.has(b"a")
        await rig.add(b"c", bytes(50))
        assert (rig.has(b"a"), rig.has(b"b"), rig.has(b"c")) == (True, False, True)
        await rig.add(b"a", bytes(60))
        assert (rig.has(b"a"), rig.has(b"c")) == (True, False)

    with_rig(path, scenario)


def test_a_large_value_is_not_kept(path: Path) -> None:
    async def scenario(rig: Rig) -> None:
        await rig.add(b"small", bytes(MAX_VALUE_BYTES))
        await rig.add(b"large", bytes(MAX_VALUE_BYTES + 1))
        assert rig.has(b"small") and not rig.has(b"large")

    with_rig(path, scenario, max_bytes=10 * MAX_VALUE_BYTES)
