"""Values that were read from an SQLite file a short time ago, so that reading one again needs no other thread.

A value is returned only while the file is as it was. SQLite's `data_version` says so: it is another number after each
commit of another connection, in this process or in another one. The event loop's thread reads it, which takes about ten
microseconds: once in a turn of the loop, because all requests that are answered in that turn had arrived before it. The
connection for that is opened in the reader's thread.
"""

import asyncio
import contextlib
import sqlite3
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, NamedTuple

from app.cache.stores import sqlite_schema
from app.cache.stores.sqlite_file import SqliteDatabase
from app.cache.stores.sqlite_schema import FoundRow
from app.cache.stores.worker import SqliteWorker

MAX_VALUE_BYTES = 64 * 1024
"""A larger value is not kept."""
MAX_BYTES = 8 * 1024 * 1024
"""Of all values that are kept."""


class _FileState(NamedTuple):
    connection: sqlite3.Connection
    version: int


class RecentValues:
    """They belong to the event loop."""

    def __init__(
        self,
        database: SqliteDatabase,
        reader: SqliteWorker[Callable[[sqlite3.Connection], Any]],
        max_bytes: int = MAX_BYTES,
    ) -> None:
        """`database` is for this object alone, and is opened in the reader's thread."""
        self._database = database
        self._reader = reader
        self._max_bytes = max_bytes
        self._rows: OrderedDict[bytes, FoundRow] = OrderedDict()
        """The most recently used last."""
        self._bytes = 0
        self._state: _FileState | None = None
        """The state of the file that all rows were read from."""
        self._opening = False
        self._checked = False
        """The file was checked in this turn of the event loop, and was unchanged."""
        self.changes = 0
        """How many changes of the file were noticed."""

    def get(self, key: bytes, now: float) -> FoundRow | None:
        """Return the row of a key, if it is known to be what the file has. `now` is the Unix time."""
        row = self._rows.get(key)
        if row is None or not self._is_unchanged_this_turn():
            return None
        if row.expires_at <= now:
            self._drop(key)
            return None
        self._rows.move_to_end(key)
        return row

    def add(self, key: bytes, row: FoundRow, changes: int) -> None:
        """Keep a row for which the reader was asked when `changes` had this value. It is not kept if the file may have
        changed since then."""
        if len(row.stored.value) > MAX_VALUE_BYTES or not self._is_unchanged() or changes != self.changes:
            return
        self._drop(key)
        self._rows[key] = row
        self._bytes += len(row.stored.value)
        while self._bytes > self._max_bytes:
            self._drop(next(iter(self._rows)))

    def _drop(self, key: bytes) -> None:
        row = self._rows.pop(key, None)
        if row is not None:
            self._bytes -= len(row.stored.value)

    def _is_unchanged_this_turn(self) -> bool:
        """`_is_unchanged`, checked once in a turn of the event loop."""
        if not self._checked and self._is_unchanged():
            self._checked = True
            asyncio.get_running_loop().call_soon(self._end_turn)
        return self._checked

    def _end_turn(self) -> None:
        self._checked = False

    def _is_unchanged(self) -> bool:
        """Whether the file is as it was at the last call; if it is not, all rows are dropped."""
        state = self._read_state()
        if state is not None and state == self._state:
            return True
        self._state = state
        self._rows.clear()
        self._bytes = 0
        self.changes += 1
        return False

    def _read_state(self) -> _FileState | None:
        connection = self._database.get_open_connection()
        if connection is None:
            self._open()
            return None
        with contextlib.suppress(sqlite3.Error):
            return _FileState(connection, sqlite_schema.data_version(connection))
        return None

    def _open(self) -> None:
        if not self._opening:
            self._opening = True
            self._reader.submit(lambda _: self._database.use(_never_wait)).add_done_callback(self._on_opened)

    def _on_opened(self, opened: "asyncio.Future[Any]") -> None:
        self._opening = False
        if not opened.cancelled():
            opened.exception()  # retrieved, or asyncio would log it; the reader reports the same error


def _never_wait(connection: sqlite3.Connection) -> None:
    """The event loop must not wait for a lock: `data_version` then raises at once."""
    connection.execute("PRAGMA busy_timeout = 0")
