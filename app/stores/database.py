"""A store in the state database, for what later requests rely on. Nothing is evicted from it: a value is kept until it
expires or is deleted.

One thread does all operations that wait in one transaction, so that many requests cost one commit.
"""

import asyncio
import functools
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias, TypeVar

from app.state import Database, StateError, Statements, ValueRefused
from app.stores.base import CLOSED, NotKept, StoredValue, StoreError, StoreLimits
from app.stores.eraser import Eraser
from app.stores.worker import SqliteWorker

T = TypeVar("T")
_Op: TypeAlias = Callable[[Statements], Any]

_SECONDS = 30.0
"""How long an operation may take, the wait for others included."""
_CLOSE_SECONDS = 5.0
_MAX_WAITING = 4096
_FORGET_SECONDS = 10.0
"""How often expired values are deleted, when something is stored."""
_BATCH = 500
_READ = 'SELECT value, stored_at FROM kept_values WHERE "key" = ? AND expires_at > ?'
_WRITE = (
    'INSERT INTO kept_values ("key", model, value, stored_at, expires_at) VALUES (?, ?, ?, ?, ?) '
    'ON CONFLICT ("key") DO UPDATE SET model = excluded.model, value = excluded.value, '
    "stored_at = excluded.stored_at, expires_at = excluded.expires_at"
)
_DELETE = 'DELETE FROM kept_values WHERE "key" = ?'
_FORGET = (
    'DELETE FROM kept_values WHERE "key" IN '
    f'(SELECT "key" FROM kept_values WHERE expires_at <= ? ORDER BY expires_at LIMIT {_BATCH})'
)


class DatabaseStore:
    """A `StateStore`. Of the limits, only `max_entry_bytes` and the clock count."""

    def __init__(self, database: Database, limits: StoreLimits | None = None) -> None:
        """The store does not close the database."""
        self._limits = limits or StoreLimits()
        self._worker = SqliteWorker[_Op]("state", functools.partial(run_batch, database), lambda: None)
        self._eraser = Eraser(lambda: asyncio.to_thread(database.empty_log))
        self._forgotten_at = 0.0
        self._closed = False

    async def get(self, key: str) -> StoredValue | None:
        now = self._limits.clock()
        rows = await self._do(lambda statements: statements.execute(_READ, (key, now)))
        return StoredValue(bytes(rows[0][0]), float(rows[0][1])) if rows else None

    async def put(self, key: str, value: bytes, *, ttl_seconds: float, model: str) -> None:
        if len(value) > self._limits.max_entry_bytes:
            raise NotKept(f"{len(value)} bytes are too many for this store")
        now = self._limits.clock()
        row = (key, _clean(model), value, now, now + ttl_seconds)
        await self._do(lambda statements: statements.execute(_WRITE, row))
        if now - self._forgotten_at > _FORGET_SECONDS:
            self._forgotten_at = now
            await self._do(lambda statements: statements.execute(_FORGET, (now,)))

    async def delete(self, key: str) -> None:
        await self._do(lambda statements: statements.execute(_DELETE, (key,)))
        self._eraser.note_deletion()

    async def aclose(self) -> None:
        self._closed = True
        await self._eraser.aclose()
        await asyncio.wait([asyncio.ensure_future(self._worker.aclose())], timeout=_CLOSE_SECONDS)

    async def _do(self, op: Callable[[Statements], T]) -> T:
        if self._closed:
            raise StoreError(CLOSED)
        if self._worker.waiting > _MAX_WAITING:
            raise StoreError("too many operations wait for the state database")
        try:
            async with asyncio.timeout(_SECONDS):
                result: T = await self._worker.submit(op)
                return result
        except TimeoutError:
            raise StoreError(f"not within {_SECONDS:g} s") from None
        except (StateError, ValueRefused) as error:
            raise StoreError(str(error)) from error


def run_batch(database: Database, ops: Sequence[_Op]) -> list[Any]:
    """Return the result or the error of each operation. All are one transaction, or each is one of its own if one of
    them fails."""
    try:
        with database.transaction() as statements:
            return [op(statements) for op in ops]
    except ValueRefused:
        return [_run_alone(database, op) for op in ops]


def _run_alone(database: Database, op: _Op) -> Any:
    try:
        with database.transaction() as statements:
            return op(statements)
    except (StateError, ValueRefused) as error:
        return error


def _clean(name: str) -> str:
    """Return a name that every database can hold: PostgreSQL takes no NUL."""
    return name.encode("utf-8", "replace").decode().replace("\x00", "")
