"""Totals of usage in PostgreSQL, for gateways on several machines. Needs psycopg (the extra `postgres`)."""

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

import psycopg

from app.usage.stores.base import UsageRowError, UsageStoreError, add_sql, add_values, read_sql, table_sql, to_row
from app.usage.totals import UsageQuery, UsageRow
from app.usage.urls import PostgresUrl, describe_usage_url

_CONNECT_SECONDS = 5
_STATEMENT_MILLISECONDS = 10_000
_ADD = add_sql("%s")
_LOCK = 0x5061726D
"""The advisory lock under which the table is created: two processes at once would get an error."""


class PostgresUsageStore:
    """A connection that is opened with the first use, and again after an error."""

    def __init__(self, address: PostgresUrl) -> None:
        self._url = address.url
        self._name = describe_usage_url(address)
        self._connection: psycopg.Connection[tuple[Any, ...]] | None = None

    def add(self, rows: Sequence[UsageRow]) -> None:
        with self._transaction() as connection:
            try:
                connection.cursor().executemany(_ADD, add_values(rows))
            except (UnicodeEncodeError, psycopg.DataError) as error:
                raise UsageRowError(_first_line(error)) from error

    def read(self, query: UsageQuery, most: int) -> list[UsageRow]:
        text, values = read_sql(query, "%s", most)
        with self._transaction() as connection:
            return [to_row(found) for found in connection.execute(text, values)]

    def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with contextlib.suppress(psycopg.Error):
                connection.close()

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[psycopg.Connection[tuple[Any, ...]]]:
        try:
            if self._connection is None:
                self._connection = self._connect()
            with self._connection.transaction():
                yield self._connection
        except psycopg.Error as error:
            self.close()
            raise UsageStoreError(f"{self._name}: {_first_line(error)}") from error

    def _connect(self) -> psycopg.Connection[tuple[Any, ...]]:
        connection = psycopg.connect(
            self._url,
            autocommit=True,
            connect_timeout=_CONNECT_SECONDS,
            application_name="parley",
            keepalives_idle=30,
        )
        try:
            connection.execute(f"SET statement_timeout = {_STATEMENT_MILLISECONDS}")
            with connection.transaction():
                connection.execute("SELECT pg_advisory_xact_lock(%s)", [_LOCK])
                connection.execute(table_sql("DOUBLE PRECISION"))
        except BaseException:
            connection.close()
            raise
        return connection


def _first_line(error: Exception) -> str:
    return str(error).strip().split("\n", 1)[0] or type(error).__name__
