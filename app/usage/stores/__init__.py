"""Where the totals of usage are kept: SQLite or PostgreSQL."""

from app.usage.stores.base import UsageStore, UsageStoreError
from app.usage.stores.sqlite import SqliteUsageStore
from app.usage.urls import FileUrl, PostgresUrl

__all__ = ["SqliteUsageStore", "UsageStore", "UsageStoreError", "open_usage_store"]


def open_usage_store(address: FileUrl | PostgresUrl) -> UsageStore:
    """Return the store at an address. It connects with its first use. Raises UsageStoreError without psycopg."""
    if isinstance(address, FileUrl):
        return SqliteUsageStore(address.path)
    try:
        from app.usage.stores.postgres import PostgresUsageStore
    except ImportError:
        raise UsageStoreError(
            "usage.url needs the package psycopg for PostgreSQL: install parley-gateway[postgres]"
        ) from None
    return PostgresUsageStore(address)
