"""The file of the request log: SQLite, which the workers of one machine share.

An entry is a row that is searched, and one that is read: its figures, and its bodies in one compressed value. The long
bodies of its requests, which have the same words, are one text. Each of them is mostly a difference from a body of an
earlier text of its caller, the base: its bytes are the first ones of that, new ones, and the last ones of that. Each
text has the number of its uses, by entries and by texts, so that what no entry needs is deleted with the last entry
that does. What is deleted is overwritten.
"""

import contextlib
import errno
import os
import sqlite3
import threading
import time
from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TypeAlias

import msgspec
import zstandard
from msgspec import Struct
from msgspec.structs import replace

from app.observe.request_log.disk_reserve import DiskReserve
from app.observe.request_log.entry import Body, BodyFacts, Figures, LoggedRequest
from app.state.sqlite import empty_wal

_APPLICATION_ID = 0x5061726E
_VERSION = 3
_BUSY_SECONDS = 5.0
_WAL_SECONDS = 2.0
"""How long a deletion waits for readers, so that the log of changes can be emptied."""
DELETED_TOGETHER = 1000
_DELETED_BYTES = 16 * 1024**2
"""What is deleted is overwritten, so a transaction that deletes so many bytes takes as much place at first."""
_PAGE = 4096
_WAL_PAGES = 1000
"""The log of changes is brought into the file when it has so many pages."""
_RESERVE = 8 * 1024**2
_LACK_SPACE = (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN)
"""What SQLite answers on a full disk: the last two, where files beside the database cannot be made or grow."""
_TEXTS = zstandard.ZstdCompressionParameters(compression_level=1, window_log=21)
"""For texts. In a window of 2 MiB the words of the second body are found in the first one."""
_BODIES_LEVEL = -1
"""Short bodies take half the time of level 1, and a fifth more place; long ones the same time."""
_SCHEMA = """
CREATE TABLE entries (
    id INTEGER PRIMARY KEY AUTOINCREMENT, ended_at REAL NOT NULL, request_id TEXT NOT NULL, key TEXT NOT NULL,
    owner TEXT NOT NULL, user TEXT NOT NULL, model TEXT NOT NULL, endpoint TEXT NOT NULL, status INTEGER NOT NULL,
    error TEXT, cache TEXT NOT NULL, texts BLOB
);
CREATE TABLE contents (id INTEGER PRIMARY KEY, figures BLOB NOT NULL, bodies BLOB NOT NULL);
CREATE TABLE texts (
    id INTEGER PRIMARY KEY AUTOINCREMENT, base INTEGER NOT NULL, uses INTEGER NOT NULL, parts BLOB NOT NULL
);
CREATE TABLE text_data (id INTEGER PRIMARY KEY, data BLOB NOT NULL);
CREATE INDEX unused_texts ON texts (id) WHERE uses <= 0;
"""
# To count a use of a text writes its whole row again, so its data is in another one.
# The entries have no other index: each one would cost a request as much as all of its rows. A search takes 0.1 s for a
# million of them.
_COLUMNS = ("id", "key", "user", "model", "endpoint", "status", "error", "cache", "request_id", "owner")
_read_ids = msgspec.msgpack.Decoder(list[int]).decode
_write = msgspec.msgpack.Encoder().encode
_read_figures = msgspec.msgpack.Decoder(Figures).decode
Value: TypeAlias = str | int | float


class LogFileError(Exception):
    """The file cannot be read or written now."""

    def __init__(self, message: str, *, may_lack_space: bool = False) -> None:
        super().__init__(message)
        self.may_lack_space = may_lack_space
        """Whether a full disk may be the cause."""


class Query(Struct, frozen=True):
    """Which entries are wanted. None: any."""

    id: int | None = None
    key: str | None = None
    owner: str | None = None
    user: str | None = None
    model: str | None = None
    endpoint: str | None = None
    status: int | None = None
    error: str | None = None
    cache: str | None = None
    request_id: str | None = None
    failed: bool | None = None
    since: float | None = None
    """Unix seconds, of the ends of the requests."""
    until: float | None = None
    before_id: int | None = None


