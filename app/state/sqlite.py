"""The state in an SQLite file, to which several processes of one machine may write, or in memory.

A damaged file is never replaced. A transaction is on the disk when the process is killed; a power failure may undo the
last ones (https://www.sqlite.org/pragma.html#pragma_synchronous, NORMAL).
"""

import contextlib
import os
import sqlite3
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Literal

from app.state.base import Row, StateError, Statements, ValueRefused
from app.state.migrations import READ_VERSION, VERSION, check_version, migrate

_APPLICATION_ID = 0x5061726D
"""The application_id of Parley's state. A database of another program is not touched."""
_BUSY_SECONDS = 5.0


class _SqliteStatements:
    lock_rows = ""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def execute(self, text: str, values: Row = ()) -> list[Row]:
        try:
            return self._connection.execute(text, values).fetchall()
        except (OverflowError, UnicodeEncodeError, sqlite3.DataError, sqlite3.IntegrityError) as error:
            raise ValueRefused(str(error)) from error

    def execute_many(self, text: str, rows: Sequence[Row]) -> None:
        try:
            self._connection.executemany(text, rows)
        except (OverflowError, UnicodeEncodeError, sqlite3.DataError, sqlite3.IntegrityError) as error:
            raise ValueRefused(str(error)) from error


class SqliteDatabase:
    """One connection, which threads use in turns."""

    kind: Literal["sqlite"] = "sqlite"

    def __init__(self, path: str) -> None:
        """An empty path means memory."""
        self._path = path
        self._lock = threading.RLock()
        self._connection: sqlite3.Connection | None = None
        self._can_write = True
        """Whether the file could be written when the connection was opened."""

    @property
    def name(self) -> str:
        return self._path or "memory"

    @contextlib.contextmanager
    def transaction(self) -> Iterator[Statements]:
        with self._use(current=True) as connection:
            connection.execute("BEGIN IMMEDIATE")
            with _committed(connection):
                yield _SqliteStatements(connection)

    @contextlib.contextmanager
    def snapshot(self) -> Iterator[Statements]:
        with self._use(current=True) as connection:
            connection.execute("BEGIN")
            with _committed(connection):
                yield _SqliteStatements(connection)

    def migrate(self, to: int | None = None) -> list[str]:
        with self._use(current=False) as connection:
            return _migrate(connection, to)

    def version(self) -> int:
        with self._use(current=False) as connection:
            return _read_version(connection)

    def empty_log(self) -> bool:
        with self._use(current=True) as connection:
            return empty_wal(connection, _BUSY_SECONDS)

    def close(self) -> None:
        with self._lock:
            connection, self._connection = self._connection, None
            if connection is not None:
                with contextlib.suppress(sqlite3.Error):
                    connection.close()

    @contextlib.contextmanager
    def _use(self, *, current: bool) -> Iterator[sqlite3.Connection]:
        """Yield the connection; with `current`, its tables have the newest version. Raises StateError.

        SQLite opens a file that cannot be written for reading, such as one of a file system that has turned read-only.
        That connection is used once: later it would refuse writes although the file can be written again, and meanwhile
        it would keep the file system from being unmounted for a repair.
        """
        with self._lock:
            try:
                if self._connection is None:
                    self._connection = _open(self._path)
                    self._can_write = not self._path or os.access(self._path, os.W_OK, effective_ids=True)
                    if current:
                        _migrate_if_old(self._connection)
                yield self._connection
            except (sqlite3.Error, OSError) as error:
                if self._path:
                    self.close()
                raise StateError(f"{self.name}: {error}") from error
            except StateError as error:
                self.close()
                raise StateError(f"{self.name}: {error}") from error
            finally:
                if self._path and not (current and self._can_write):
                    self.close()  # the next transaction looks at the version again


@contextlib.contextmanager
def _committed(connection: sqlite3.Connection) -> Iterator[None]:
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def _open(path: str) -> sqlite3.Connection:
    if path:
        Path(path).parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with contextlib.suppress(FileExistsError):
            os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    connection = sqlite3.connect(
        path or ":memory:", timeout=_BUSY_SECONDS, isolation_level=None, check_same_thread=False
    )
    try:
        _prepare(connection)
    except BaseException:
        connection.close()
        raise
    return connection


def _prepare(connection: sqlite3.Connection) -> None:
    ((tables,),) = connection.execute("SELECT count(*) FROM sqlite_master").fetchall()
    ((owner,),) = connection.execute("PRAGMA application_id").fetchall()
    if tables and owner != _APPLICATION_ID:
        raise StateError("is a database of another program; name another file in state.url or usage.url")
    if not tables:
        _switch_to_wal(connection)
        connection.execute(f"PRAGMA application_id = {_APPLICATION_ID}")
    connection.execute("PRAGMA synchronous = NORMAL")
    connection.execute("PRAGMA secure_delete = ON")  # what is deleted is overwritten


def _read_version(connection: sqlite3.Connection) -> int:
    names = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    if "state_versions" not in names:
        return 0
    ((found,),) = connection.execute(READ_VERSION).fetchall()
    return int(found)


def _migrate_if_old(connection: sqlite3.Connection) -> None:
    found = _read_version(connection)
    check_version(found)
    if found < VERSION:
        _migrate(connection, None)


def _migrate(connection: sqlite3.Connection, to: int | None) -> list[str]:
    connection.execute("BEGIN IMMEDIATE")  # other processes wait
    with _committed(connection):
        return migrate(_SqliteStatements(connection), "sqlite", time.time(), to)


def empty_wal(connection: sqlite3.Connection, busy_seconds: float) -> bool:
    """Write the log of a database into its file, and truncate it. False: another connection uses it now, for which this
    does not wait."""
    connection.execute("PRAGMA busy_timeout = 0")
    try:
        ((busy, _, _),) = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    except sqlite3.OperationalError as error:
        if error.sqlite_errorcode & 0xFF not in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
            raise
        return False
    finally:
        connection.execute(f"PRAGMA busy_timeout = {round(busy_seconds * 1000)}")
    return not busy


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
