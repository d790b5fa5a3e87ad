"""That a key has no entry is known without a thread, and what other processes write is found all the same."""

import asyncio
import sqlite3
import sys
import threading
import time
from collections.abc import Awaitable, Callable
from contextlib import closing
from pathlib import Path

import pytest
from app.stores import UNKNOWN, StoredValue
from app.stores.base import KnownValue
from app.stores.known_keys import KeyFilter
from app.stores.sqlite import SqliteStore

from tests.cache.sqlite_files import TTL, change_elsewhere, filled, move_into_place, run_with_store

FOUND_WITHIN_SECONDS = 0.5
PURGE = "DELETE FROM entries"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "cache.db"


async def until(condition: Callable[[], bool], seconds: float = 5.0) -> float:
    """Return after how many seconds the condition was true."""
    loop = asyncio.get_running_loop()
    began = loop.time()
    while not condition():
        assert loop.time() < began + seconds
        await asyncio.sleep(0.01)
    return loop.time() - began


async def learned(store: SqliteStore) -> None:
    """The store has read which keys its file has."""
    await until(lambda: store.get_nowait("never written") is None)


def is_ready(store: SqliteStore) -> bool:
    """Whether the store knows which keys its file lacks. A small filter may wrongly contain some of these keys."""
    return any(store.get_nowait(f"never written {number}") is None for number in range(20))


async def next_turn() -> None:
    """Let the event loop take a turn. Its thread pauses, or the others would wait 5 ms for each call of SQLite."""
    asyncio.get_running_loop().call_soon(time.sleep, 0.0001)
    await asyncio.sleep(0)


@pytest.fixture
def small_filter(monkeypatch: pytest.MonkeyPatch) -> None:
    """128 keys fill the filter of an empty file."""
    monkeypatch.setattr("app.stores.known_keys._LEAST_BITS", 1 << 10)


def test_a_key_without_an_entry_is_known_without_asking_the_reader(path: Path) -> None:
    filled(path, 1200, 10)

    async def scenario(store: SqliteStore) -> None:
        await learned(store)
        assert store.get_nowait("1199") is UNKNOWN
        assert await store.get("1199") is not None
        unknown = [number for number in range(2000, 3000) if store.get_nowait(f"{number}") is UNKNOWN]
        assert len(unknown) < 50

    run_with_store(path, scenario)


def test_what_was_put_is_found_at_once_and_after_it_was_written(path: Path) -> None:
    async def scenario(store: SqliteStore) -> None:
        await learned(store)
        assert store.put_nowait("key", b"1", **TTL)
        found = store.get_nowait("key")
        assert isinstance(found, StoredValue) and found.value == b"1"
        assert await store.get("key") == found
        await until(lambda: store.get_nowait("key") is UNKNOWN)
        assert await store.get("key") == found

    run_with_store(path, scenario)


def test_a_key_without_an_entry_is_known_after_a_pause(path: Path) -> None:
    """Although this process has changed the file before the pause, and the check before it is old."""

    async def scenario(store: SqliteStore) -> None:
        await learned(store)
        await store.put("key", b"1", **TTL)
        await asyncio.sleep(FOUND_WITHIN_SECONDS)
        assert store.get_nowait("never written") is None
        assert store.get_nowait("key") is UNKNOWN

    run_with_store(path, scenario)


OTHER_PROCESS = """
import asyncio, sys
from app.stores import open_store

async def main():
    store = open_store("sqlite:///" + sys.argv[1])
    store.put_nowait(sys.argv[2], b"theirs", ttl_seconds=60, model="m")
    await store.aclose()

asyncio.run(main())
"""


async def put_elsewhere(path: Path, key: str) -> None:
    command = [sys.executable, "-c", OTHER_PROCESS, str(path), key]
    process = await asyncio.create_subprocess_exec(*command, cwd=Path(__file__).parents[2])
    assert await process.wait() == 0


