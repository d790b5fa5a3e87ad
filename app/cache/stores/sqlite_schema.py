"""The tables of the SQLite store, and every statement on them.

What is looked up stands apart from the values, so that noting a use or counting rewrites and reads no value.
"""

import sqlite3
from collections.abc import Iterable
from typing import NamedTuple

from app.cache.stores.base import EntryTotals, StoredValue, StoreStats, sum_stats

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
_ROW_BYTES = 256
"""About what an entry takes beside its value."""
_BATCH = 500
_SLACK = 50
"""Making room makes a fiftieth more of it, so that not every entry has to."""


class CorruptRow(sqlite3.DatabaseError):
    """What the file holds is no cache, or not of this version."""


class FoundRow(NamedTuple):
    id: int
    stored: StoredValue


class StoredRow(NamedTuple):
    key: bytes
    model: bytes
    value: bytes
    stored_at: float
    expires_at: float


def read(connection: sqlite3.Connection, key: bytes, now: float) -> FoundRow | None:
    query = "SELECT id, value, stored_at FROM entries JOIN contents USING (id) WHERE key = ? AND expires_at > ?"
    row = connection.execute(query, (key, now)).fetchone()
    if row is None:
        return None
    entry, value, stored_at = row
    if not isinstance(value, bytes) or not isinstance(stored_at, float):
        raise CorruptRow("a row is none of ours")
    return FoundRow(entry, StoredValue(value, stored_at))


def write(connection: sqlite3.Connection, row: StoredRow, max_bytes: int) -> None:
    delete(connection, row.key)
    into = "INSERT INTO entries (key, model, size, stored_at, expires_at, used_at) VALUES (?, ?, ?, ?, ?, ?)"
    fields = (row.key, row.model, len(row.value), row.stored_at, row.expires_at, row.stored_at)
    entry = connection.execute(into, fields).lastrowid
    connection.execute("INSERT INTO contents (id, value) VALUES (?, ?)", (entry, row.value))
    _make_room(connection, max_bytes)


def delete(connection: sqlite3.Connection, key: bytes) -> None:
    connection.execute("DELETE FROM entries WHERE key = ?", (key,))


def touch(connection: sqlite3.Connection, uses: Iterable[tuple[float, int]]) -> None:
    """`uses` are (when, id)."""
    connection.executemany("UPDATE entries SET used_at = ?1 WHERE id = ?2 AND used_at < ?1", uses)


def forget_expired(connection: sqlite3.Connection, now: float) -> None:
    """Some of it: the rest another time."""
    some = "SELECT id FROM entries WHERE expires_at <= ? ORDER BY expires_at LIMIT ?"
    connection.execute(f"DELETE FROM entries WHERE id IN ({some})", (now, _BATCH))


def last_id(connection: sqlite3.Connection) -> int:
    (found,) = connection.execute("SELECT coalesce(max(id), 0) FROM entries").fetchone()
    return int(found)


def purge_some(connection: sqlite3.Connection, model: bytes | None, until_id: int) -> int:
    """How many went; to be called until none does."""
    some = "SELECT id FROM entries WHERE id <= ?1 AND (?2 IS NULL OR model = ?2) LIMIT ?3"
    return connection.execute(f"DELETE FROM entries WHERE id IN ({some})", (until_id, model, _BATCH)).rowcount


def shrink_some(connection: sqlite3.Connection) -> bool:
    """Gives unused pages back to the disk; whether more are left."""
    before = _pragma(connection, "freelist_count")
    connection.execute(f"PRAGMA incremental_vacuum({_BATCH})").fetchall()
    return 0 < _pragma(connection, "freelist_count") < before


def count(connection: sqlite3.Connection, now: float) -> StoreStats:
    query = "SELECT model, count(*), sum(size) FROM entries WHERE expires_at > ? GROUP BY model"
    rows = connection.execute(query, (now,)).fetchall()
    return sum_stats(
        {bytes(model).decode("utf-8", "replace"): EntryTotals(entries, size) for model, entries, size in rows}
    )


def _make_room(connection: sqlite3.Connection, max_bytes: int) -> None:
    """Deletes what was longest unused until the pages in use are few enough."""
    while (excess := _used_bytes(connection) - max_bytes) > 0:
        oldest = connection.execute("SELECT id, size FROM entries ORDER BY used_at LIMIT ?", (_BATCH,)).fetchall()
        if not oldest:
            return
        gone, freed = 0, 0
        while gone < len(oldest) and freed < excess + max_bytes // _SLACK:
            freed += oldest[gone][1] + _ROW_BYTES
            gone += 1
        connection.executemany("DELETE FROM entries WHERE id = ?", [(entry,) for entry, _ in oldest[:gone]])


def _used_bytes(connection: sqlite3.Connection) -> int:
    pages = _pragma(connection, "page_count") - _pragma(connection, "freelist_count")
    return pages * _pragma(connection, "page_size")


def _pragma(connection: sqlite3.Connection, name: str) -> int:
    (found,) = connection.execute(f"PRAGMA {name}").fetchone()
    return int(found)
