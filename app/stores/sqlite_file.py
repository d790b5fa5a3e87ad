"""Open or create the file of the SQLite store, and move it aside when it is damaged.

Several processes may have it open. A process that opens it or moves it aside holds a lock file, and moves only the
very file that was found damaged, because another process may have created a new one in its place. A process whose file
was moved away notices before its next operation and opens the new one. SQLite does not touch `-wal` and `-shm` when
a connection is closed whose file was moved.
"""

import contextlib
import fcntl
import glob
import logging
import os
import sqlite3
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeAlias, TypeVar

from app.state.sqlite import empty_wal
from app.stores.base import StoreError
from app.stores.sqlite_schema import SCHEMA, VERSION, CorruptRow

T = TypeVar("T")
_FileId: TypeAlias = tuple[int, int]

_APPLICATION_ID = 0x5061726C
"""The application_id of a Parley cache. A database of another program is not touched."""
_BUSY_SECONDS = 2.0
_REST_SECONDS = 2.0
"""The pause before a file that could not be opened is tried again."""
_KEPT_ASIDE = 2
_LOG = logging.getLogger("parley.cache")


class SqliteDatabase:
    """A connection for one thread, opened with the first use."""

    def __init__(self, path: str, *, erases: bool = False) -> None:
        """`erases`: what is deleted is overwritten."""
        self._erases = erases
        self._path = Path(path)
        self._connection: sqlite3.Connection | None = None
        self._id: _FileId | None = None
        """Device and inode of the file that was opened last, or that could not be opened."""
        self._retry_at, self._last_error = 0.0, ""

    def use(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Return the result of `work`. If the file is damaged, it is called again with a new one. Raises StoreError."""
        try:
            return work(self._connect())
        except sqlite3.Error as error:
            if not _is_damage(error):
                raise self._to_store_error(error) from error
            self._set_aside(error)
        try:
            return work(self._connect())
        except sqlite3.Error as error:
            raise self._to_store_error(error) from error

    def get_open_connection(self) -> sqlite3.Connection | None:
        """Return the connection if it is open and the file is still in its place. Opens nothing, and does not wait."""
        connection = self._connection
        return connection if connection is not None and self._id == _file_id(self._path) else None

    def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with contextlib.suppress(sqlite3.Error):
                connection.close()

    def _connect(self) -> sqlite3.Connection:
        if self._connection is not None and self._id == _file_id(self._path):
            return self._connection
        self.close()
        if time.monotonic() < self._retry_at:
            raise StoreError(self._last_error)
        try:
            with _lock(self._path):
                _touch(self._path)
                self._id = _file_id(self._path)
                self._connection = _open(self._path)
                if self._erases:
                    self._connection.execute("PRAGMA secure_delete = ON")
        except (OSError, StoreError) as error:
            raise self._to_store_error(error) from error
        return self._connection

    def _to_store_error(self, error: Exception) -> StoreError:
        store_error = error if isinstance(error, StoreError) else StoreError(f"{self._path}: {error}")
        if self._connection is None:
            self._retry_at, self._last_error = time.monotonic() + _REST_SECONDS, str(store_error)
        return store_error

    def _set_aside(self, cause: sqlite3.Error) -> None:
        try:
            with _lock(self._path):
                if self._id is not None and self._id == _file_id(self._path):
                    _move(self._path, cause)
        except OSError as error:
            raise self._to_store_error(error) from error
        finally:
            # Only after the move: before it, closing would make SQLite delete the -wal and -shm files.
            self.close()


def empty_file_log(path: str) -> bool:
    """Empty the log of changes of a file. False: it is in use now."""
    database = SqliteDatabase(path)
    try:
        return database.use(lambda connection: empty_wal(connection, _BUSY_SECONDS))
    finally:
        database.close()


def _touch(path: Path) -> None:
    """Create the file with mode 0600 if it does not exist; SQLite gives -wal and -shm the same mode."""
    with contextlib.suppress(FileExistsError):
        # Never open an existing file: closing it would drop this process's locks on it.
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))


def _open(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(path, timeout=_BUSY_SECONDS, isolation_level=None, check_same_thread=False)
    try:
        _prepare(connection, path)
    except BaseException:
        connection.close()
        raise
    return connection


def _prepare(connection: sqlite3.Connection, path: Path) -> None:
    tables = _number(connection, "SELECT count(*) FROM sqlite_master")
    owner, version = _number(connection, "PRAGMA application_id"), _number(connection, "PRAGMA user_version")
    if tables and owner != _APPLICATION_ID:
        raise StoreError(f"{path}: is a database of another program; name another file in cache.url")
    if tables and version != VERSION:
        raise CorruptRow(f"is of version {version}, not {VERSION}")
    if not tables:
        connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = NORMAL")
    connection.execute(f"PRAGMA journal_size_limit = {64 * 1024 * 1024}")
    if not tables:
        connection.executescript(
            f"BEGIN IMMEDIATE; {SCHEMA}; PRAGMA application_id = {_APPLICATION_ID}; PRAGMA user_version = {VERSION}; "
            "COMMIT"
        )


def _number(connection: sqlite3.Connection, query: str) -> int:
    (found,) = connection.execute(query).fetchone()
    return int(found)


def _is_damage(error: sqlite3.Error) -> bool:
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    return isinstance(error, CorruptRow) or code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


def _file_id(path: Path) -> _FileId | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


@contextlib.contextmanager
def _lock(path: Path) -> Iterator[None]:
    """Hold the lock file while opening or moving, in one process at a time. The lock ends with the process."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    lock = os.open(f"{path}-lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)


def _move(path: Path, cause: sqlite3.Error) -> None:
    aside = Path(f"{path}.corrupt-{int(time.time())}")
    while aside.exists():
        aside = Path(f"{aside}x")
    # The file itself goes first: SQLite deletes the -wal of a file that is new.
    for suffix in ("", "-wal", "-shm"):
        with contextlib.suppress(FileNotFoundError):
            Path(f"{path}{suffix}").rename(f"{aside}{suffix}")
    _LOG.error("the cache %s is damaged (%s): moved to %s, and a new one is created", path, cause, aside.name)
    _forget_old(path)


def _forget_old(path: Path) -> None:
    kept = [
        found
        for found in path.parent.glob(f"{glob.escape(path.name)}.corrupt-*")
        if not found.name.endswith(("-wal", "-shm"))
    ]
    for old in sorted(kept, key=lambda found: found.stat().st_mtime)[:-_KEPT_ASIDE]:
        for suffix in ("", "-wal", "-shm"):
            Path(f"{old}{suffix}").unlink(missing_ok=True)
