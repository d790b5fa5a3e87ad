"""`UsageStore`: the totals of usage in the state database."""

from collections.abc import Sequence
from typing import cast

from msgspec.structs import astuple

from app.state import Database
from app.state.base import Row
from app.usage.tags import join_tags
from app.usage.totals import GROUPS, NUMBERS, GroupBy, RowKey, Totals, UsageQuery, UsageRow

_COLUMNS = (*GROUPS, *NUMBERS)
_KEY: Sequence[GroupBy] = ("day", "key", "model", "user", "tag")
"""What makes a row another one."""


def _quoted(names: Sequence[str]) -> str:
    return ", ".join(f'"{name}"' for name in names)


_ADD = (
    f"INSERT INTO usage_totals ({_quoted(GROUPS)}, {', '.join(NUMBERS)}) "
    f"VALUES ({', '.join('?' * len(_COLUMNS))}) ON CONFLICT ({_quoted(_KEY)}) DO UPDATE SET team = excluded.team, "
    + ", ".join(f"{name} = usage_totals.{name} + excluded.{name}" for name in NUMBERS)
)


class UsageStore:
    """Blocks: it is called from threads."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def add(self, rows: Sequence[UsageRow]) -> None:
        """Add rows to the totals, all or none. Raises StateError and ValueRefused."""
        # In the order of their keys, so that two processes cannot lock each other out.
        values = [
            (*(getattr(row.key, name) for name in GROUPS), *astuple(row.totals))
            for row in sorted(rows, key=lambda row: row.key)
        ]
        with self._database.transaction() as statements:
            statements.execute_many(_ADD, values)

    def read(self, query: UsageQuery, most: int) -> list[UsageRow]:
        """Return the totals in the order of `GROUPS`, at most `most` rows. Raises StateError."""
        text, values = _read_sql(query, most)
        with self._database.transaction() as statements:
            return [_to_row(found) for found in statements.execute(text, values)]

    def delete_before(self, day: str) -> None:
        """Delete the totals of all days before this one. Raises StateError."""
        with self._database.transaction() as statements:
            statements.execute('DELETE FROM usage_totals WHERE "day" < ?', (day,))

    def close(self) -> None:
        self._database.close()


def _read_sql(query: UsageQuery, most: int) -> tuple[str, list[str | int]]:
    """Return the statement that reads the totals, and its values."""
    values: list[str | int] = [query.first_day, query.last_day]
    where = ['"day" >= ?', '"day" <= ?']
    named = (("key", query.key), ("team", query.team), ("user", query.user), ("model", query.model))
    for name, wanted in named:
        if wanted is not None:
            where.append(f'"{name}" = ?')
            values.append(wanted)
    if query.tag is not None:  # whole tags, by their bytes: LIKE ignores the case in SQLite
        where.append('replace(? || "tag" || ?, ?, \'\') <> ? || "tag" || ?')
        comma, tags = join_tags(("", "")), join_tags(("", query.tag, ""))
        values += [comma, comma, tags, comma, comma]
    groups = [f'"{name}"' if name in query.group_by else "''" for name in GROUPS]
    # The sum of integers can overflow; the one of floats is exact up to 2**53.
    sums = ", ".join(f"SUM(CAST({name} AS DOUBLE PRECISION))" for name in NUMBERS)
    order = _quoted([name for name in GROUPS if name in query.group_by])
    text = f"SELECT {', '.join(groups)}, {sums} FROM usage_totals WHERE {' AND '.join(where)}"
    return f"{text} GROUP BY {order} ORDER BY {order} LIMIT ?", [*values, most]


def _to_row(found: Row) -> UsageRow:
    names, sums = cast(Sequence[str], found[: len(GROUPS)]), cast(Sequence[float], found[len(GROUPS) :])
    numbers = (value if name == "cost" else int(value) for name, value in zip(NUMBERS, sums, strict=True))
    return UsageRow(RowKey(**dict(zip(GROUPS, names, strict=True))), Totals(*numbers))  # type: ignore[arg-type]  # the cost alone is a float
