"""The store in the state database, and the one that took the place of an older store."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from app.redis.urls import SqliteUrl
from app.state import Database, StateError, open_database
from app.state.sqlite import SqliteDatabase
from app.state.urls import FileUrl, parse_state_url
from app.stores import NotKept, StateStore, StoreError, StoreLimits, open_state_store
from app.stores.database import DatabaseStore
from app.stores.eraser import Eraser
from app.stores.memory import MemoryStore
from app.stores.succeeding import SucceedingStore

from tests.state.databases import KINDS, make_address

TTL: dict[str, Any] = {"ttl_seconds": 60.0, "model": "m\x00\ud800"}


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture(params=KINDS)
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Database:
    return open_database(make_address(request.param, tmp_path))


def run(database: Database, scenario: Callable[[DatabaseStore, Clock], Awaitable[None]]) -> None:
    async def use() -> None:
        clock = Clock()
        store = DatabaseStore(database, StoreLimits(clock=clock, max_entry_bytes=100))
        await scenario(store, clock)
        await store.aclose()
        with pytest.raises(StoreError, match="closed"):
            await store.get("key")

    asyncio.run(use())
    database.close()


def test_a_value_is_kept_until_it_expires_or_is_deleted(database: Database) -> None:
    async def scenario(store: DatabaseStore, clock: Clock) -> None:
        assert await store.get("key") is None
        await asyncio.gather(*(store.put(f"key{number}", b"\x00\xff", **TTL) for number in range(50)))
        await store.put("key1", b"later", **TTL)
        found = await store.get("key1")
        assert found is not None and found == (b"later", 1000.0)
        await store.delete("key2")
        assert await store.get("key2") is None
        with pytest.raises(NotKept):
            await store.put("key3", bytes(101), **TTL)
        clock.now += 60
        assert await store.get("key1") is None
        await store.put("new", b"", **TTL)
        with database.transaction() as statements:
            assert statements.execute('SELECT "key" FROM kept_values') == [("new",)]

    run(database, scenario)


def test_one_value_that_cannot_be_held_does_not_take_others_with_it(database: Database) -> None:
    async def scenario(store: DatabaseStore, clock: Clock) -> None:
        keys = ("a", "\ud800", "b")
        puts = [store.put(key, b"1", **TTL) for key in keys]
        results = await asyncio.gather(*puts, return_exceptions=True)
        assert [type(result) for result in results] == [type(None), StoreError, type(None)]
        assert [await store.get(key) is not None for key in ("a", "b")] == [True, True]

    run(database, scenario)


def test_a_database_that_fails_is_never_an_absence(tmp_path: Path) -> None:
    class AwayDatabase:
        def transaction(self) -> Any:
            raise StateError("the disk is full")

    async def scenario() -> None:
        store = DatabaseStore(AwayDatabase())  # type: ignore[arg-type]  # only what a store uses
        for operation in (store.get("key"), store.put("key", b"", **TTL), store.delete("key")):
            with pytest.raises(StoreError, match="disk is full"):
                await operation
        await store.aclose()

    asyncio.run(scenario())


def test_what_the_older_store_has_is_read_and_deleted() -> None:
    async def scenario() -> None:
        new, old = MemoryStore(), MemoryStore()
        store = SucceedingStore(new, old)
        await old.put("old", b"1", **TTL)
        await store.put("new", b"2", **TTL)
        assert [(await store.get(key) or b"")[0] for key in ("old", "new")] == [b"1", b"2"]
        assert await old.get("new") is None
        for key in ("old", "new"):
            await store.delete(key)
            assert await store.get(key) is None
        await store.aclose()
        with pytest.raises(StoreError):
            await old.get("old")

    asyncio.run(scenario())


def open_file(folder: Path) -> SqliteDatabase:
    address = parse_state_url(f"sqlite:///{folder}/state.db")
    assert isinstance(address, FileUrl)
    database = open_database(address)
    assert isinstance(database, SqliteDatabase)
    return database


def find_files(folder: Path, text: bytes) -> list[str]:
    return sorted(file.name for file in folder.iterdir() if text in file.read_bytes())


def test_what_was_deleted_is_in_no_file_soon_afterwards(tmp_path: Path) -> None:
    async def scenario(make_store: Callable[[], StateStore]) -> None:
        store = make_store()
        for key in ("a", "b"):
            await store.put(key, (f"text of {key} " * 2000).encode(), ttl_seconds=60.0, model="m")
        assert find_files(tmp_path, b"text of a") and find_files(tmp_path, b"text of b")
        await store.delete("a")
        for _ in range(200):
            if not find_files(tmp_path, b"text of a"):
                break
            await asyncio.sleep(0.05)
        assert not find_files(tmp_path, b"text of a") and await store.get("b") is not None
        await store.delete("b")
        await store.aclose()

    database = open_file(tmp_path)
    asyncio.run(scenario(lambda: DatabaseStore(database)))
    database.close()
    asyncio.run(scenario(lambda: open_state_store(SqliteUrl(f"{tmp_path}/replies.db"))))


def test_a_log_that_is_in_use_is_emptied_later() -> None:
    async def scenario() -> None:
        answers: list[bool | Exception] = [False, OSError("down"), True, True]
        calls: list[bool | Exception] = []

        async def empty_log() -> bool:
            answer = answers[len(calls)]
            calls.append(answer)
            if isinstance(answer, Exception):
                raise answer
            return answer

        eraser = Eraser(empty_log, 0.001)
        eraser.note_deletion()
        eraser.note_deletion()
        while len(calls) < 3:
            await asyncio.sleep(0.001)
        await asyncio.sleep(0.02)
        assert len(calls) == 3
        eraser.note_deletion()
        await eraser.aclose()
        assert len(calls) == 3

    asyncio.run(scenario())


def test_a_log_is_not_emptied_while_another_connection_reads_it(tmp_path: Path) -> None:
    first, second = (open_file(tmp_path) for _ in range(2))
    first.migrate()
    with second.snapshot() as statements:
        statements.execute("SELECT * FROM kept_values")
        with first.transaction() as writing:
            writing.execute("INSERT INTO kept_values VALUES ('k', 'm', 'v', 1.0, 2.0)")
        assert not first.empty_log()
    assert first.empty_log()
    first.close()
    second.close()
