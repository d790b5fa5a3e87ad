"""Totals of usage in a SQLite file, to which several processes of one machine may write, or in memory."""

import contextlib
import os
import sqlite3
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from app.usage.stores.base import UsageRowError, UsageStoreError, add_sql, add_values, read_sql, table_sql, to_row
from app.usage.totals import UsageQuery, UsageRow

_APPLICATION_ID = 0x5061726D
"""The application_id of Parley's usage database. A database of another program is not touched."""
_BUSY_SECONDS = 5.0
_ADD = add_sql("?")


class SqliteUsageStore:
    """A connection that is opened with the first use. Unlike the cache, a damaged file is never replaced."""

    def __init__(self, path: str) -> None:
        """An empty path means memory."""
        self._path = path
        self._connection: sqlite3.Connection | None = None

    def add(self, rows: Sequence[UsageRow]) -> None:
        with self._transaction() as connection:
            try:
                connection.executemany(_ADD, add_values(rows))
            except (OverflowError, UnicodeEncodeError, sqlite3.DataError, sqlite3.IntegrityError) as error:
                raise UsageRowError(str(error)) from error

    def read(self, query: UsageQuery, most: int) -> list[UsageRow]:
        text, values = read_sql(query, "?", most)
        with self._transaction() as connection:
            return [to_row(found) for found in connection.execute(text, values)]

    def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with contextlib.suppress(sqlite3.Error):
                connection.close()

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        try:
            if self._connection is None:
                self._connection = _open(self._path)
            with self._connection:
                yield self._connection
        except (sqlite3.Error, OSError) as error:
            if self._path:
                self.close()
            raise UsageStoreError(f"{self._path or 'memory'}: {error}") from error


def _open(path: str) -> sqlite3.Connection:
    if path:
        Path(path).parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with contextlib.suppress(FileExistsError):
            os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    connection = sqlite3.connect(path or ":memory:", timeout=_BUSY_SECONDS, check_same_thread=False)
    try:
        _prepare(connection, path)
    except BaseException:
        connection.close()
        raise
    return connection


def _prepare(connection: sqlite3.Connection, path: str) -> None:
    (tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    (owner,) = connection.execute("PRAGMA application_id").fetchone()
    if tables and owner != _APPLICATION_ID:
        raise UsageStoreError(f"{path}: is a database of another program; name another file in usage.url")
    if not tables:
        _switch_to_wal(connection)
        connection.execute(f"PRAGMA application_id = {_APPLICATION_ID}")
    connection.execute("PRAGMA synchronous = NORMAL")
    connection.execute(table_sql("REAL"))


def _switch_to_wal(connection: sqlite3.Connection) -> None:
    """Switch the file to a write-ahead log. SQLite does not wait here while another process opens the same new file
    (https://www.sqlite.org/c3ref/busy_handler.html, deadlocks), so this does."""
    end = time.monotonic() + _BUSY_SECONDS
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_BUSY or time.monotonic() > end:
                raise
            time.sleep(0.01)
