"""Tells the event loop whether an SQLite file has changed.

SQLite's `data_version` is another number after each commit of another connection, in this process or in another one.
Reading it takes no thread: it touches no page of the file, but each time `stat` is called to notice that another file
is in its place. Together they take about ten microseconds, and longer only where `stat` has to wait, as it may on a
network file system.
"""

import asyncio
import contextlib
import sqlite3
from collections.abc import Callable
from typing import Any, NamedTuple

from app.stores import sqlite_schema
from app.stores.sqlite_file import SqliteDatabase
from app.stores.worker import SqliteWorker


class FileVersion(NamedTuple):
    """If a file has the same version twice, nothing was committed between."""

    connection: sqlite3.Connection
    number: int


class VersionReader:
    """Belongs to the event loop. Its connection is opened in the reader's thread."""

    def __init__(self, database: SqliteDatabase, reader: SqliteWorker[Callable[[sqlite3.Connection], Any]]) -> None:
        """`database` is for this object alone."""
        self._database = database
        self._reader = reader
        self._opening = False
        self._closed = False

    def close(self) -> None:
        """Use the connection no more: the reader's thread closes it."""
        self._closed = True

    def read(self) -> FileVersion | None:
        """Return the version that the file has now. None means that it is not known: before the connection is open,
        after `close`, after the file was replaced, and on any SQLite error, as when the file is locked."""
        if self._closed or self._opening:
            return None
        connection = self._database.get_open_connection()
        if connection is None:
            self._open()
            return None
        with contextlib.suppress(sqlite3.Error):
            return FileVersion(connection, sqlite_schema.data_version(connection))
        return None

    def _open(self) -> None:
        self._opening = True
        self._reader.submit(lambda _: self._database.use(_never_wait)).add_done_callback(self._on_opened)

    def _on_opened(self, opened: "asyncio.Future[Any]") -> None:
        self._opening = False
        if not opened.cancelled():
            opened.exception()  # retrieved, or asyncio would log it; the reader reports the same error


def _never_wait(connection: sqlite3.Connection) -> None:
    """The event loop must not wait for a lock: `data_version` then raises at once."""
    connection.execute("PRAGMA busy_timeout = 0")
