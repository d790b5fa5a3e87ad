"""The SQLite store: its file, its limits, a disk in trouble, and an event loop that waits for none of it."""

import asyncio
import contextlib
import logging
import os
import sqlite3
import stat
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import pytest
from app.stores import StoredValue, StoreError
from app.stores.sqlite import SqliteStore
from app.stores.sqlite_schema import StoredRow, read, shrink_some, write
from blockbuster import blockbuster_ctx

from tests.cache.sqlite_files import TTL, aside, change_elsewhere, filled, keeps, run_with_store

ROOT = Path(__file__).parents[2]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "cache.db"


def test_the_file_is_its_owners_alone_and_so_is_what_stands_beside_it(path: Path) -> None:
    async def scenario(store: SqliteStore) -> None:
        await keeps(store)
        modes = {found.name: stat.S_IMODE(found.stat().st_mode) for found in path.parent.iterdir()}
        assert modes == dict.fromkeys(["cache.db", "cache.db-lock", "cache.db-wal", "cache.db-shm"], 0o600)

    run_with_store(path, scenario)


def test_the_folder_is_made(path: Path) -> None:
    deep = path.parent / "a" / "b" / "cache.db"
    run_with_store(deep, keeps)
    assert stat.S_IMODE(deep.parent.stat().st_mode) == 0o700


def test_any_number_of_rows_is_stored_at_once_and_replaced(path: Path) -> None:
    async def scenario(store: SqliteStore) -> None:
        await keeps(store)

    run_with_store(path, scenario)  # makes the tables
    connection = sqlite3.connect(path)
    for count in (1, 2, 3, 31, 32, 33, 63, 64, 100):
        for written in (b"first", b"second"):
            rows = [StoredRow(b"%d of %d" % (number, count), b"m", written, 5.0, 1e10) for number in range(count)]
            write(connection, rows, 2**30)
            found = [read(connection, row.key, 6.0) for row in rows]
            assert [row.stored for row in found if row is not None] == [StoredValue(written, 5.0)] * count
            ids = [row.id for row in found if row is not None]
            assert ids == list(range(ids[0], ids[0] + count))
    connection.close()


def test_another_process_finds_what_was_written(path: Path) -> None:
    filled(path, 3)

    async def scenario(store: SqliteStore) -> None:
        assert (await store.stats()).entries == 3

    run_with_store(path, scenario)


def test_what_is_put_within_a_while_is_one_transaction(path: Path) -> None:
    async def scenario(store: SqliteStore) -> None:
        await store.put("first", b"value", **TTL)
        with contextlib.closing(sqlite3.connect(path)) as connection:
            before = version(connection)
            puts = []
            for number in range(300):
                puts.append(asyncio.ensure_future(store.put(f"{number}", b"value", **TTL)))
                await asyncio.sleep(0)
            assert version(connection) == before and not any(put.done() for put in puts)
            assert await store.get("0") is None
            await asyncio.gather(*puts)
            assert connection.execute("SELECT count(*) FROM entries").fetchone() == (301,)
            assert {row.entries for row in (await store.stats()).by_model.values()} == {301}

    run_with_store(path, scenario, linger_seconds=0.5)


def version(connection: sqlite3.Connection) -> int:
    """Return a number that is another one after each commit of another connection."""
    (found,) = connection.execute("PRAGMA data_version").fetchone()
    return int(found)


def waiting(action: Callable[[SqliteStore], Awaitable[None]]) -> Callable[[SqliteStore], Awaitable[None]]:
    """Do something while five entries wait to be written, of the models m0 and m1."""

    async def scenario(store: SqliteStore) -> None:
        puts = [
            asyncio.ensure_future(store.put(f"{number}", b"value", ttl_seconds=60, model=f"m{number % 2}"))
            for number in range(5)
        ]
        await asyncio.sleep(0)
        await action(store)
        if not store._closed:
            await asyncio.gather(*puts)

    return scenario


def test_a_purge_deletes_what_waits_to_be_written(path: Path) -> None:
    @waiting
    async def scenario(store: SqliteStore) -> None:
        assert await store.purge("m0") == 3
        assert await store.get("0") is None
        assert await store.get("1") is not None
        assert await store.purge() == 2
        assert (await store.stats()).entries == 0

    run_with_store(path, scenario, linger_seconds=60.0)


