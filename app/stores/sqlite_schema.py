"""The tables of the SQLite store, and all statements on them.

Keys and times are in one table and values in another, so that recording a use or counting entries touches no value.
"""

import functools
import sqlite3
import time
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from app.stores.base import EntryTotals, StoredValue, StoreStats, sum_stats

VERSION = 1
SCHEMA = """
CREATE TABLE entries (
  id INTEGER PRIMARY KEY, key BLOB NOT NULL UNIQUE, model BLOB NOT NULL, size INTEGER NOT NULL,
  stored_at REAL NOT NULL, expires_at REAL NOT NULL, used_at REAL NOT NULL
);
CREATE INDEX entries_by_use ON entries (used_at);
CREATE INDEX entries_by_expiry ON entries (expires_at);
CREATE TABLE contents (id INTEGER PRIMARY KEY, value BLOB NOT NULL);
CREATE TRIGGER gone AFTER DELETE ON entries BEGIN DELETE FROM contents WHERE id = old.id; END
"""
_READ = (
    "SELECT id, size, stored_at, CASE WHEN size <= ? THEN value END FROM entries JOIN contents USING (id) "
    "WHERE key = ? AND expires_at > ?"
)
_ANY_BYTES = 2**62
ROW_BYTES = 256
"""The approximate size of an entry besides its value."""
_ENTRY = ("id", "key", "model", "size", "stored_at", "expires_at", "used_at")
_CONTENT = ("id", "value")
_MOST_ROWS = 32
"""The maximum of rows in one statement."""
_BATCH = 500
_SLACK = 50
"""Eviction frees one fiftieth of `max_bytes` more than needed, so that not every write has to evict."""


class CorruptRow(sqlite3.DatabaseError):
    """The file holds a row that is not valid, or a schema of another version."""


class FoundRow(NamedTuple):
    id: int
    stored: StoredValue | None
    """None if the value was not read."""


class StoredRow(NamedTuple):
    key: bytes
    model: bytes
    value: bytes
    stored_at: float
    expires_at: float


def read(connection: sqlite3.Connection, key: bytes, now: float, max_bytes: int = _ANY_BYTES) -> FoundRow | None:
    """Return the row of a key, without its value if that has more than `max_bytes`: these pages are then not read."""
    row = connection.execute(_READ, (max_bytes, bytearray(key), now)).fetchone()
    if row is None:
        return None
    entry, size, stored_at, value = row
    if value is None and isinstance(size, int) and size > max_bytes:
        return FoundRow(entry, None)
    if not isinstance(value, bytes) or not isinstance(stored_at, float):
        raise CorruptRow("a row has values of the wrong types")
    return FoundRow(entry, StoredValue(value, stored_at))


