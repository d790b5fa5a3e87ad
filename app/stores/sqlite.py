"""A store in an SQLite file, which several gateways on one machine may share.

One thread reads and one writes, each with its own connection; the writer puts all waiting operations into one
transaction. Entries wait LINGER_SECONDS to be written together, and are found in memory meanwhile. The time of an
entry's last use is written with the next entry or after a few seconds, never by the reader.

That a key has no entry is known without the reader, and so is a value that was read a short time ago: see `known_keys`
and `recent_values`.
"""

import asyncio
import contextlib
import functools
import logging
import sqlite3
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeAlias, TypeVar

from app.runtime.throttled_log import ThrottledLog
from app.stores import sqlite_schema
from app.stores.base import (
    CLOSED,
    UNKNOWN,
    KnownValue,
    NotKept,
    StoredValue,
    StoreError,
    StoreLimits,
    StoreStats,
)
from app.stores.file_version import VersionReader
from app.stores.known_keys import KnownKeys
from app.stores.recent_values import RecentValues
from app.stores.sqlite_file import SqliteDatabase
from app.stores.worker import SqliteWorker

T = TypeVar("T")
_Op: TypeAlias = Callable[[sqlite3.Connection], Any]

LINGER_SECONDS = 0.05
"""How long `put_nowait` waits for more entries. A process that is killed loses its entries of this time."""
_READ_SECONDS = 1.0
_WRITE_SECONDS = 30.0
_CLOSE_SECONDS = 5.0
_TOUCH_SECONDS = 5.0
_MAX_TOUCHED = 10_000
_MAX_WAITING = 4096
_LOOK_UPS = 5
_MAX_WAITING_BYTES = 64 * 1024 * 1024
_FULL_ROWS = 500
_FULL_BYTES = 4 * 1024 * 1024
"""As soon as this many rows or bytes wait, they are written."""
_LOG = logging.getLogger("parley.cache")