def test_what_waits_is_deleted_and_replaced(path: Path) -> None:
    @waiting
    async def scenario(store: SqliteStore) -> None:
        replacing = asyncio.ensure_future(store.put("1", b"newer", **TTL))
        await asyncio.sleep(0)
        await store.delete("0")
        await replacing
        assert (await store.stats()).entries == 4
        assert await store.get("0") is None
        found = await store.get("1")
        assert found is not None and found.value == b"newer"

    run_with_store(path, scenario, linger_seconds=60.0)


def test_what_waits_is_written_when_the_store_is_closed(path: Path) -> None:
    @waiting
    async def scenario(store: SqliteStore) -> None:
        await store.aclose()

    run_with_store(path, scenario, linger_seconds=60.0)
    assert len(ids(path)) == 5


def ids(path: Path) -> list[int]:
    with contextlib.closing(sqlite3.connect(path)) as connection:
        return [id_ for (id_,) in connection.execute("SELECT id FROM entries")]


def test_ids_only_grow_even_if_the_last_rows_were_deleted(path: Path) -> None:
    filled(path, 3, 10)
    before = ids(path)
    change_elsewhere(path, "DELETE FROM entries")
    filled(path, 3, 10)
    assert min(ids(path)) > max(before)


def test_a_put_that_is_cancelled_is_written_with_the_others(path: Path) -> None:
    @waiting
    async def scenario(store: SqliteStore) -> None:
        cancelled = asyncio.ensure_future(store.put("cancelled", b"value", **TTL))
        await asyncio.sleep(0)
        cancelled.cancel()
        await store.delete("no such key")  # what waits is written before
        assert [await store.get(key) is not None for key in ("0", "4", "cancelled")] == [True] * 3

    run_with_store(path, scenario, linger_seconds=60.0)


def test_rows_that_cannot_be_written_are_dropped(path: Path) -> None:
    async def scenario(store: SqliteStore) -> None:
        puts = [store.put(f"{number}", b"1", **TTL) for number in range(3)]
        assert [str(error) for error in await asyncio.gather(*puts, return_exceptions=True)] != [""] * 3
        assert store._waiting_bytes == 0

    (path.parent / "file").touch()
    run_with_store(path.parent / "file" / "cache.db", scenario)


def test_the_file_grows_no_further_than_it_may_and_shrinks_when_it_is_purged(path: Path) -> None:
    limit = 1024 * 1024

    async def scenario(store: SqliteStore) -> None:
        for number in range(400):
            await store.put(f"{number}", bytes(10_000), **TTL)
        assert await store.purge() > 50

    run_with_store(path, scenario, max_bytes=limit)
    assert path.stat().st_size < 100_000


def test_unused_pages_are_returned_in_few_steps(path: Path) -> None:
    filled(path, 1)
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as connection:
        rows = [StoredRow(b"x%d" % number, b"m", bytes(10_000), 1.0, 2.0**40) for number in range(300)]
        write(connection, rows, 2**40)
        connection.execute("DELETE FROM entries")
        connection.execute("BEGIN")
        steps = 1
        while shrink_some(connection):
            steps += 1
        assert connection.in_transaction
        connection.execute("COMMIT")
        assert connection.execute("PRAGMA freelist_count").fetchone() == (0,)
    assert steps < 4


def test_the_file_is_never_much_larger_than_its_limit(path: Path) -> None:
    async def scenario(store: SqliteStore) -> None:
        for number in range(300):
            await store.put(f"{number}", bytes(number * 40), **TTL)

    run_with_store(path, scenario, max_bytes=1024 * 1024)
    assert path.stat().st_size <= 1024 * 1024 + 20_000


def test_a_use_is_written_without_a_write_of_the_reader(path: Path) -> None:
    filled(path, 2)
    before = uses(path)

    async def scenario(store: SqliteStore) -> None:
        for _ in range(50):
            assert await store.get("1")
        assert uses(path) == before

    run_with_store(path, scenario)
    after = uses(path)
    assert after["1"] > before["1"] and after["0"] == before["0"]


