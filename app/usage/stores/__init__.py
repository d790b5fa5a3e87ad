"""Where the totals of usage are kept: SQLite or PostgreSQL."""

from app.usage.stores.base import UsageRowError, UsageStore, UsageStoreError
from app.usage.stores.sqlite import SqliteUsageStore
from app.usage.urls import FileUrl, PostgresUrl

__all__ = ["SqliteUsageStore", "UsageRowError", "UsageStore", "UsageStoreError", "open_usage_store"]


def open_usage_store(address: FileUrl | PostgresUrl) -> UsageStore:
    """Return the store at an address. It connects with its first use."""
    if isinstance(address, FileUrl):
        return SqliteUsageStore(address.path)
    from app.usage.stores.postgres import PostgresUsageStore  # psycopg is an extra

    return PostgresUsageStore(address)
