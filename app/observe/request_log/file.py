"""The file of the request log: SQLite, which the workers of one machine share.

A body is a list of lists of pieces. Equal pieces, and equal lists, of one caller are kept once; each has the number of
its uses, so that what no entry needs is deleted with the last entry that does. What is deleted is overwritten.
"""

import contextlib
import hashlib
import os
import sqlite3
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TypeAlias

import msgspec
import zstandard
from msgspec import Struct

from app.observe.request_log.entry import Body, BodyFacts, Figures, LoggedRequest
from app.state.sqlite import empty_wal

_APPLICATION_ID = 0x5061726E
_VERSION = 1
_BUSY_SECONDS = 5.0
_WAL_SECONDS = 2.0
"""How long a deletion waits for readers, so that the log of changes can be emptied."""
DELETED_TOGETHER = 1000
_LEVEL = 3
_SCHEMA = """
CREATE TABLE entries (
    id INTEGER PRIMARY KEY AUTOINCREMENT, ended_at REAL NOT NULL, request_id TEXT NOT NULL, key TEXT NOT NULL,
    owner TEXT NOT NULL, user TEXT NOT NULL, model TEXT NOT NULL, endpoint TEXT NOT NULL, status INTEGER NOT NULL,
    error TEXT, cache TEXT NOT NULL, figures BLOB NOT NULL
);
CREATE INDEX entries_by_end ON entries (ended_at);
CREATE INDEX entries_by_request ON entries (request_id);
CREATE INDEX entries_by_key ON entries (key);
CREATE TABLE bodies (
    entry INTEGER NOT NULL, number INTEGER NOT NULL, facts BLOB NOT NULL, lists BLOB NOT NULL,
    PRIMARY KEY (entry, number)
) WITHOUT ROWID;
CREATE TABLE lists (
    id INTEGER PRIMARY KEY AUTOINCREMENT, owner TEXT NOT NULL, hash BLOB NOT NULL, pieces BLOB NOT NULL,
    uses INTEGER NOT NULL, UNIQUE (owner, hash)
);
CREATE INDEX unused_lists ON lists (id) WHERE uses <= 0;
CREATE TABLE pieces (
    id INTEGER PRIMARY KEY AUTOINCREMENT, owner TEXT NOT NULL, hash BLOB NOT NULL, data BLOB NOT NULL,
    uses INTEGER NOT NULL, UNIQUE (owner, hash)
);
CREATE INDEX unused_pieces ON pieces (id) WHERE uses <= 0;
"""
_COLUMNS = ("id", "key", "user", "model", "endpoint", "status", "error", "cache", "request_id", "owner")
_read_ids = msgspec.msgpack.Decoder(list[int]).decode
_write_ids = msgspec.msgpack.Encoder().encode
_read_facts = msgspec.json.Decoder(BodyFacts).decode
_read_figures = msgspec.json.Decoder(Figures).decode
Value: TypeAlias = str | int | float


class LogFileError(Exception):
    """The file cannot be read or written now."""


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


class StoredList(Struct, frozen=True):
    """A list of pieces, which the file has already; or new ones."""

    id: int = 0
    pieces: Sequence[bytes] = ()


class NewBody(Struct, frozen=True):
    facts: BodyFacts
    lists: Sequence[StoredList]


class NewEntry(Struct, frozen=True):
    ended_at: float
    figures: Figures
    bodies: Sequence[NewBody]
    user: str = ""


