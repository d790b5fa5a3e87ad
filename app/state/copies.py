"""Copies of the state, and what one caller stored in it.

A backup is an SQLite file with the same tables, whatever the database is, so that a state can also move from one kind
to the other.
"""

from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from app.chat.messages import IDENTITY_SEPARATOR
from app.state.base import Database, Row, StateError, Statements
from app.state.migrations import TABLES, VERSION
from app.state.sqlite import SqliteDatabase

_ROWS = 500
"""As many rows are written with one statement."""
KINDS = ("response", "reasoning", "signature", "details", "conversation")
"""What the keys of values begin with. The identity of the caller follows, which may have colons, and an id without
one."""


_ISSUER_SEPARATOR = ":"
"""The identity of a caller with a JWT has it."""


class KeptValue(NamedTuple):
    key: str
    model: str
    value: bytes
    stored_at: float
    expires_at: float


def count_rows(database: Database) -> dict[str, int]:
    """Return how many rows each table has. Raises StateError."""
    with database.snapshot() as statements:
        return {table: int(statements.execute(f"SELECT count(*) FROM {table}")[0][0]) for table in TABLES}


def back_up(database: Database, file: Path) -> dict[str, int]:
    """Copy the state as it is at one moment into a new file, and return how many rows each table has. Raises StateError
    and FileExistsError."""
    if file.exists():
        raise FileExistsError(f"{file}: exists already; name a new file")
    copy = SqliteDatabase(str(file))
    try:
        with database.snapshot() as source, copy.transaction() as target:
            return {table: _copy(source, target, table) for table in TABLES}
    except BaseException:
        copy.close()
        file.unlink(missing_ok=True)
        raise
    finally:
        copy.close()


def restore(database: Database, file: Path) -> dict[str, int]:
    """Replace the whole state by that of a backup, or change nothing, and return how many rows each table has. Raises
    StateError."""
    if not file.is_file():
        raise StateError(f"{file}: there is no such file")
    backup = SqliteDatabase(str(file))
    try:
        if (found := backup.version()) != VERSION:
            raise StateError(f"{file}: is of version {found}, not {VERSION}; run `parley state migrate` on it first")
        with backup.snapshot() as source, database.transaction() as target:
            before = _read_key_change(target)
            for table in TABLES:
                target.execute(f"DELETE FROM {table}")
            copied = {table: _copy(source, target, table) for table in TABLES}
            if number := max(before, _read_key_change(target)):
                target.execute("DELETE FROM api_key_changes")
                target.execute("INSERT INTO api_key_changes VALUES (1, ?)", (number + 1,))
            return copied
    finally:
        backup.close()


def _read_key_change(statements: Statements) -> int:
    """Return the number that is another one after each change of API keys. A restored one must not be that which
    gateways know: they would go on with the keys that they have read."""
    return int(statements.execute("SELECT coalesce(max(number), 0) FROM api_key_changes")[0][0])


def _copy(source: Statements, target: Statements, table: str) -> int:
    rows = iter(source.execute(f"SELECT * FROM {table}"))
    copied = 0
    while block := [tuple(map(_to_value, row)) for row in islice(rows, _ROWS)]:
        target.execute_many(f"INSERT INTO {table} VALUES ({', '.join('?' * len(block[0]))})", block)
        copied += len(block)
    return copied


def _to_value(value: Any) -> Any:
    return bytes(value) if isinstance(value, memoryview) else value


def read_values(database: Database, caller: str) -> Iterator[KeptValue]:
    """Yield what a caller stored, by the identity under which it is stored; by the name of a key, also what former keys
    of this name stored. Raises StateError."""
    with database.snapshot() as statements:
        rows = _select(statements, 'SELECT "key", model, value, stored_at, expires_at', caller)
    for key, model, value, stored_at, expires_at in rows:
        yield KeptValue(key, model, bytes(value), stored_at, expires_at)


def read_usage(database: Database, key: str) -> list[dict[str, Any]]:
    """Return the totals of an API key, by day and model. Raises StateError."""
    with database.snapshot() as statements:
        rows = statements.execute(
            'SELECT "day", "model", requests, input_tokens, output_tokens, cost FROM usage_totals WHERE "key" = ? '
            'ORDER BY "day", "model"',
            (key,),
        )
    names = ("day", "model", "requests", "input_tokens", "output_tokens", "cost")
    return [dict(zip(names, row, strict=True)) for row in rows]


def delete_values(database: Database, caller: str) -> int:
    """Delete what a caller stored, and return how many values that were. Raises StateError."""
    with database.transaction() as statements:
        found = _select(statements, 'SELECT "key"', caller)
        statements.execute_many('DELETE FROM kept_values WHERE "key" = ?', [(key,) for (key,) in found])
        return len(found)


def _select(statements: Statements, what: str, caller: str) -> list[Row]:
    # The name of a key of the state database is followed by an identity; that of no other caller is.
    ends = ((":", "%:%"), (IDENTITY_SEPARATOR, "%:%:%")) if _ISSUER_SEPARATOR not in caller else ((":", "%:%"),)
    prefixes = [(f"{kind}:{caller}{end}", longer) for kind in KINDS for end, longer in ends]
    where = " OR ".join('(substr("key", 1, ?) = ? AND substr("key", ?) NOT LIKE ?)' for _ in prefixes)
    values = [one for prefix, longer in prefixes for one in (len(prefix), prefix, len(prefix) + 1, longer)]
    return statements.execute(f'{what} FROM kept_values WHERE {where} ORDER BY "key"', values)
