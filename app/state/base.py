"""The interface of the state database.

Statements are written once for both kinds of database: a value is marked with `?`, and types that differ are names in
braces (`app.state.migrations`). Both know `INSERT … ON CONFLICT DO UPDATE`, by which processes add to the same row.
"""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any, Literal, Protocol, TypeAlias, TypeVar

T = TypeVar("T")
Row: TypeAlias = Sequence[Any]


class StateError(Exception):
    """The database cannot be used now. The message says why, without the login."""


class ValueRefused(Exception):
    """The database works, but cannot hold a value, such as a sum of more than 64 bits."""


class Statements(Protocol):
    """A transaction in progress."""

    def execute(self, text: str, values: Row = ()) -> list[Row]:
        """Run a statement and return its rows. Raises ValueRefused."""

    def execute_many(self, text: str, rows: Sequence[Row]) -> None:
        """Run a statement once for each row of values. Raises ValueRefused."""

    @property
    def lock_rows(self) -> str:
        """What ends a SELECT whose rows are then changed: `FOR UPDATE`, or nothing where a transaction locks all."""


class Database(Protocol):
    """Blocks: it is called from threads, from several at once."""

    @property
    def kind(self) -> Literal["sqlite", "postgres"]: ...

    @property
    def name(self) -> str:
        """Where the database is, without the login."""

    def transaction(self) -> AbstractContextManager[Statements]:
        """A transaction: all that is written in it is stored when it ends, or nothing. Raises StateError."""

    def snapshot(self) -> AbstractContextManager[Statements]:
        """A transaction that only reads, and sees nothing that others write meanwhile. Raises StateError."""

    def migrate(self, to: int | None = None) -> list[str]:
        """Bring the tables to a version, the newest one by default, and return the names of the steps. Only one
        process does it at a time. Raises StateError."""

    def version(self) -> int:
        """Return the version of the tables, and change nothing. Raises StateError."""

    def empty_log(self) -> bool:
        """Empty the log of changes, which may hold what was deleted. False: it is in use now. Raises StateError."""

    def close(self) -> None:
        """Close all connections. The next use opens them again."""


def run(database: Database, work: Callable[[Statements], T]) -> T:
    """Return the result of `work` in a transaction. Raises StateError."""
    with database.transaction() as statements:
        return work(statements)