class SqliteStore:
    def __init__(self, path: str, limits: StoreLimits | None = None) -> None:
        self._limits = limits or StoreLimits()
        reading, writing, watching = SqliteDatabase(path), SqliteDatabase(path), SqliteDatabase(path)
        self._reader: SqliteWorker[_Op] = SqliteWorker(
            "cache-reader", functools.partial(_run, reading), functools.partial(_close_all, reading, watching)
        )
        self._writer: SqliteWorker[_Op] = SqliteWorker("cache-writer", self._transaction(writing), writing.close)
        self._version_reader = VersionReader(watching, self._reader)
        self._known_keys = KnownKeys(self._reader, self._version_reader)
        self._recent = RecentValues(self._version_reader)
        self._unwritten: dict[str, sqlite_schema.StoredRow] = {}
        """The rows that are not committed yet."""
        self._lingering: dict[str, sqlite_schema.StoredRow] = {}
        """Those of them that the writer does not have yet."""
        self._unwritten_bytes = self._lingering_bytes = 0
        self._logs_failure = False
        """No caller waits for some of the rows that linger, so a failure to write them is logged."""
        self._linger_timer: asyncio.TimerHandle | None = None
        self._commits = 0
        self._last_write: asyncio.Future[Any] | None = None
        self._touched: dict[int, float] = {}
        self._touching: asyncio.TimerHandle | None = None
        self._closed = False
        self._throttled_log = ThrottledLog(_LOG)

    async def get(self, key: str) -> StoredValue | None:
        """Unlike `get_nowait`, it does not rely on `known_keys`, which learns of other processes' entries later."""
        encoded = _key(key)
        for _ in range(_LOOK_UPS):
            if self._closed:
                raise StoreError(CLOSED)
            known = self._find_in_memory(key, encoded)
            if known is not None:
                return known
            if self._reader.waiting > _MAX_WAITING:
                raise StoreError("too many look-ups wait")
            commits, changes, now = self._commits, self._recent.changes, self._limits.clock()
            look_up = functools.partial(sqlite_schema.read, key=encoded, now=now)
            found = await self._wait(self._reader.submit(look_up), _READ_SECONDS)
            if found is not None:
                self._note_use(found.id, now)
                self._recent.add(encoded, found, changes)
                stored: StoredValue = found.stored
                return stored
            if commits == self._commits:
                break
            # What this process wrote meanwhile may have been committed just after the look-up.
        return self._find_unwritten(key)

    def get_nowait(self, key: str) -> KnownValue:
        encoded = _key(key)
        known = self._find_in_memory(key, encoded)
        if known is not None or self._closed:
            return known
        return UNKNOWN if self._known_keys.may_contain(encoded) else None

    def _find_in_memory(self, key: str, encoded: bytes) -> StoredValue | None:
        unwritten = self._find_unwritten(key)
        if unwritten is not None or self._closed:
            return unwritten
        now = self._limits.clock()
        recent = self._recent.get(encoded, now)
        if recent is None:
            return None
        self._note_use(recent.id, now)
        return recent.stored

    def _find_unwritten(self, key: str) -> StoredValue | None:
        row = self._unwritten.get(key)
        if row is None or row.expires_at <= self._limits.clock():
            return None
        return StoredValue(row.value, row.stored_at)

    async def put(self, key: str, value: bytes, *, ttl_seconds: float, model: str) -> None:
        self._add_row(key, value, ttl_seconds, model)
        written = self._write_rows()
        await asyncio.wait(
            [written], timeout=_WRITE_SECONDS
        )  # other entries are in the same write: it is not cancelled
        if not written.done():
            raise StoreError(f"not within {_WRITE_SECONDS} s")
        written.result()

    def put_nowait(self, key: str, value: bytes, *, ttl_seconds: float, model: str) -> bool:
        try:
            self._add_row(key, value, ttl_seconds, model)
        except NotKept:
            return True
        except StoreError as error:
            self._throttled_log.warn("a reply was not cached", error)
            return True
        self._logs_failure = True
        if len(self._lingering) >= _FULL_ROWS or self._lingering_bytes >= _FULL_BYTES:
            self._write_rows()
        elif self._linger_timer is None:
            self._linger_timer = asyncio.get_running_loop().call_later(LINGER_SECONDS, self._write_rows)
        return True

    def _add_row(self, key: str, value: bytes, ttl_seconds: float, model: str) -> None:
        """Raises StoreError."""
        limits = self._limits
        if self._closed:
            raise StoreError(CLOSED)
        if len(value) > min(limits.max_entry_bytes, limits.max_bytes // 2):
            raise NotKept(f"{len(value)} bytes are too many for this store")
        if self._writer.waiting > _MAX_WAITING or self._unwritten_bytes + len(value) > _MAX_WAITING_BYTES:
            raise StoreError("too many entries wait to be written")
        now = limits.clock()
        row = sqlite_schema.StoredRow(_key(key), _name(model), value, now, now + ttl_seconds)
        self._drop_lingering(key)
        self._unwritten[key] = self._lingering[key] = row
        self._unwritten_bytes += len(value)
        self._lingering_bytes += len(value)

    def _drop_lingering(self, key: str) -> None:
        row = self._lingering.pop(key, None)
        if row is not None:
            self._lingering_bytes -= len(row.value)
            self._unwritten_bytes -= len(row.value)

    def _write_rows(self) -> asyncio.Future[Any]:
        """Give the rows that linger to the writer, as one transaction."""
        if self._linger_timer is not None:
            self._linger_timer.cancel()
            self._linger_timer = None
        self._flush_uses()
        rows, self._lingering, self._lingering_bytes = self._lingering, {}, 0
        logs_failure, self._logs_failure = self._logs_failure, False
        op = functools.partial(sqlite_schema.write, rows=list(rows.values()), max_bytes=self._limits.max_bytes)
        written = self._last_write = self._writer.submit(op)
        written.add_done_callback(lambda written: self._on_written(rows, written, logs_failure))
        return written

    def _on_written(
        self, rows: dict[str, sqlite_schema.StoredRow], written: asyncio.Future[Any], logs_failure: bool
    ) -> None:
        for key, row in rows.items():
            self._unwritten_bytes -= len(row.value)
            if self._unwritten.get(key) is row:
                del self._unwritten[key]
        self._commits += 1
        if written is self._last_write:
            self._last_write = None
        self._on_commit([row.key for row in rows.values()])
        error = None if written.cancelled() else written.exception()
        if error is not None and logs_failure:
            self._throttled_log.warn("a reply was not cached", error)

    def _on_commit(self, keys: Iterable[bytes] = ()) -> None:
        if not self._closed:
            self._known_keys.on_commit(keys)

    async def delete(self, key: str) -> None:
        if self._closed:
            raise StoreError(CLOSED)
        self._drop_lingering(key)
        self._unwritten.pop(key, None)
        await self._wait(self._writer.submit(functools.partial(sqlite_schema.delete, key=_key(key))), _WRITE_SECONDS)

    async def purge(self, model: str | None = None) -> int:
        if self._lingering:
            self._write_rows()
        deleted, until_id = 0, await self._run_or_raise(self._writer, sqlite_schema.last_id)
        some = functools.partial(
            sqlite_schema.purge_some, model=None if model is None else _name(model), until_id=until_id
        )
        while count := await self._run_or_raise(self._writer, some):
            deleted += count
        while await self._run_or_raise(self._writer, sqlite_schema.shrink_some):
            pass
        return deleted

    async def stats(self) -> StoreStats:
        if self._lingering:
            self._write_rows()
        if self._last_write is not None:
            await asyncio.wait([self._last_write])
        return await self._run_or_raise(self._reader, functools.partial(sqlite_schema.count, now=self._limits.clock()))

    async def aclose(self) -> None:
        if self._closed:
            return
        self._write_rows() if self._lingering else self._flush_uses()
        self._closed = True
        self._version_reader.close()
        closing = asyncio.gather(self._reader.aclose(), self._writer.aclose())
        await asyncio.wait([closing], timeout=_CLOSE_SECONDS)
        if closing.done():
            closing.result()
        else:
            closing.cancel()
            self._throttled_log.warn("the cache did not close", f"not within {_CLOSE_SECONDS} s")

    async def _wait(self, result: asyncio.Future[Any], seconds: float) -> Any:
        """Return the result. Raises StoreError when it fails or takes too long."""
        timer = asyncio.get_running_loop().call_later(seconds, _fail_late, result, seconds)
        try:
            return await result
        finally:
            timer.cancel()

    async def _run_or_raise(self, worker: SqliteWorker[_Op], op: Callable[[sqlite3.Connection], T]) -> T:
        if self._closed:
            raise StoreError(CLOSED)
        result: T = await worker.submit(op)
        return result

    def _note_use(self, entry: int, now: float) -> None:
        if len(self._touched) < _MAX_TOUCHED:
            self._touched[entry] = now
        if self._touching is None and not self._closed:
            self._touching = asyncio.get_running_loop().call_later(_TOUCH_SECONDS, self._flush_uses)

    def _flush_uses(self) -> None:
        if self._touching is not None:
            self._touching.cancel()
            self._touching = None
        if self._touched and not self._closed:
            uses = [(now, entry) for entry, now in self._touched.items()]
            self._touched = {}
            self._writer.submit(functools.partial(sqlite_schema.touch, uses=uses)).add_done_callback(self._on_touched)

    def _on_touched(self, touched: asyncio.Future[Any]) -> None:
        if not touched.cancelled():
            touched.exception()  # retrieved, or asyncio would log it
        self._on_commit()

    def _transaction(self, database: SqliteDatabase) -> Callable[[Sequence[_Op]], list[Any]]:
        def together(ops: Sequence[_Op], connection: sqlite3.Connection) -> list[Any]:
            connection.execute("BEGIN IMMEDIATE")
            try:
                sqlite_schema.forget_expired(connection, self._limits.clock())
                results = [op(connection) for op in ops]
                connection.execute("COMMIT")
            finally:
                if connection.in_transaction:
                    with contextlib.suppress(sqlite3.Error):
                        connection.execute("ROLLBACK")
            return results

        return lambda ops: database.use(functools.partial(together, ops))


def _close_all(*databases: SqliteDatabase) -> None:
    for database in databases:
        database.close()


def _run(database: SqliteDatabase, ops: Sequence[_Op]) -> list[Any]:
    return database.use(lambda connection: [op(connection) for op in ops])


def _fail_late(result: asyncio.Future[Any], seconds: float) -> None:
    if not result.done():
        result.set_exception(StoreError(f"not within {seconds} s"))


def _key(key: str) -> bytes:
    return key.encode("utf-8", "surrogatepass")


def _name(model: str) -> bytes:
    return model.encode("utf-8", "replace")