def write(connection: sqlite3.Connection, rows: Sequence[StoredRow], max_bytes: int) -> None:
    """Store rows with different keys. Later rows always get greater ids, in every process.

    An id is the time in microseconds, because the ids of deleted rows must not be used again: a use may be recorded
    later. One statement stores many rows, and blobs are given as `bytearray`, because for each `bytes` the sqlite3
    module searches for an adapter: both together take a third of the work away.
    """
    blocks = list(_divide(rows))
    for block in blocks:
        connection.execute(_delete_statement(len(block)), [bytearray(row.key) for row in block])
    id_ = max(last_id(connection) + 1, time.time_ns() // 1000)
    for block in blocks:
        entries: list[Any] = []
        contents: list[Any] = []
        for row in block:
            key, model = bytearray(row.key), bytearray(row.model)
            entries += (id_, key, model, len(row.value), row.stored_at, row.expires_at, row.stored_at)
            contents += (id_, bytearray(row.value))
            id_ += 1
        connection.execute(_insert_statement("entries", _ENTRY, len(block)), entries)
        connection.execute(_insert_statement("contents", _CONTENT, len(block)), contents)
    _make_room(connection, max_bytes)


def _divide(rows: Sequence[StoredRow]) -> Iterator[Sequence[StoredRow]]:
    """Yield blocks of 32 rows, and of 16, 8, 4, 2 and 1 for the rest: so there are few different statements, which all
    stay prepared."""
    start, size = 0, _MOST_ROWS
    while start < len(rows):
        while size > len(rows) - start:
            size //= 2
        yield rows[start : start + size]
        start += size


@functools.cache
def _delete_statement(rows: int) -> str:
    return f"DELETE FROM entries WHERE key IN ({', '.join('?' * rows)})"


@functools.cache
def _insert_statement(table: str, columns: tuple[str, ...], rows: int) -> str:
    row = f"({', '.join('?' * len(columns))})"
    return f"INSERT INTO {table} ({', '.join(columns)}) VALUES {', '.join([row] * rows)}"


def delete(connection: sqlite3.Connection, key: bytes) -> None:
    connection.execute("DELETE FROM entries WHERE key = ?", (key,))


def touch(connection: sqlite3.Connection, uses: Iterable[tuple[float, int]]) -> None:
    """Record uses, pairs of (time, id)."""
    connection.executemany("UPDATE entries SET used_at = ?1 WHERE id = ?2 AND used_at < ?1", uses)


def forget_expired(connection: sqlite3.Connection, now: float) -> None:
    """Delete at most _BATCH expired entries; later calls delete the rest."""
    some = "SELECT id FROM entries WHERE expires_at <= ? ORDER BY expires_at LIMIT ?"
    connection.execute(f"DELETE FROM entries WHERE id IN ({some})", (now, _BATCH))


def last_id(connection: sqlite3.Connection) -> int:
    (found,) = connection.execute("SELECT coalesce(max(id), 0) FROM entries").fetchone()
    return int(found)


def purge_some(connection: sqlite3.Connection, model: bytes | None, until_id: int) -> int:
    """Delete at most _BATCH entries and return how many; call it until it returns 0."""
    some = "SELECT id FROM entries WHERE id <= ?1 AND (?2 IS NULL OR model = ?2) LIMIT ?3"
    return connection.execute(f"DELETE FROM entries WHERE id IN ({some})", (until_id, model, _BATCH)).rowcount


def shrink_some(connection: sqlite3.Connection) -> bool:
    """Return some unused pages to the file system, and whether more are left.

    `execute` stops at the first row, and the pragma has one without columns for each page: so it is one page a call.
    `executescript` would take all of them, but commits first.
    """
    before = _pragma(connection, "freelist_count")
    for _ in range(min(before, _BATCH)):
        connection.execute("PRAGMA incremental_vacuum(1)")
    return 0 < _pragma(connection, "freelist_count") < before


def count(connection: sqlite3.Connection, now: float) -> StoreStats:
    query = "SELECT model, count(*), sum(size) FROM entries WHERE expires_at > ? GROUP BY model"
    rows = connection.execute(query, (now,)).fetchall()
    return sum_stats(
        {bytes(model).decode("utf-8", "replace"): EntryTotals(entries, size) for model, entries, size in rows}
    )


def _make_room(connection: sqlite3.Connection, max_bytes: int) -> None:
    """Evict the least recently used entries until the pages in use fit in `max_bytes`."""
    while (excess := _used_bytes(connection) - max_bytes) > 0:
        oldest = connection.execute("SELECT id, size FROM entries ORDER BY used_at LIMIT ?", (_BATCH,)).fetchall()
        if not oldest:
            return
        gone, freed = 0, 0
        while gone < len(oldest) and freed < excess + max_bytes // _SLACK:
            freed += oldest[gone][1] + ROW_BYTES
            gone += 1
        connection.executemany("DELETE FROM entries WHERE id = ?", [(entry,) for entry, _ in oldest[:gone]])


def _used_bytes(connection: sqlite3.Connection) -> int:
    pages = _pragma(connection, "page_count") - _pragma(connection, "freelist_count")
    return pages * _pragma(connection, "page_size")


def _pragma(connection: sqlite3.Connection, name: str) -> int:
    (found,) = connection.execute(f"PRAGMA {name}").fetchone()
    return int(found)
