"""API keys in the state database: made, changed, rotated and revoked while gateways run.

Of a key only the SHA-256 is stored. Every change raises a number, by which the other processes notice it.
"""

import json
import time
from collections.abc import Callable, Mapping
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from app.state import Database, Statements, ValueRefused
from app.state.base import Row

_COLUMNS = (
    "name, sha256, settings, note, created_at, created_by, expires_at, previous_sha256, previous_until, last_used_at, "
    "identity"
)
_READ = f"SELECT {_COLUMNS} FROM api_keys"
_INSERT = f"INSERT INTO api_keys ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
_UPDATE = (
    "UPDATE api_keys SET sha256 = ?, settings = ?, note = ?, expires_at = ?, previous_sha256 = ?, previous_until = ? "
    "WHERE name = ?"
)

_KEPT = "name, settings, note, created_at, created_by, expires_at, last_used_at"
_REVOKED = f"{_KEPT}, revoked_at, revoked_by"
_MOST_REVOKED = 1000
_REVOKE = (
    f"INSERT INTO revoked_api_keys ({_REVOKED}) SELECT {_KEPT}, ?, ? FROM api_keys WHERE name = ? "
    "ON CONFLICT (name) DO UPDATE SET "
    + ", ".join(f"{column} = excluded.{column}" for column in _REVOKED.split(", ")[1:])
)


class KeyExists(Exception):
    """There is a key with this name, or the hash is that of another key."""


class KeyExpired(Exception):
    """The key is refused already, and so would be what replaces it."""


class KeyRow(Struct, frozen=True):
    """One key. Times are in Unix seconds."""

    name: str
    sha256: str
    settings: Mapping[str, Any]
    """What the key may do: the fields of `keys.<name>` in the settings, without the hash and the expiry."""
    note: str
    created_at: float
    created_by: str
    """The name of the key that made it."""
    expires_at: float | None = None
    previous_sha256: str | None = None
    """The hash before the last rotation."""
    previous_until: float | None = None
    """Until when the key before is accepted too."""
    last_used_at: float | None = None
    identity: str = ""
    """What tells it from a former key of the same name; empty for a key of an older version, which has no other."""


class RevokedKey(Struct, frozen=True):
    """A key that is refused for good: what it was, without its hash. Times are in Unix seconds."""

    name: str
    settings: Mapping[str, Any]
    note: str
    created_at: float
    created_by: str
    expires_at: float | None
    last_used_at: float | None
    revoked_at: float
    revoked_by: str
    """The name of the key that revoked it."""


class StoredKeys:
    """Blocks: it is called from threads. Every method raises StateError while the database cannot be used."""

    def __init__(self, database: Database, clock: Callable[[], float] = time.time, *, has_admin: bool = True) -> None:
        """`clock` returns the Unix time. Without an administrator there are only keys of an earlier one."""
        self.has_admin = has_admin
        self._database = database
        self._clock = clock
        self.was_read = False
        """Whether the keys were read since the process began."""
        self.were_there = False
        """Whether there was ever a key, as far as they were read."""

    def read_change(self) -> int:
        """Return a number that is another one after each change."""
        with self._database.snapshot() as statements:
            return _read_change(statements)

    def read(self) -> tuple[int, list[KeyRow]]:
        """Return the number of the last change, and all keys in the order of their names."""
        with self._database.snapshot() as statements:
            rows = [_to_row(row) for row in statements.execute(f"{_READ} ORDER BY name")]
            change = _read_change(statements)
        self.was_read, self.were_there = True, change > 0
        return change, rows

    def add(self, row: KeyRow) -> None:
        """Store a new key. Raises KeyExists."""
        with self._database.transaction() as statements:
            try:
                statements.execute(_INSERT, _to_values(row))
            except ValueRefused:
                raise KeyExists from None
            _count_change(statements)

    def change(self, name: str, change: Callable[[KeyRow], KeyRow]) -> KeyRow | None:
        """Change a key; None if there is none with this name."""
        with self._database.transaction() as statements:
            found = statements.execute(f"{_READ} WHERE name = ?{statements.lock_rows}", (name,))
            if not found:
                return None
            row = change(_to_row(found[0]))
            statements.execute(
                _UPDATE,
                (
                    *(row.sha256, json.dumps(dict(row.settings)), row.note, row.expires_at),
                    *(row.previous_sha256, row.previous_until, name),
                ),
            )
            _count_change(statements)
            return row

    def rotate(self, name: str, sha256: str, overlap_seconds: float) -> KeyRow | None:
        """Give a key another hash. The one before is accepted for `overlap_seconds` more, and the one before that no
        longer. None if there is no key with this name. Raises KeyExpired."""
        now = self._clock()

        def rotated(row: KeyRow) -> KeyRow:
            if row.expires_at is not None and row.expires_at <= now:
                raise KeyExpired
            return replace(row, sha256=sha256, previous_sha256=row.sha256, previous_until=now + overlap_seconds)

        return self.change(name, rotated)

    def read_revoked(self) -> list[RevokedKey]:
        """Return the keys that were revoked last, at most 1000; of each name the last one."""
        with self._database.snapshot() as statements:
            rows = statements.execute(
                f"SELECT {_REVOKED} FROM revoked_api_keys ORDER BY revoked_at DESC LIMIT {_MOST_REVOKED}"
            )
        return [RevokedKey(name, json.loads(settings), *rest) for name, settings, *rest in rows]

    def revoke(self, name: str, revoked_by: str) -> bool:
        """Revoke a key: only what it was is kept. Returns whether there was one."""
        with self._database.transaction() as statements:
            if not statements.execute(f"SELECT 1 FROM api_keys WHERE name = ?{statements.lock_rows}", (name,)):
                return False
            statements.execute(_REVOKE, (self._clock(), revoked_by, name))
            statements.execute("DELETE FROM api_keys WHERE name = ?", (name,))
            _count_change(statements)
            return True

    def record_use(self, used: Mapping[str, float]) -> None:
        """Set when keys were used last. That is no change which others must notice."""
        with self._database.transaction() as statements:
            statements.execute_many(
                "UPDATE api_keys SET last_used_at = ? WHERE name = ? AND (last_used_at IS NULL OR last_used_at < ?)",
                [(at, name, at) for name, at in sorted(used.items())],
            )


def _read_change(statements: Statements) -> int:
    return int(statements.execute("SELECT coalesce(max(number), 0) FROM api_key_changes")[0][0])


def _count_change(statements: Statements) -> None:
    statements.execute(
        "INSERT INTO api_key_changes VALUES (1, 1) ON CONFLICT (id) DO UPDATE SET number = api_key_changes.number + 1"
    )


def _to_values(row: KeyRow) -> Row:
    return (
        *(row.name, row.sha256, json.dumps(dict(row.settings)), row.note, row.created_at, row.created_by),
        *(row.expires_at, row.previous_sha256, row.previous_until, row.last_used_at, row.identity),
    )


def _to_row(found: Row) -> KeyRow:
    name, sha256, settings, *rest = found
    return KeyRow(name, sha256, json.loads(settings), *rest)
