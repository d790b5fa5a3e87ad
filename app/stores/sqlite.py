"""A store in an SQLite file, which several gateways on one machine may share.

The event loop looks keys up on a connection of its own, which takes some ten microseconds where the pages are in
memory. A thread reads what takes longer, such as a large value, and another one writes: each has its own connection,
and the writer puts all waiting operations into one transaction. The time of an entry's last use is written with the
next entry or after a few seconds.
"""

import asyncio
import contextlib
import functools
import logging
import sqlite3
import time
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias, TypeVar

from app.runtime.throttled_log import ThrottledLog
from app.stores import sqlite_schema
from app.stores.base import CLOSED, NotKept, StoredValue, StoreError, StoreLimits, StoreStats
from app.stores.eraser import Eraser
from app.stores.sqlite_file import SqliteDatabase, empty_file_log
from app.stores.sqlite_schema import FoundRow, StoredRow
from app.stores.worker import SqliteWorker

T = TypeVar("T")
_Op: TypeAlias = Callable[[sqlite3.Connection], Any]

MAX_LOOP_BYTES = 64 * 1024
"""The event loop reads no larger value."""
SLOW_MEAN_SECONDS = 0.002
"""If look-ups take longer on average, the disk is slow and the pages are not in memory. On an SSD, whose pages take
0.1 ms, such a look-up took 0.5 ms, and 4 ms in one of a hundred cases; on a rotating disk it takes tens of
milliseconds."""
MAX_COUNTED_SECONDS = 0.01
"""A look-up counts for no more: once in a while it takes longer because the process had to wait for the CPU."""
SLOW_PAUSE_SECONDS = 1.0
"""For so long the thread then reads, and the event loop does not wait for the disk."""
_WEIGHT = 0.1
"""Of a look-up, in the average."""
_READ_SECONDS = 1.0
_WRITE_SECONDS = 30.0
_CLOSE_SECONDS = 5.0
_TOUCH_SECONDS = 5.0
_MAX_TOUCHED = 10_000
_MAX_LOOK_UPS = 4096
_MAX_WAITING_BYTES = 64 * 1024 * 1024
_LOG = logging.getLogger("parley.cache")


class LoopReader:
    """Looks keys up on the event loop. Its connection is opened and closed in the reader's thread."""

    UNREAD = FoundRow(0, None)

    def __init__(self, path: str, reader: SqliteWorker[_Op], clock: Callable[[], float] = time.perf_counter) -> None:
        self._database = SqliteDatabase(path)
        self._reader = reader
        self._clock = clock
        self._opening = False
        """The thread uses the database."""
        self._mean_seconds = 0.0
        self._resume_at = float("-inf")

    def read(self, key: bytes, now: float) -> FoundRow | None:
        """Return the row of a key, or None if the file has none. Without its value, the thread must read it: if the
        value is large, the disk slow, the file locked, damaged, or not open because it was replaced."""
        started = self._clock()
        if self._opening or started < self._resume_at:
            return self.UNREAD
        connection = self._database.get_open_connection()
        if connection is None:
            self._open()
            return self.UNREAD
        try:
            return sqlite_schema.read(connection, key, now, MAX_LOOP_BYTES)
        except sqlite3.Error:
            return self.UNREAD
        finally:
            self._count_time(started, self._clock())

    def _count_time(self, started: float, ended: float) -> None:
        self._mean_seconds += (min(ended - started, MAX_COUNTED_SECONDS) - self._mean_seconds) * _WEIGHT
        if self._mean_seconds > SLOW_MEAN_SECONDS:
            self._mean_seconds, self._resume_at = 0.0, ended + SLOW_PAUSE_SECONDS

    def _open(self) -> None:
        self._opening = True
        self._reader.submit(lambda _: self._database.use(_set_read_only)).add_done_callback(self._on_opened)

    def _on_opened(self, opened: asyncio.Future[Any]) -> None:
        self._opening = False
        _ignore_error(opened)  # the look-up in the thread fails with the same one

    def close(self) -> None:
        """Close the connection, in the thread."""
        self._database.close()


