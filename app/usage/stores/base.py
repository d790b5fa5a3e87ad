"""The interface of a store of usage, and the SQL that SQLite and PostgreSQL share.

Both know `INSERT … ON CONFLICT DO UPDATE`, by which several processes add to the same row.
"""

from collections.abc import Sequence
from typing import Protocol, cast

from msgspec.structs import astuple

from app.usage.totals import GROUPS, NUMBERS, RowKey, Totals, UsageQuery, UsageRow


class UsageStoreError(Exception):
    """The database cannot be used now. The message says why, without the login."""


class UsageRowError(Exception):
    """A row has a value that the database cannot hold, such as a sum of more than 64 bits."""


class UsageStore(Protocol):
    """Blocks: it is called from threads, by one at a time."""

    def add(self, rows: Sequence[UsageRow]) -> None:
        """Add rows to the totals, all or none. Raises UsageStoreError and UsageRowError."""

    def read(self, query: UsageQuery, most: int) -> list[UsageRow]:
        """Return the totals in the order of day, key and model, at most `most` rows. Raises UsageStoreError."""

    def close(self) -> None: ...


_COLUMNS = (*GROUPS, *NUMBERS)


def table_sql(real: str) -> str:
    """Return the statement that creates the table; `real` is the type of a number with a fraction."""
    numbers = [f"{name} {real if name == 'cost' else 'BIGINT'} NOT NULL" for name in NUMBERS]
    columns = ", ".join([*(f'"{name}" TEXT NOT NULL' for name in GROUPS), *numbers])
    return f"CREATE TABLE IF NOT EXISTS usage_totals ({columns}, PRIMARY KEY ({_quoted(GROUPS)}))"


def add_sql(mark: str) -> str:
    """Return the statement that adds one row; `mark` stands for a value."""
    added = ", ".join(f"{name} = usage_totals.{name} + excluded.{name}" for name in NUMBERS)
    return (
        f"INSERT INTO usage_totals ({_quoted(GROUPS)}, {', '.join(NUMBERS)}) "
        f"VALUES ({', '.join([mark] * len(_COLUMNS))}) "
        f"ON CONFLICT ({_quoted(GROUPS)}) DO UPDATE SET {added}"
    )


def add_values(rows: Sequence[UsageRow]) -> list[tuple[str | int | float, ...]]:
    """Return the values of rows, in the order of their keys, so that two processes cannot lock each other out."""
    return [(*astuple(row.key), *astuple(row.totals)) for row in sorted(rows, key=lambda row: row.key)]


def read_sql(query: UsageQuery, mark: str, most: int) -> tuple[str, list[str | int]]:
    """Return the statement that reads the totals, and its values."""
    values: list[str | int] = [query.first_day, query.last_day]
    where = [f'"day" >= {mark}', f'"day" <= {mark}']
    for name, wanted in (("key", query.key), ("model", query.model)):
        if wanted is not None:
            where.append(f'"{name}" = {mark}')
            values.append(wanted)
    groups = [f'"{name}"' if name in query.group_by else "''" for name in GROUPS]
    grouped = [f'"{name}"' for name in GROUPS if name in query.group_by]
    # The sum of integers can overflow; the one of floats is exact up to 2**53.
    sums = ", ".join(f"SUM(CAST({name} AS DOUBLE PRECISION))" for name in NUMBERS)
    order = ", ".join(grouped)
    text = f"SELECT {', '.join(groups)}, {sums} FROM usage_totals WHERE {' AND '.join(where)}"
    return f"{text} GROUP BY {order} ORDER BY {order} LIMIT {mark}", [*values, most]


def to_row(found: Sequence[object]) -> UsageRow:
    names, sums = cast(Sequence[str], found[: len(GROUPS)]), cast(Sequence[float], found[len(GROUPS) :])
    numbers = (value if name == "cost" else int(value) for name, value in zip(NUMBERS, sums, strict=True))
    return UsageRow(RowKey(*names), Totals(*numbers))  # type: ignore[arg-type]  # the cost alone is a float


def _quoted(names: Sequence[str]) -> str:
    return ", ".join(f'"{name}"' for name in names)