def name_entry(id_: str, owner: str | None = None) -> Query:
    """Return what finds an entry by its id, or by the id of the request."""
    if id_.isascii() and id_.isdigit() and len(id_) <= 18:
        return Query(id=int(id_), owner=owner)
    return Query(request_id=id_, owner=owner)


class NewBody(Struct, frozen=True):
    """A body as it is kept."""

    facts: BodyFacts
    data: bytes = b""
    text: int = 0
    """The id of the text with the bytes, in place of `data`."""
    number: int = 0
    """Which body of the text it is."""
    times: bytes = b""
    """When the parts of a response came, as doubles in milliseconds, and their sizes; in place of those of `facts`."""
    sizes: bytes = b""


_read_bodies = msgspec.msgpack.Decoder(list[NewBody]).decode


class TextPart(Struct, frozen=True, array_like=True):
    """One of the bodies of a text."""

    size: int
    """Of its bytes in the data of the text."""
    number: int = 0
    """Which body of the base comes before and after these."""
    prefix: int = 0
    suffix: int = 0


_read_parts = msgspec.msgpack.Decoder(list[TextPart]).decode


class NewEntry(Struct, frozen=True):
    ended_at: float
    figures: Figures
    bodies: Sequence[NewBody]
    user: str = ""


class LogFile:
    """Its connection is used by threads in turns. Every method blocks, and raises LogFileError."""

    def __init__(self, path: str, reserve: int = 0) -> None:
        """So many bytes of the disk are kept for deletions, where it is full."""
        self._path = path
        self._reserve = DiskReserve(f"{path}-reserve", reserve)
        self._lock = threading.RLock()
        self._connection: sqlite3.Connection | None = None
        self.openings = 0
        """How often the file was opened. It may be another one each time, with other texts of the same ids."""
        # To make a compressor takes as long as it compresses a turn of an agent.
        self._compress_text = zstandard.ZstdCompressor(compression_params=_TEXTS).compress
        self._compress_bodies = zstandard.ZstdCompressor(level=_BODIES_LEVEL).compress

    @property
    def name(self) -> str:
        return self._path

    def measure(self) -> int:
        """Return the bytes of the file, of its log of changes, and of what is reserved for deletions."""
        size = self._reserve.measure()
        for suffix in ("", "-wal"):
            with contextlib.suppress(OSError):
                size += Path(self._path + suffix).stat().st_size
        return size

    def close(self) -> None:
        with self._lock:
            connection, self._connection = self._connection, None
            if connection is not None:
                with contextlib.suppress(sqlite3.Error):
                    connection.close()

    # Writing.

    @contextlib.contextmanager
    def write(self, more: int = 0) -> Iterator["EntryWriter"]:
        """Write entries of about so many bytes in one transaction: all of them, or none."""
        try:
            self._reserve.check(2 * more)  # they are first in the log of changes, and then in the file, too
        except OSError as error:
            raise LogFileError(f"{self._path}: {error.strerror}") from error
        with self._transaction() as connection:
            yield EntryWriter(connection, self._compress_text, self._compress_bodies)

    def delete(self, query: Query) -> int:
        """Delete the entries, with all pieces that no other entry needs, and return their number. Nothing of them is
        left in the file."""
        return self._delete_in_steps(lambda most: self._delete_found(query, most))

    def trim(self, max_bytes: int, keep_days: float, now: float) -> int:
        """Delete the oldest entries until the file has at most so many bytes, and those that ended before so many days.
        Returns their number."""
        deleted = self.delete(Query(until=now - keep_days * 86400))
        return deleted + self._delete_in_steps(lambda most: self._delete_oldest(max_bytes, most))

    def _delete_in_steps(self, delete: Callable[[int], Iterable[int]]) -> int:
        """Delete what `delete` yields the numbers of, each step with at most about so many bytes. If the disk is full,
        this goes on in small steps, with what is reserved for that."""
        deleted = 0
        try:
            for count in delete(_DELETED_BYTES):
                deleted += count
            return deleted
        except LogFileError as error:
            if not error.may_lack_space or not self._reserve.size:
                raise
        with self._lock, self._reserve.spent():
            try:
                for count in delete(self._reserve.size // 4):
                    deleted += count
            except LogFileError as error:
                raise LogFileError(f"{deleted} entries were deleted, but others not, or not wiped: {error}") from error
        return deleted

    def _delete_found(self, query: Query, most_bytes: int) -> Iterator[int]:
        """Yield how many entries each step has deleted, of the newest first: a body goes before those that it is a
        difference from."""
        where, values = _write_where(query)
        text = f"{_SELECT_SIZES}{where}{' AND' if where else ' WHERE'} id < ? ORDER BY id DESC LIMIT {DELETED_TOGETHER}"
        last, is_more = _MAX_ID, True
        while is_more:
            with self._transaction() as connection:
                rows = connection.execute(text, (*values, last)).fetchall()
                ids = _take_until(connection, rows, most_bytes)
                _delete_entries(connection, ids)
            yield len(ids)
            self._shrink(most_bytes)
            is_more = len(ids) < len(rows) or len(rows) == DELETED_TOGETHER
            last = ids[-1] if ids else 0

    def _delete_oldest(self, max_bytes: int, most_bytes: int) -> Iterator[int]:
        is_more = self.measure() > max_bytes
        if is_more:
            self._shrink(most_bytes)
        while is_more and self.measure() > max_bytes:
            with self._transaction() as connection:
                ((count,),) = connection.execute("SELECT count(*) FROM entries").fetchall()
                most = min(DELETED_TOGETHER, count // 16 + 1)
                rows = connection.execute(f"{_SELECT_SIZES} ORDER BY id LIMIT ?", (most,)).fetchall()
                ids = _take_until(connection, rows, most_bytes)
                _delete_entries(connection, ids)
            yield len(ids)
            self._shrink(most_bytes)
            is_more = bool(ids)

    def _shrink(self, most_bytes: int) -> None:
        """Give free pages back to the file system, and empty the log of changes, unless a reader needs it all the
        time."""
        with self._use() as connection:
            until = time.monotonic() + _WAL_SECONDS
            free, before = _MAX_ID, None
            while free and free != before:
                # `execute` would stop after the first page.
                connection.executescript(f"PRAGMA incremental_vacuum({most_bytes // _PAGE + 1})")
                while not empty_wal(connection, _BUSY_SECONDS) and time.monotonic() < until:
                    time.sleep(0.02)
                before = free
                ((free,),) = connection.execute("PRAGMA freelist_count").fetchall()

    # Reading.

    def find_entries(self, query: Query, most: int) -> list[LoggedRequest]:
        """Return the newest entries without their bodies."""
        where, values = _write_where(query)
        text = f"SELECT id, figures FROM entries JOIN contents USING (id){where} ORDER BY id DESC LIMIT ?"
        with self._use() as connection:
            rows = connection.execute(text, (*values, most)).fetchall()
        return [LoggedRequest(id_, _read_figures(figures)) for id_, figures in rows]

    def read(self, id_: int) -> LoggedRequest | None:
        """Return an entry with its bodies."""
        with self._use() as connection:
            connection.execute("BEGIN")
            try:
                return _read_entry(connection, id_)
            finally:
                connection.execute("COMMIT")

    def choose_texts(self, ids: Iterable[int]) -> set[int]:
        """Return which of these texts the file still has."""
        text = "SELECT id FROM texts WHERE id = ?"
        with self._use() as connection:
            return {id_ for wanted in ids for (id_,) in connection.execute(text, (wanted,))}

    # The connection.

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        with self._use() as connection:
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield connection
                connection.execute("COMMIT")
            except BaseException:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                raise

    @contextlib.contextmanager
    def _use(self) -> Iterator[sqlite3.Connection]:
        with self._lock:
            try:
                if self._connection is None:
                    self._connection = _open(self._path, self._reserve.size)
                    self.openings += 1
                yield self._connection
            except (sqlite3.Error, OSError, msgspec.MsgspecError, zstandard.ZstdError) as error:
                self.close()  # the next use opens the file again: it may have been replaced, or the disk has place
                raise LogFileError(f"{self._path}: {error}", may_lack_space=_may_lack_space(error)) from error


class EntryWriter:
    """Adds entries in a transaction."""

    def __init__(
        self,
        connection: sqlite3.Connection,
        compress_text: Callable[[bytes], bytes],
        compress_bodies: Callable[[bytes], bytes],
    ) -> None:
        self._execute = connection.execute
        self._compress_text = compress_text
        self._compress_bodies = compress_bodies

    def add_text(self, parts: Sequence[TextPart], data: bytes, base: int = 0) -> int | None:
        """Add the bodies of requests, whose new bytes follow each other in `data`, and return the id of the text; None
        if the file no longer has the base. An entry must follow that has it."""
        if base and not self._execute("UPDATE texts SET uses = uses + 1 WHERE id = ?", (base,)).rowcount:
            return None
        row = (base, _write(parts))
        id_ = self._execute("INSERT INTO texts (base, uses, parts) VALUES (?, 1, ?)", row).lastrowid
        self._execute("INSERT INTO text_data VALUES (?, ?)", (id_, self._compress_text(data)))
        return id_

    def add(self, entry: NewEntry) -> None:
        figures = entry.figures
        texts = list({body.text for body in entry.bodies if body.text})
        row = (entry.ended_at, figures.request_id, figures.key, figures.owner, entry.user, figures.model)
        more = (figures.endpoint, figures.status, figures.error, figures.cache, _write(texts) if texts else None)
        id_ = self._execute(_INSERT_ENTRY, (*row, *more)).lastrowid
        bodies = self._compress_bodies(_write(entry.bodies))
        self._execute("INSERT INTO contents VALUES (?, ?, ?)", (id_, _write(figures), bodies))


_INSERT_ENTRY = f"""
INSERT INTO entries (ended_at, request_id, key, owner, user, model, endpoint, status, error, cache, texts)
VALUES ({", ".join("?" * 11)})
"""


_MAX_ID = 2**63 - 1
_SELECT_SIZES = "SELECT id, texts, length(bodies) FROM entries JOIN contents USING (id)"


def _take_until(
    connection: sqlite3.Connection, rows: Iterable[tuple[int, bytes | None, int]], most_bytes: int
) -> list[int]:
    """Return the ids of the first entries, as far as they have at most so many bytes together, but at least one."""
    ids: list[int] = []
    taken = 0
    for id_, packed, size in rows:
        taken += size
        for text in () if packed is None else _read_ids(packed):
            sizes = connection.execute("SELECT length(data) FROM text_data WHERE id = ?", (text,))
            taken += sum(size for (size,) in sizes)
        if ids and taken > most_bytes:
            break
        ids.append(id_)
    return ids


def _delete_entries(connection: sqlite3.Connection, ids: Sequence[int]) -> None:
    rows = [(id_,) for id_ in ids]
    uses: Counter[int] = Counter()
    for row in rows:
        for (packed,) in connection.execute("SELECT texts FROM entries WHERE id = ?", row).fetchall():
            uses.update(() if packed is None else _read_ids(packed))
    while uses:  # what is deleted no longer needs its base
        connection.executemany("UPDATE texts SET uses = uses - ? WHERE id = ?", [(n, id_) for id_, n in uses.items()])
        unused = connection.execute("SELECT base FROM texts WHERE uses <= 0").fetchall()
        connection.execute("DELETE FROM text_data WHERE id IN (SELECT id FROM texts WHERE uses <= 0)")
        connection.execute("DELETE FROM texts WHERE uses <= 0")
        uses = Counter(base for (base,) in unused if base)
    connection.executemany("DELETE FROM contents WHERE id = ?", rows)
    connection.executemany("DELETE FROM entries WHERE id = ?", rows)


def _read_entry(connection: sqlite3.Connection, id_: int) -> LoggedRequest | None:
    for figures, bodies in connection.execute("SELECT figures, bodies FROM contents WHERE id = ?", (id_,)).fetchall():
        packed = zstandard.ZstdDecompressor().decompress(bodies)
        return LoggedRequest(
            id_, _read_figures(figures), tuple([_read_body(connection, one) for one in _read_bodies(packed)])
        )
    return None


def _read_body(connection: sqlite3.Connection, body: NewBody) -> Body:
    facts = body.facts
    if body.times:
        times, sizes = array("d"), array("Q")
        times.frombytes(body.times)
        sizes.frombytes(body.sizes)
        facts = replace(facts, parts=tuple([(round(at, 3), size) for at, size in zip(times, sizes, strict=True)]))
    return Body(facts, _read_text(connection, body.text, body.number) if body.text else body.data)


def _read_text(connection: sqlite3.Connection, id_: int, number: int) -> bytes:
    """Return one of the bodies of a text, from that of its last base on."""
    decompress = zstandard.ZstdDecompressor().decompress
    rows: list[tuple[int, int, bytes]] = []
    while id_:
        text = "SELECT base, parts, data FROM texts JOIN text_data USING (id) WHERE id = ?"
        ((id_, packed, data),) = connection.execute(text, (id_,)).fetchall()
        parts = _read_parts(packed)
        part, start = parts[number], sum([one.size for one in parts[:number]])
        rows.append((part.prefix, part.suffix, decompress(data)[start : start + part.size]))
        number = part.number
    whole = b""
    for prefix, suffix, data in reversed(rows):
        whole = b"".join((whole[:prefix], data, whole[len(whole) - suffix :]))
    return whole


def _write_where(query: Query) -> tuple[str, list[Value]]:
    conditions: list[str] = []
    values: list[Value] = []
    for name in _COLUMNS:
        wanted = getattr(query, name)
        if wanted is not None:
            conditions.append(f"{name} = ?")
            values.append(wanted)
    for condition, limit in (
        ("ended_at >= ?", query.since),
        ("ended_at < ?", query.until),
        ("id < ?", query.before_id),
    ):
        if limit is not None:
            conditions.append(condition)
            values.append(limit)
    if query.failed is not None:
        conditions.append("error IS NOT NULL" if query.failed else "error IS NULL")
    return (f" WHERE {' AND '.join(conditions)}" if conditions else ""), values


def _may_lack_space(error: Exception) -> bool:
    if isinstance(error, sqlite3.OperationalError):
        return getattr(error, "sqlite_errorcode", 0) & 0xFF in _LACK_SPACE
    return isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT)


def choose_reserve(max_bytes: int) -> int:
    """Return how many bytes of the disk are kept for deletions from a log of at most so many bytes."""
    return min(_RESERVE, max_bytes // 8)


def _open(path: str, reserve: int) -> sqlite3.Connection:
    Path(path).parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with contextlib.suppress(FileExistsError):
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    connection = sqlite3.connect(path, timeout=_BUSY_SECONDS, isolation_level=None, check_same_thread=False)
    try:
        _prepare(connection, path)
        if reserve:  # so it has place for what the log of changes brings into the file
            connection.execute(f"PRAGMA wal_autocheckpoint = {min(_WAL_PAGES, reserve // (2 * _PAGE))}")
    except BaseException:
        connection.close()
        raise
    return connection


def _prepare(connection: sqlite3.Connection, path: str) -> None:
    connection.execute("PRAGMA auto_vacuum = INCREMENTAL")  # has an effect in a new file only
    connection.execute("BEGIN IMMEDIATE")
    ((tables,),) = connection.execute("SELECT count(*) FROM sqlite_master").fetchall()
    ((owner,),) = connection.execute("PRAGMA application_id").fetchall()
    ((version,),) = connection.execute("PRAGMA user_version").fetchall()
    if tables and (owner, version) != (_APPLICATION_ID, _VERSION):
        raise OSError("is no request log of this version of Parley; name another file in request_log.url")
    if not tables:
        for text in _SCHEMA.split(";"):
            connection.execute(text)
        connection.execute(f"PRAGMA application_id = {_APPLICATION_ID}")
        connection.execute(f"PRAGMA user_version = {_VERSION}")
    connection.execute("COMMIT")
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = NORMAL")
    connection.execute("PRAGMA secure_delete = ON")
    connection.execute(f"PRAGMA journal_size_limit = {4 * 1024 * 1024}")