class SqliteStore:
    def __init__(self, path: str, limits: StoreLimits | None = None, *, erases: bool = False) -> None:
        """`erases`: what is deleted is in no file soon afterwards."""
        self._limits = limits or StoreLimits()
        self._eraser = Eraser(self._empty_log) if erases else None
        reading, writing = SqliteDatabase(path), SqliteDatabase(path, erases=erases)
        self._reader: SqliteWorker[_Op] = SqliteWorker(
            "cache-reader", functools.partial(_run, reading), lambda: self._close_readers(reading)
        )
        self._loop_reader = LoopReader(path, self._reader)
        self._writer: SqliteWorker[_Op] = SqliteWorker("cache-writer", self._transaction(writing), writing.close)
        self._path = path
        self._rows: dict[bytes, StoredRow] = {}
        """The rows that the writer does not have yet."""
        self._rows_bytes = self._waiting_bytes = 0
        """The size of these rows, and of all that are not committed."""
        self._waiters: list[asyncio.Future[None]] = []
        """Done when these rows are committed."""
        self._write_timer: asyncio.TimerHandle | None = None
        """None if there are no rows."""
        self._touched: dict[int, float] = {}
        self._touching: asyncio.TimerHandle | None = None
        self._closed = False
        self._throttled_log = ThrottledLog(_LOG)

    async def get(self, key: str) -> StoredValue | None:
        self._check_open()
        encoded, now = _key(key), self._limits.clock()
        row = self._loop_reader.read(encoded, now)
        if row is not None and row.stored is None:
            if self._reader.waiting > _MAX_LOOK_UPS:
                raise StoreError("too many look-ups wait")
            look_up = functools.partial(sqlite_schema.read, key=encoded, now=now)
            row = await _wait(self._reader.submit(look_up), _READ_SECONDS)
        if row is None:
            return None
        self._note_use(row.id, now)
        return row.stored

    async def put(self, key: str, value: bytes, *, ttl_seconds: float, model: str) -> None:
        limits, loop, size = self._limits, asyncio.get_running_loop(), len(value) + sqlite_schema.ROW_BYTES
        self._check_open()
        if len(value) > min(limits.max_entry_bytes, limits.max_bytes // 2):
            raise NotKept(f"{len(value)} bytes are too many for this store")
        if self._waiting_bytes + size > _MAX_WAITING_BYTES:
            raise StoreError("too many entries wait to be written")
        now, encoded = limits.clock(), _key(key)
        self._rows[encoded] = StoredRow(encoded, _name(model), value, now, now + ttl_seconds)
        self._rows_bytes += size
        self._waiting_bytes += size
        waiter: asyncio.Future[None] = loop.create_future()
        self._waiters.append(waiter)
        if self._write_timer is None:
            self._write_timer = loop.call_later(limits.linger_seconds, self._write_rows)
        await waiter

    def _write_rows(self) -> None:
        """Give the writer the rows that wait, as one operation, and the uses."""
        self._flush_uses()
        if self._write_timer is None:
            return
        self._write_timer.cancel()
        rows, waiters, size = list(self._rows.values()), self._waiters, self._rows_bytes
        self._rows, self._waiters, self._rows_bytes, self._write_timer = {}, [], 0, None
        write = functools.partial(sqlite_schema.write, rows=rows, max_bytes=self._limits.max_bytes)
        late = StoreError(f"not within {_WRITE_SECONDS} s")
        timer = asyncio.get_running_loop().call_later(_WRITE_SECONDS, _settle, waiters, late)
        self._writer.submit(write).add_done_callback(functools.partial(self._on_written, waiters, size, timer))

    def _on_written(
        self,
        waiters: list[asyncio.Future[None]],
        size: int,
        timer: asyncio.TimerHandle,
        written: asyncio.Future[Any],
    ) -> None:
        timer.cancel()
        self._waiting_bytes -= size
        _settle(waiters, written.exception())

    async def delete(self, key: str) -> None:
        await _wait(self._submit_write(functools.partial(sqlite_schema.delete, key=_key(key))), _WRITE_SECONDS)
        if self._eraser is not None:
            self._eraser.note_deletion()

    async def _empty_log(self) -> bool:
        return await asyncio.to_thread(empty_file_log, self._path)

    async def purge(self, model: str | None = None) -> int:
        deleted, until_id = 0, await self._submit_write(sqlite_schema.last_id)
        some = functools.partial(
            sqlite_schema.purge_some, model=None if model is None else _name(model), until_id=until_id
        )
        while count := await self._submit_write(some):
            deleted += count
        while await self._submit_write(sqlite_schema.shrink_some):
            pass
        return deleted

    async def stats(self) -> StoreStats:
        self._check_open()
        stats: StoreStats = await self._reader.submit(functools.partial(sqlite_schema.count, now=self._limits.clock()))
        return stats

    async def aclose(self) -> None:
        if self._closed:
            return
        self._write_rows()
        self._closed = True
        if self._eraser is not None:
            await self._eraser.aclose()
        closing = asyncio.gather(self._reader.aclose(), self._writer.aclose())
        await asyncio.wait([closing], timeout=_CLOSE_SECONDS)
        if closing.done():
            closing.result()
        else:
            closing.cancel()
            self._throttled_log.warn("the cache did not close", f"not within {_CLOSE_SECONDS} s")

    def _check_open(self) -> None:
        if self._closed:
            raise StoreError(CLOSED)

    def _submit_write(self, op: _Op) -> asyncio.Future[Any]:
        """Give the writer an operation, which follows the rows that were put before it. Raises StoreError."""
        self._check_open()
        self._write_rows()
        return self._writer.submit(op)

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
            self._writer.submit(functools.partial(sqlite_schema.touch, uses=uses)).add_done_callback(_ignore_error)

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

    def _close_readers(self, reading: SqliteDatabase) -> None:
        reading.close()
        self._loop_reader.close()


def _run(database: SqliteDatabase, ops: Sequence[_Op]) -> list[Any]:
    return database.use(lambda connection: [op(connection) for op in ops])


def _set_read_only(connection: sqlite3.Connection) -> None:
    """The event loop must not wait for a lock: it then gets an error at once."""
    connection.execute("PRAGMA busy_timeout = 0")
    connection.execute("PRAGMA query_only = 1")


async def _wait(result: asyncio.Future[Any], seconds: float) -> Any:
    """Return the result. Raises StoreError when it fails or takes too long."""
    timer = asyncio.get_running_loop().call_later(seconds, _fail_late, result, seconds)
    try:
        return await result
    finally:
        timer.cancel()


def _settle(waiters: list[asyncio.Future[None]], error: BaseException | None) -> None:
    for waiter in waiters:
        if waiter.done():
            continue
        if error is None:
            waiter.set_result(None)
        else:
            waiter.set_exception(error)


def _fail_late(result: asyncio.Future[Any], seconds: float) -> None:
    if not result.done():
        result.set_exception(StoreError(f"not within {seconds} s"))


def _ignore_error(result: asyncio.Future[Any]) -> None:
    """Without this, asyncio logs an exception for which nothing waits."""
    if not result.cancelled():
        result.exception()


def _key(key: str) -> bytes:
    return key.encode("utf-8", "surrogatepass")


def _name(model: str) -> bytes:
    return model.encode("utf-8", "replace")