def test_an_entry_of_another_process_is_found_while_requests_come(path: Path) -> None:
    async def scenario(store: SqliteStore) -> None:
        await learned(store)
        assert store.get_nowait("theirs") is None
        await put_elsewhere(path, "theirs")
        assert await until(lambda: store.get_nowait("theirs") is UNKNOWN) < FOUND_WITHIN_SECONDS
        found = await store.get("theirs")
        assert found is not None and found.value == b"theirs"

    run_with_store(path, scenario)


def test_an_entry_of_another_process_is_found_by_the_first_request_after_a_pause(path: Path) -> None:
    async def scenario(store: SqliteStore) -> None:
        await learned(store)
        await put_elsewhere(path, "theirs")
        await asyncio.sleep(FOUND_WITHIN_SECONDS)
        assert store.get_nowait("theirs") is UNKNOWN
        assert await store.get("theirs") is not None

    run_with_store(path, scenario)


def test_entries_that_follow_a_purge_are_found(path: Path) -> None:
    filled(path, 50, 10)

    async def scenario(store: SqliteStore) -> None:
        await learned(store)
        await asyncio.to_thread(change_elsewhere, path, PURGE)
        for number in range(3):
            await put_elsewhere(path, f"new {number}")
        await until(lambda: all(store.get_nowait(f"new {number}") is UNKNOWN for number in range(3)))

    run_with_store(path, scenario)


def test_ids_only_grow_even_if_the_last_rows_were_deleted(path: Path) -> None:
    filled(path, 3, 10)
    before = ids(path)
    change_elsewhere(path, PURGE)
    filled(path, 3, 10)
    assert min(ids(path)) > max(before)


def ids(path: Path) -> list[int]:
    with closing(sqlite3.connect(path)) as connection:
        return [id_ for (id_,) in connection.execute("SELECT id FROM entries")]


def test_a_file_in_the_place_of_another_is_read_from_its_start(path: Path) -> None:
    filled(path, 50, 10)
    other = path.with_name("other.db")
    filled(other, 1, 10)

    async def scenario(store: SqliteStore) -> None:
        await learned(store)
        move_into_place(other, path)
        await put_elsewhere(path, "theirs")
        await until(lambda: store.get_nowait("theirs") is UNKNOWN and store.get_nowait("40") is None)

    run_with_store(path, scenario)


def test_everything_that_waits_is_one_transaction(path: Path) -> None:
    async def scenario(store: SqliteStore) -> None:
        await learned(store)
        with closing(sqlite3.connect(path)) as connection:
            before = version(connection)
            written = 0
            for number in range(300):
                store.put_nowait(f"{number}", b"value", **TTL)
                await asyncio.sleep(0)
            assert version(connection) == before
            while (await store.stats()).entries < 300:
                written += 1
            assert written == 0
            assert connection.execute("SELECT count(*) FROM entries").fetchone() == (300,)

    run_with_store(path, scenario)


def version(connection: sqlite3.Connection) -> int:
    (found,) = connection.execute("PRAGMA data_version").fetchone()
    return int(found)


def waiting(action: Callable[[SqliteStore], Awaitable[None]]) -> Callable[[SqliteStore], Awaitable[None]]:
    async def scenario(store: SqliteStore) -> None:
        await learned(store)
        for number in range(5):
            store.put_nowait(f"{number}", b"value", ttl_seconds=60, model=f"m{number % 2}")
        await action(store)

    return scenario


def test_a_purge_deletes_what_waits_to_be_written(path: Path) -> None:
    @waiting
    async def scenario(store: SqliteStore) -> None:
        assert await store.purge("m0") == 3
        assert store.get_nowait("0") is not None  # the file may have held it
        assert await store.get("0") is None
        assert await store.get("1") is not None
        assert await store.purge() == 2
        assert (await store.stats()).entries == 0

    run_with_store(path, scenario)


def test_stats_count_what_waits_to_be_written(path: Path) -> None:
    @waiting
    async def scenario(store: SqliteStore) -> None:
        assert {model: row.entries for model, row in (await store.stats()).by_model.items()} == {"m0": 3, "m1": 2}

    run_with_store(path, scenario)


