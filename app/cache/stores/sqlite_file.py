"""The file of the SQLite store: opened, made, and moved aside when it is damaged.

Several processes may have it open. Whoever opens it or moves it aside holds a lock beside it, and moves only the very
file that was found damaged: another process may have put a new one in its place. A process whose file was moved away
notices before its next operation and opens the new one. SQLite itself leaves `-wal` and `-shm` alone when a connection
is closed that has lost its file.
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

from app.cache.stores.base import StoreError
from app.cache.stores.sqlite_schema import SCHEMA, VERSION, CorruptRow

T = TypeVar("T")
_FileId: TypeAlias = tuple[int, int]

_APPLICATION_ID = 0x5061726C
"""SQLite's application_id of a cache: a database of another program is left alone."""
_BUSY_SECONDS = 2.0
_REST_SECONDS = 2.0
"""After the file could not be opened, until it is tried again."""
_KEPT_ASIDE = 2
_LOG = logging.getLogger("parley.cache")


class SqliteDatabase:
    """A connection for one thread; opened with the first use."""

    def __init__(self, path: str) -> None:
        self._path = Path(path)
        self._connection: sqlite3.Connection | None = None
        self._id: _FileId | None = None
        """Of the file that was opened last, or that could not be."""
        self._retry_at, self._last_error = 0.0, ""

    def use(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """What `work` returns; it may be called again, with a new file. Raises StoreError."""
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
        except (OSError, StoreError) as error:
            raise self._to_store_error(error) from error
        return self._connection

    def _to_store_error(self, error: Exception) -> StoreError:
        trouble = error if isinstance(error, StoreError) else StoreError(f"{self._path}: {error}")
        if self._connection is None:
            self._retry_at, self._last_error = time.monotonic() + _REST_SECONDS, str(trouble)
        return trouble

    def _set_aside(self, cause: sqlite3.Error) -> None:
        try:
            with _lock(self._path):
                if self._id is not None and self._id == _file_id(self._path):
                    _move(self._path, cause)
        except OSError as error:
            raise self._to_store_error(error) from error
        finally:
            # Not before it was moved: SQLite would tidy up after a file that is nobody's any more.
            self.close()


def _touch(path: Path) -> None:
    """Makes the file, for its owner alone, where there is none; SQLite gives what stands beside it the same mode."""
    with contextlib.suppress(FileExistsError):
        # Never open a file that is there: closing it would drop this process's locks on it.
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
        raise StoreError(f"{path}: is a database of another program")
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
    """Held for the time of opening and moving, by one connection of all processes. It goes with the process."""
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
    # First the file itself: SQLite throws away what stands beside a file that is new.
    for suffix in ("", "-wal", "-shm"):
        with contextlib.suppress(FileNotFoundError):
            Path(f"{path}{suffix}").rename(f"{aside}{suffix}")
    _LOG.error("the cache %s is damaged (%s): moved to %s, and a new one is begun", path, cause, aside.name)
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
