"""What tests of the SQLite store do with its file."""

import asyncio
import sqlite3
from collections.abc import Awaitable, Callable
from contextlib import closing
from pathlib import Path
from typing import Any

from app.stores import StoreLimits
from app.stores.sqlite import SqliteStore

TTL: dict[str, Any] = {"ttl_seconds": 60.0, "model": "m"}


def run_with_store(path: Path, scenario: Callable[[SqliteStore], Awaitable[None]], **limits: Any) -> None:
    """Tells the story of a store, which is closed after it."""

    async def run() -> None:
        store = SqliteStore(str(path), StoreLimits(**limits))
        try:
            await scenario(store)
        finally:
            await store.aclose()

    asyncio.run(run())


async def keeps(store: SqliteStore) -> None:
    await store.put("new", b"value", **TTL)
    found = await store.get("new")
    assert found and found.value == b"value"


def filled(path: Path, count: int = 200, size: int = 3000) -> None:
    async def scenario(store: SqliteStore) -> None:
        await asyncio.gather(*(store.put(f"{number}", bytes(size), **TTL) for number in range(count)))

    run_with_store(path, scenario)


def change_elsewhere(path: Path, statement: str) -> None:
    """Do what another process does, which has a connection of its own."""
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(statement)


def move_into_place(other: Path, path: Path) -> None:
    """Put another file in the place of the store's."""
    for suffix in ("-wal", "-shm"):
        path.with_name(path.name + suffix).unlink(missing_ok=True)
    other.rename(path)


def aside(path: Path) -> list[str]:
    """What was moved aside: "" for the file itself, "-wal" and "-shm" for what stood beside it."""
    return sorted(found.name.rpartition("corrupt-")[2].lstrip("0123456789") for found in path.parent.glob("*corrupt-*"))
