"""Secrets that the gateway makes for itself, the same for all processes of one state database."""

import os

from app.state.base import Database

_BYTES = 32


def read_secret(database: Database, name: str) -> bytes:
    """Return the secret of this name, which is made when it is first read. It blocks. Raises StateError."""
    with database.transaction() as statements:
        statements.execute(
            "INSERT INTO secrets (name, value) VALUES (?, ?) ON CONFLICT (name) DO NOTHING", (name, os.urandom(_BYTES))
        )
        ((value,),) = statements.execute("SELECT value FROM secrets WHERE name = ?", (name,))
    return bytes(value)
