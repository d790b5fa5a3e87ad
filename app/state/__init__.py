"""The state database: SQLite or PostgreSQL, with its schema in versions. It keeps what must not get lost."""

from app.state.base import Database, StateError, Statements, ValueRefused
from app.state.urls import FileUrl, PostgresUrl

__all__ = ["Database", "StateError", "Statements", "ValueRefused", "open_database"]


def open_database(address: FileUrl | PostgresUrl) -> Database:
    """Return the database at an address. It connects, and makes or upgrades its tables, with its first use."""
    if isinstance(address, FileUrl):
        from app.state.sqlite import SqliteDatabase

        return SqliteDatabase(address.path)
    from app.state.postgres import PostgresDatabase  # psycopg is an extra

    return PostgresDatabase(address)