def test_what_waits_is_deleted_and_replaced(path: Path) -> None:
    @waiting
    async def scenario(store: SqliteStore) -> None:
        await store.delete("0")
        store.put_nowait("1", b"newer", **TTL)
        assert (await store.stats()).entries == 4
        assert await store.get("0") is None
        found = await store.get("1")
        assert found is not None and found.value == b"newer"

    run_with_store(path, scenario)


def test_what_waits_is_written_when_the_store_is_closed(path: Path) -> None:
    @waiting
    async def scenario(store: SqliteStore) -> None:
        pass

    run_with_store(path, scenario)
    assert len(ids(path)) == 5


def test_a_lot_that_waits_is_written_at_once(path: Path) -> None:
    async def scenario(store: SqliteStore) -> None:
        await learned(store)
        for number in range(3):
            store.put_nowait(f"{number}", bytes(2_200_000), **TTL)
        assert store._linger_timer is not None and list(store._lingering) == ["2"]

    run_with_store(path, scenario)


def test_rows_that_cannot_be_written_are_given_up_and_reported(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(store: SqliteStore) -> None:
        store.put_nowait("key", b"1", **TTL)
        await until(lambda: store.get_nowait("key") is UNKNOWN)
        assert store._unwritten_bytes == 0

    (path.parent / "file").touch()
    run_with_store(path.parent / "file" / "cache.db", scenario)
    assert "a reply was not cached" in caplog.text


def test_a_filter_holds_every_key_and_few_others() -> None:
    keys = [f"{number:064x}".encode() for number in range(200_000)]
    known = KeyFilter()
    known.update(keys[:100_000])
    was_full = known.full
    assert all(key in known for key in keys[:100_000])
    assert sum(key in known for key in keys[100_000:]) < 15_000
    known.update(keys[100_000:])
    assert (was_full, known.full) == (False, True)
    larger = KeyFilter(known.count)
    larger.update(keys)
    assert not larger.full


def filter_bits(store: SqliteStore) -> int:
    return 8 * len(store._known_keys._growing._bits)


@pytest.mark.usefixtures("small_filter")
def test_the_size_of_the_filter_depends_on_the_rows_of_the_file_not_on_all_that_were_ever_written(path: Path) -> None:
    sizes = []

    async def scenario(store: SqliteStore) -> None:
        for some in range(40):
            for number in range(300):
                store.put_nowait(f"{some} {number}", b"value", **TTL)
            await store.stats()  # they are written
            await store.purge()
            await until(lambda: is_ready(store))
            sizes.append(filter_bits(store))

    run_with_store(path, scenario)
    assert max(sizes) <= 1 << 14


@pytest.mark.usefixtures("small_filter")
def test_the_filter_has_room_for_all_rows_of_the_file(path: Path) -> None:
    filled(path, 2000, 10)

    async def scenario(store: SqliteStore) -> None:
        await until(lambda: is_ready(store))
        assert all(store.get_nowait(f"{number}") is UNKNOWN for number in range(2000))
        assert sum(store.get_nowait(f"{number}") is UNKNOWN for number in range(2000, 4000)) < 400

    run_with_store(path, scenario)


@pytest.mark.interpreted
def test_a_look_up_that_a_commit_overtakes_is_repeated(path: Path) -> None:
    """The reader has looked, then the row is committed and forgotten here, and only then is the answer heard."""

    async def scenario(store: SqliteStore) -> None:
        await learned(store)
        submit, first = store._reader.submit, True

        def late(look_up: Callable[[sqlite3.Connection], object]) -> asyncio.Future[object]:
            nonlocal first
            answer: asyncio.Future[object] = submit(look_up)
            if not first:
                return answer
            first = False

            async def hold() -> object:
                found = await answer
                await store.put("key", b"value", **TTL)
                return found

            return asyncio.ensure_future(hold())

        store._reader.submit = late  # type: ignore[method-assign, assignment]
        found = await store.get("key")
        assert found is not None and found.value == b"value"
        assert not first

    run_with_store(path, scenario)


@pytest.mark.usefixtures("small_filter")
def test_rows_that_are_committed_after_the_filter_was_made_anew_are_found(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are put before the filter is made anew, and are not yet in the file when it is read for that."""
    monkeypatch.setattr("app.stores.sqlite.LINGER_SECONDS", 60.0)
    keys = [f"new {number}" for number in range(20)]

    async def scenario(store: SqliteStore) -> None:
        await until(lambda: is_ready(store))
        puts = [asyncio.ensure_future(store.put(f"{number}", b"value", **TTL)) for number in range(200)]
        await asyncio.sleep(0)  # the writer has these rows
        for key in keys:
            store.put_nowait(key, b"value", **TTL)
        async with asyncio.timeout(10):
            while is_ready(store):
                await next_turn()
            while not is_ready(store):
                await next_turn()
            assert all(isinstance(store.get_nowait(key), StoredValue) for key in keys)
            puts.append(asyncio.ensure_future(store.put("last", b"value", **TTL)))  # the others are written with it
            while any(store.get_nowait(key) is not UNKNOWN for key in keys):
                assert None not in [store.get_nowait(key) for key in keys]
                await next_turn()
        await asyncio.gather(*puts)

    run_with_store(path, scenario)


@pytest.mark.interpreted
def test_a_row_that_is_committed_while_another_file_is_read_is_found(path: Path) -> None:
    """The row is committed after the reader has read the new file, and before the event loop gets what it has read."""
    filled(path, 5, 10)
    other = path.with_name("other.db")
    filled(other, 5, 10)

    async def scenario(store: SqliteStore) -> None:
        await learned(store)
        submit, submitted, committed = store._reader.submit, 0, False

        def late(op: Callable[[sqlite3.Connection], object]) -> asyncio.Future[object]:
            nonlocal submitted
            answer: asyncio.Future[object] = submit(op)
            submitted += 1
            if submitted != 2:  # the first one opens the connection that reads the version
                return answer

            async def hold() -> object:
                nonlocal committed
                found = await answer
                await store.put("key", b"value", **TTL)
                committed = True
                return found

            return asyncio.ensure_future(hold())

        move_into_place(other, path)
        store._reader.submit = late  # type: ignore[method-assign]
        answers: list[KnownValue] = []

        async def look_up() -> None:
            while True:
                found = store.get_nowait("key")
                if committed:
                    answers.append(found)
                await asyncio.sleep(0)

        looking = asyncio.ensure_future(look_up())
        await until(lambda: committed and is_ready(store))
        await store.stats()  # the reader has answered what it was asked before
        looking.cancel()
        assert UNKNOWN in answers and None not in answers

    run_with_store(path, scenario)


@pytest.mark.interpreted
@pytest.mark.parametrize("used", [False, True])
def test_the_file_is_read_once_after_a_commit(used: bool, path: Path) -> None:
    """Also after one of a row together with the use of another."""
    filled(path, 1, 10)

    async def scenario(store: SqliteStore) -> None:
        await learned(store)
        if used:
            assert await store.get("0") is not None
        writing, go_on = threading.Event(), threading.Event()

        def keep_waiting(_: sqlite3.Connection) -> None:
            writing.set()
            go_on.wait(5)

        store._writer.submit(keep_waiting)
        await until(writing.is_set)
        await store.stats()  # the reader has answered what it was asked before
        submit, submitted = store._reader.submit, 0

        def count(op: Callable[[sqlite3.Connection], object]) -> asyncio.Future[object]:
            nonlocal submitted
            submitted += 1
            return submit(op)

        store._reader.submit = count  # type: ignore[method-assign]
        put = asyncio.ensure_future(store.put("new", b"value", **TTL))
        await asyncio.sleep(0)
        assert store._writer.waiting == 1 + used  # they are one transaction
        go_on.set()
        await put
        await store.stats()  # likewise
        assert submitted == 2  # with `stats`

    run_with_store(path, scenario)