class LogFile:
    """Its connection is used by threads in turns. Every method blocks, and raises LogFileError."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._lock = threading.RLock()
        self._connection: sqlite3.Connection | None = None

    @property
    def name(self) -> str:
        return self._path

    def measure(self) -> int:
        """Return the bytes of the file and of its log of changes."""
        size = 0
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
    def write(self) -> Iterator["EntryWriter"]:
        """Write entries in one transaction: all of them, or none."""
        with self._transaction() as connection:
            yield EntryWriter(connection)

    def delete(self, query: Query) -> int:
        """Delete the entries, with all pieces that no other entry needs, and return their number. Nothing of them is
        left in the file."""
        deleted = 0
        while True:
            with self._transaction() as connection:
                where, values = _write_where(query)
                text = f"SELECT id FROM entries{where} ORDER BY id LIMIT {DELETED_TOGETHER}"
                ids = [id_ for (id_,) in connection.execute(text, values)]
                _delete_entries(connection, ids)
            deleted += len(ids)
            if len(ids) < DELETED_TOGETHER:
                break
        if deleted:
            self._shrink()
        return deleted

    def trim(self, max_bytes: int, keep_days: float, now: float) -> int:
        """Delete the oldest entries until the file has at most so many bytes, and those that ended before so many days.
        Returns their number."""
        deleted = self.delete(Query(until=now - keep_days * 86400))
        while self.measure() > max_bytes:
            with self._use() as connection:
                empty_wal(connection, _BUSY_SECONDS)
            if self.measure() <= max_bytes:
                break
            with self._transaction() as connection:
                ((count,),) = connection.execute("SELECT count(*) FROM entries").fetchall()
                most = min(DELETED_TOGETHER, count // 16 + 1)
                ids = [id_ for (id_,) in connection.execute("SELECT id FROM entries ORDER BY id LIMIT ?", (most,))]
                _delete_entries(connection, ids)
            deleted += len(ids)
            self._shrink()
            if not ids:
                break
        return deleted

    def _shrink(self) -> None:
        """Give free pages back to the file system, and empty the log of changes, unless a reader needs it all the
        time."""
        with self._use() as connection:
            connection.executescript("PRAGMA incremental_vacuum")  # `execute` would stop after the first page
            until = time.monotonic() + _WAL_SECONDS
            while not empty_wal(connection, _BUSY_SECONDS) and time.monotonic() < until:
                time.sleep(0.02)

    # Reading.

    def find_entries(self, query: Query, most: int) -> list[LoggedRequest]:
        """Return the newest entries without their bodies."""
        where, values = _write_where(query)
        text = f"SELECT id, figures FROM entries{where} ORDER BY id DESC LIMIT ?"
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
                    self._connection = _open(self._path)
                yield self._connection
            except (sqlite3.Error, OSError, msgspec.MsgspecError, zstandard.ZstdError) as error:
                self.close()  # the next use opens the file again: it may have been replaced, or the disk has place
                raise LogFileError(f"{self._path}: {error}") from error


class EntryWriter:
    """Adds entries in a transaction."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._compress = zstandard.ZstdCompressor(level=_LEVEL).compress

    def find_list(self, id_: int) -> bool:
        """Whether the file still has this list. Ids are not used again."""
        return bool(self._connection.execute("SELECT 1 FROM lists WHERE id = ?", (id_,)).fetchall())

    def add(self, entry: NewEntry) -> list[int]:
        """Add an entry, and return the ids of its lists in the order of its bodies."""
        figures = entry.figures
        row = (entry.ended_at, figures.request_id, figures.key, figures.owner, entry.user, figures.model)
        more = (figures.endpoint, figures.status, figures.error, figures.cache, msgspec.json.encode(figures))
        id_ = self._connection.execute(
            "INSERT INTO entries "
            "(ended_at, request_id, key, owner, user, model, endpoint, status, error, cache, figures) "
            f"VALUES ({', '.join('?' * 11)})",
            (*row, *more),
        ).lastrowid
        all_ids: list[int] = []
        for number, body in enumerate(entry.bodies):
            ids = [one.id or self._find_or_add_list(figures.owner, one.pieces) for one in body.lists]
            all_ids += ids
            values = (id_, number, msgspec.json.encode(body.facts), _write_ids(ids))
            self._connection.execute("INSERT INTO bodies VALUES (?, ?, ?, ?)", values)
        uses = [(count, list_id) for list_id, count in Counter(all_ids).items()]
        self._connection.executemany("UPDATE lists SET uses = uses + ? WHERE id = ?", uses)
        return all_ids

    def _find_or_add_list(self, owner: str, pieces: Sequence[bytes]) -> int:
        ids = [self._find_or_add_piece(owner, piece) for piece in pieces]
        packed = _write_ids(ids)
        digest = _hash(packed)
        text = "SELECT id FROM lists WHERE owner = ? AND hash = ?"
        for (found,) in self._connection.execute(text, (owner, digest)).fetchall():
            return int(found)
        self._connection.executemany("UPDATE pieces SET uses = uses + 1 WHERE id = ?", [(id_,) for id_ in ids])
        text = "INSERT INTO lists (owner, hash, pieces, uses) VALUES (?, ?, ?, 0)"
        return self._connection.execute(text, (owner, digest, packed)).lastrowid or 0

    def _find_or_add_piece(self, owner: str, piece: bytes) -> int:
        digest = _hash(piece)
        text = "SELECT id FROM pieces WHERE owner = ? AND hash = ?"
        for (found,) in self._connection.execute(text, (owner, digest)).fetchall():
            return int(found)
        text = "INSERT INTO pieces (owner, hash, data, uses) VALUES (?, ?, ?, 0)"
        return self._connection.execute(text, (owner, digest, self._compress(piece))).lastrowid or 0