def uses(path: Path) -> dict[str, float]:
    with contextlib.closing(sqlite3.connect(path)) as connection:
        return {key.decode(): used_at for key, used_at in connection.execute("SELECT key, used_at FROM entries")}


def test_a_file_that_cannot_be_is_an_error(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "file").touch()

    async def scenario(store: SqliteStore) -> None:
        for _ in range(20):
            for operation in (store.put("key", b"1", **TTL), store.get("key"), store.delete("key"), store.stats()):
                with pytest.raises(StoreError):
                    await operation

    run_with_store(tmp_path / "file" / "cache.db", scenario)
    assert not [record.message for record in caplog.records if record.levelno >= logging.WARNING]


FULL_DISK = """
import asyncio, resource, sys
from app.stores import StoreError
from app.stores.sqlite import SqliteStore

async def main():
    store = SqliteStore(sys.argv[1])
    await store.put("before", b"1", ttl_seconds=60, model="m")
    # No file of this process may grow past this: to SQLite it is a full disk.
    resource.setrlimit(resource.RLIMIT_FSIZE, (400_000, 400_000))
    stored = []
    for number in range(20):
        try:
            await store.put(f"{number}", bytes(100_000), ttl_seconds=60, model="m")
            stored.append(number)
        except StoreError as error:
            assert "full" in str(error)
    assert len(stored) < 10
    assert [number for number in range(20) if await store.get(f"{number}")] == stored
    assert (await store.get("before")).value == b"1"
    waiting = asyncio.ensure_future(store.put("large", bytes(100_000), ttl_seconds=60, model="m"))
    await asyncio.sleep(0)
    await store.aclose()
    assert "full" in str(waiting.exception())

asyncio.run(main())
"""


def test_a_full_disk_refuses_what_it_cannot_hold(path: Path) -> None:
    root = Path(__file__).parents[2]
    run = subprocess.run(
        [sys.executable, "-c", FULL_DISK, str(path)], cwd=root, capture_output=True, text=True, timeout=60
    )
    assert run.returncode == 0, run.stderr
    assert run.stderr == ""
    run_with_store(path, keeps)
    assert aside(path) == []


def test_what_too_many_wait_for_is_refused(path: Path) -> None:
    async def scenario(store: SqliteStore) -> None:
        await keeps(store)
        with held(path):
            puts = [asyncio.ensure_future(store.put(f"{number}", bytes(6_000_000), **TTL)) for number in range(12)]
            with pytest.raises(StoreError, match="too many entries wait"):
                await puts[-1]
            assert [put.done() for put in puts] == [False] * 11 + [True]
        await asyncio.gather(*puts[:-1])
        assert await store.get("11") is None
        assert await store.get("10") is not None

    run_with_store(path, scenario)


@contextlib.contextmanager
def held(path: Path) -> Iterator[None]:
    """Another process writes and does not end."""
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("BEGIN IMMEDIATE")
        yield
        connection.execute("ROLLBACK")


def test_the_event_loop_waits_for_no_disk(path: Path) -> None:
    async def scenario(store: SqliteStore) -> None:
        await keeps(store)
        await store.delete("new")
        await store.stats()
        await store.purge()

    with blockbuster_ctx() as blocking:
        # The pages of a small value are in memory, or take less than a millisecond on an SSD.
        blocking.functions["os.stat"].can_block_in("app/stores/sqlite.py", "read")
        for function in ("sqlite3.Connection.execute", "sqlite3.Cursor.fetchone"):
            blocking.functions[function].can_block_in("app/stores/sqlite_schema.py", "read")
        run_with_store(path, scenario)


def test_reading_goes_on_while_another_process_writes(path: Path) -> None:
    async def scenario(store: SqliteStore) -> None:
        await keeps(store)
        with held(path):
            async with asyncio.timeout(1):
                assert await store.get("new")

    run_with_store(path, scenario)


def test_a_writer_that_is_killed_at_any_moment_leaves_a_sound_file(tmp_path: Path) -> None:
    rounds = os.environ.get("KILL_ROUNDS", "50")
    command = [sys.executable, "-W", "error", "-m", "tests.cache.crashing_writers", str(tmp_path), rounds]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    assert run.stdout.startswith(f"{rounds} rounds")
