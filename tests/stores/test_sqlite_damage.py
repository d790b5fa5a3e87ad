"""The SQLite store's file when it is damaged, of another version or program, or moved away by another process."""

import contextlib
import os
import sqlite3
import subprocess
import threading
from pathlib import Path

import pytest
from app.stores import StoreError
from app.stores.sqlite import SqliteStore
from app.stores.sqlite_file import SqliteDatabase

from tests.cache.sqlite_files import TTL, aside, filled, keeps, run_with_store
from tests.fork_server import forked


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "cache.db"


@pytest.mark.parametrize("content", [b"this is no database" * 1000, b"SQLite format 3\x00" + bytes(8000)])
def test_a_file_that_is_no_database_is_moved_aside(
    path: Path, content: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    path.write_bytes(content)
    run_with_store(path, keeps)
    assert "" in aside(path)
    assert next(path.parent.glob("*corrupt-*")).read_bytes() == content
    assert len([record for record in caplog.records if "is damaged" in record.message]) == 1


def test_a_database_whose_pages_are_garbage_is_moved_aside_with_what_stands_beside_it(path: Path) -> None:
    filled(path)

    async def scenario(store: SqliteStore) -> None:
        assert await store.get("1")
        with path.open("r+b") as file:
            file.write(os.urandom(4096 * 20))
        # One connection still has sound pages in its memory; the other finds the damage.
        for number in range(200):
            await store.get(f"{number}")
            await store.put(f"{number}", b"value", **TTL)
        await keeps(store)

    run_with_store(path, scenario)
    assert "" in aside(path)
    with contextlib.closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]


@pytest.mark.parametrize("version", [0, 2])
def test_a_file_of_another_version_is_moved_aside(path: Path, version: int) -> None:
    filled(path, 1)
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute(f"PRAGMA user_version = {version}")
    run_with_store(path, keeps)
    assert "" in aside(path)


def test_a_database_of_another_program_is_left_alone(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE theirs (a)")
    before = path.read_bytes()

    async def scenario(store: SqliteStore) -> None:
        for operation in (store.put("key", b"1", **TTL), store.get("key"), store.delete("key"), store.purge()):
            with pytest.raises(StoreError, match="another program"):
                await operation

    run_with_store(path, scenario)
    assert path.read_bytes() == before


def test_a_row_that_is_none_of_ours_is_damage(path: Path) -> None:
    filled(path, 1)
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("UPDATE contents SET value = 1000000000")

    async def scenario(store: SqliteStore) -> None:
        assert await store.get("0") is None
        await keeps(store)

    run_with_store(path, scenario)
    assert "" in aside(path)


def test_only_the_newest_two_damaged_files_are_kept(path: Path) -> None:
    for number in range(4):
        path.write_bytes(b"%d" % number * 5000)
        os.utime(path, (number, number))
        run_with_store(path, keeps)
        path.unlink()
    kept = [found.read_bytes()[:1] for found in path.parent.glob("*corrupt-*")]
    assert sorted(kept) == [b"2", b"3"]


def test_processes_that_find_the_same_damage_at_the_same_time_lose_nothing_that_they_write(path: Path) -> None:
    path.write_bytes(b"garbage" * 5000)
    command = [*forked("tests.cache.store_writer"), f"sqlite:///{path}"]
    with contextlib.ExitStack() as stack:
        writers = [
            stack.enter_context(subprocess.Popen([*command, f"{number}", "40"], stdout=subprocess.PIPE))
            for number in range(4)
        ]
        assert [writer.communicate(timeout=60)[0] for writer in writers] == [b"40 of 40 found\n"] * 4
    assert aside(path) == [""]

    async def scenario(store: SqliteStore) -> None:
        assert (await store.stats()).entries == 170

    run_with_store(path, scenario)


def test_connections_that_find_the_same_damage_move_the_file_once(path: Path) -> None:
    path.write_bytes(b"garbage" * 5000)
    together, databases = threading.Barrier(6), [SqliteDatabase(str(path)) for _ in range(6)]

    def use(database: SqliteDatabase) -> None:
        together.wait()
        database.use(lambda connection: connection.execute("SELECT count(*) FROM entries").fetchone())

    threads = [threading.Thread(target=use, args=(database,)) for database in databases]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({database._id for database in databases}) == 1
    for database in databases:
        database.close()
    assert aside(path) == [""]


def moved_away(path: Path) -> None:
    for suffix in ("", "-wal", "-shm"):
        Path(f"{path}{suffix}").rename(f"{path}.moved{suffix}")


def test_a_file_that_another_process_moved_aside_is_left_for_the_new_one(path: Path) -> None:
    async def scenario(store: SqliteStore) -> None:
        await store.put("old", b"1", **TTL)
        assert await store.get("old")  # the file is open
        moved_away(path)
        other = SqliteStore(str(path))
        await other.put("of the other", b"2", **TTL)
        assert await store.get("old") is None
        found = await store.get("of the other")
        assert found and found.value == b"2"
        await keeps(store)
        await other.aclose()

    run_with_store(path, scenario)


def test_closing_a_file_that_was_moved_away_leaves_the_new_ones_log_alone(path: Path) -> None:
    old, new = SqliteDatabase(str(path)), SqliteDatabase(str(path))
    old.use(lambda connection: connection.execute("DELETE FROM entries"))
    path.rename(f"{path}.moved")
    Path(f"{path}-wal").unlink()
    Path(f"{path}-shm").unlink()
    new.use(lambda connection: connection.execute("DELETE FROM entries"))
    log = Path(f"{path}-wal").stat().st_ino
    old.close()
    assert Path(f"{path}-wal").stat().st_ino == log
    new.close()
