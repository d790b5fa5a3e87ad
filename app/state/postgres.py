"""The state in PostgreSQL, for gateways on several machines. Needs psycopg with its pool (the extra `postgres`).

Nothing outlives a transaction, neither prepared statements nor settings: behind a pooler such as PgBouncer each
transaction may be at another connection to the server.
"""

import contextlib
import logging
import threading
import time
from collections.abc import Iterator, Sequence
from typing import Any, Literal, TypeAlias

import psycopg
from psycopg_pool import ConnectionPool, PoolTimeout

from app.state.base import Row, StateError, Statements, ValueRefused
from app.state.migrations import READ_VERSION, migrate
from app.state.urls import PostgresUrl, describe_state_url

_Connection: TypeAlias = psycopg.Connection[tuple[Any, ...]]

_CONNECT_SECONDS = 5
_WAIT_SECONDS = 5.0
"""How long a request waits for a connection, and the pool goes on trying to open one. By itself the pool would try for
minutes, with pauses that double: a server that is back after an outage would not be noticed for as long again."""
_STATEMENT_MILLISECONDS = 10_000
_MAX_CONNECTIONS = 4
_REST_SECONDS = 5.0
"""How long a server that gave no connection is not asked again: each request would wait for it."""
_IDLE_SECONDS = 300.0
_MAX_AGE_SECONDS = 60.0
"""So that a changed DNS name is followed although the old server still answers."""
_LOCK = 0x5061726D
"""The advisory lock under which the tables are changed: only one process may do that."""


logging.getLogger("psycopg.pool").setLevel(logging.CRITICAL)  # its lines repeat what is raised, several times


class _PostgresStatements:
    lock_rows = " FOR UPDATE"

    def __init__(self, connection: _Connection) -> None:
        self._connection = connection

    def execute(self, text: str, values: Row = ()) -> list[Row]:
        try:
            cursor = self._connection.execute(text.replace("?", "%s"), values)
            return list(cursor.fetchall()) if cursor.description else []
        except (UnicodeEncodeError, psycopg.DataError, psycopg.IntegrityError) as error:
            raise ValueRefused(_first_line(error)) from error

    def execute_many(self, text: str, rows: Sequence[Row]) -> None:
        try:
            self._connection.cursor().executemany(text.replace("?", "%s"), rows)
        except (UnicodeEncodeError, psycopg.DataError, psycopg.IntegrityError) as error:
            raise ValueRefused(_first_line(error)) from error


class PostgresDatabase:
    """A few connections, opened when they are needed. One that fails is replaced."""

    kind: Literal["postgres"] = "postgres"

    def __init__(self, address: PostgresUrl) -> None:
        self._url = address.url
        self.name = describe_state_url(address)
        self._lock = threading.Lock()
        self._pool: ConnectionPool[_Connection] | None = None
        self._retry_at, self._last_error = 0.0, ""
        self._is_current = False
        """The tables have the newest version."""

    @contextlib.contextmanager
    def transaction(self) -> Iterator[Statements]:
        self._make_current()
        with self._connected() as connection, _begun(connection):
            yield _PostgresStatements(connection)

    @contextlib.contextmanager
    def snapshot(self) -> Iterator[Statements]:
        self._make_current()
        with self._connected() as connection, _begun(connection):
            connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
            yield _PostgresStatements(connection)

    def migrate(self, to: int | None = None) -> list[str]:
        with self._connected() as connection, _begun(connection):
            connection.execute("SELECT pg_advisory_xact_lock(%s)", [_LOCK])
            done = migrate(_PostgresStatements(connection), "postgres", time.time(), to)
        self._is_current = False
        return done

    def version(self) -> int:
        with self._connected() as connection, _begun(connection):
            ((found,),) = connection.execute("SELECT to_regclass('state_versions') IS NOT NULL").fetchall()
            if not found:
                return 0
            ((version,),) = connection.execute(READ_VERSION).fetchall()
            return int(version)

    def empty_log(self) -> bool:
        """Its operator decides how long its log and its dead rows are kept."""
        return True

    def close(self) -> None:
        with self._lock:
            pool, self._pool = self._pool, None
        if pool is not None:
            pool.close()

    def _make_current(self) -> None:
        if not self._is_current:
            self.migrate()
            self._is_current = True

    @contextlib.contextmanager
    def _connected(self) -> Iterator[_Connection]:
        if time.monotonic() < self._retry_at:
            raise StateError(self._last_error)
        try:
            with self._find_pool().connection() as connection, _closed_if_standby(connection):
                yield connection
        except PoolTimeout as error:
            self._last_error = f"{self.name}: {self._explain()}"
            self._retry_at = time.monotonic() + _REST_SECONDS
            raise StateError(self._last_error) from error
        except psycopg.Error as error:
            raise StateError(f"{self.name}: {_first_line(error)}") from error
        except StateError as error:
            raise StateError(f"{self.name}: {error}") from error

    def _find_pool(self) -> "ConnectionPool[_Connection]":
        with self._lock:
            if self._pool is None:
                self._pool = ConnectionPool(
                    self._url,
                    kwargs={
                        "autocommit": True,
                        "prepare_threshold": None,
                        "connect_timeout": _CONNECT_SECONDS,
                        "application_name": "parley",
                        "keepalives_idle": 30,
                    },
                    min_size=0,
                    max_size=_MAX_CONNECTIONS,
                    timeout=_WAIT_SECONDS,
                    reconnect_timeout=_WAIT_SECONDS,
                    max_idle=_IDLE_SECONDS,
                    max_lifetime=_MAX_AGE_SECONDS,
                    check=ConnectionPool.check_connection,
                    open=True,
                )
            return self._pool

    def _explain(self) -> str:
        """Return why no connection was made: the pool only knows that it waited too long."""
        try:
            psycopg.connect(self._url, connect_timeout=2).close()
        except psycopg.Error as error:
            return _first_line(error)
        return f"no connection became free within {_WAIT_SECONDS:g} s"


@contextlib.contextmanager
def _closed_if_standby(connection: _Connection) -> Iterator[None]:
    """Close a connection to a server that takes no writes: after a failover, the name is that of another server."""
    try:
        yield
    except psycopg.errors.ReadOnlySqlTransaction:
        connection.close()
        raise


@contextlib.contextmanager
def _begun(connection: _Connection) -> Iterator[None]:
    """A transaction whose statements have a time limit."""
    with connection.transaction():
        connection.execute(f"SET LOCAL statement_timeout = {_STATEMENT_MILLISECONDS}")
        yield


def _first_line(error: Exception) -> str:
    return str(error).strip().split("\n", 1)[0] or type(error).__name__
