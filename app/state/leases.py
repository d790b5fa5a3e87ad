"""Leases: one of several processes does something, and keeps for its successor what it knows."""

import json
from typing import Any

from msgspec import Struct

from app.state.base import Database

_TAKE = (
    "INSERT INTO leases (name, holder, until, value) VALUES (?, ?, ?, ?) ON CONFLICT (name) DO UPDATE SET "
    "holder = excluded.holder, until = excluded.until WHERE leases.holder = excluded.holder OR leases.until < ?"
)


class Lease(Struct, frozen=True):
    is_held: bool
    value: Any
    """What the last holder has kept; None without any."""


def take_lease(database: Database, name: str, holder: str, now: float, seconds: float) -> Lease:
    """Take a lease that no process holds, or hold it for longer. Times are Unix seconds. Blocks. Raises StateError."""
    with database.transaction() as statements:
        statements.execute(_TAKE, (name, holder, now + seconds, "null", now))
        ((found, value),) = statements.execute("SELECT holder, value FROM leases WHERE name = ?", (name,))
    return Lease(found == holder, json.loads(value))


def keep_value(database: Database, name: str, holder: str, value: Any) -> None:
    """Keep a value for the next holder. It blocks. Raises StateError."""
    with database.transaction() as statements:
        statements.execute(
            "UPDATE leases SET value = ? WHERE name = ? AND holder = ?", (json.dumps(value), name, holder)
        )


def release_lease(database: Database, name: str, holder: str) -> None:
    """Let another process take the lease at once. It blocks. Raises StateError."""
    with database.transaction() as statements:
        statements.execute("UPDATE leases SET until = 0 WHERE name = ? AND holder = ?", (name, holder))