def _hash(data: bytes) -> bytes:
    return hashlib.blake2b(data, digest_size=20).digest()


def _delete_entries(connection: sqlite3.Connection, ids: Sequence[int]) -> None:
    rows = [(id_,) for id_ in ids]
    lists: Counter[int] = Counter()
    for row in rows:
        for (packed,) in connection.execute("SELECT lists FROM bodies WHERE entry = ?", row).fetchall():
            lists.update(_read_ids(packed))
    connection.executemany("UPDATE lists SET uses = uses - ? WHERE id = ?", [(n, id_) for id_, n in lists.items()])
    pieces: Counter[int] = Counter()
    for (packed,) in connection.execute("SELECT pieces FROM lists WHERE uses <= 0").fetchall():
        pieces.update(_read_ids(packed))
    connection.executemany("UPDATE pieces SET uses = uses - ? WHERE id = ?", [(n, id_) for id_, n in pieces.items()])
    connection.execute("DELETE FROM lists WHERE uses <= 0")
    connection.execute("DELETE FROM pieces WHERE uses <= 0")
    connection.executemany("DELETE FROM bodies WHERE entry = ?", rows)
    connection.executemany("DELETE FROM entries WHERE id = ?", rows)


def _read_entry(connection: sqlite3.Connection, id_: int) -> LoggedRequest | None:
    for (figures,) in connection.execute("SELECT figures FROM entries WHERE id = ?", (id_,)).fetchall():
        rows = connection.execute("SELECT facts, lists FROM bodies WHERE entry = ? ORDER BY number", (id_,)).fetchall()
        bodies = [Body(_read_facts(facts), _read_pieces(connection, lists)) for facts, lists in rows]
        return LoggedRequest(id_, _read_figures(figures), tuple(bodies))
    return None


def _read_pieces(connection: sqlite3.Connection, lists: bytes) -> bytes:
    decompress = zstandard.ZstdDecompressor().decompress
    data = []
    for list_id in _read_ids(lists):
        ((packed,),) = connection.execute("SELECT pieces FROM lists WHERE id = ?", (list_id,)).fetchall()
        for piece_id in _read_ids(packed):
            ((piece,),) = connection.execute("SELECT data FROM pieces WHERE id = ?", (piece_id,)).fetchall()
            data.append(decompress(piece))
    return b"".join(data)


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


def _open(path: str) -> sqlite3.Connection:
    Path(path).parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with contextlib.suppress(FileExistsError):
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    connection = sqlite3.connect(path, timeout=_BUSY_SECONDS, isolation_level=None, check_same_thread=False)
    try:
        _prepare(connection, path)
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
