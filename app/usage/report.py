"""Read a query for totals of usage from text, and write its result as JSON values, as CSV or as a table. Pure."""

import csv
import io
import re
from collections.abc import Sequence
from datetime import date, timedelta
from typing import Any

from msgspec.structs import asdict

from app.errors import InvalidInput, Violation
from app.usage.totals import (
    DEFAULT_GROUPS,
    GROUPS,
    NUMBERS,
    GroupBy,
    Totals,
    UsageQuery,
    UsageRow,
    split_by_tag,
    sum_totals,
)
from app.validation.nearest import suggest_name

DEFAULT_DAYS = 30
_DAY = re.compile(r"\d{4}-\d{2}-\d{2}", re.ASCII)
_COLUMNS = {
    "requests": "requests",
    "errors": "errors",
    "cache_hits": "hits",
    "input_tokens": "input",
    "cached_input_tokens": "cached",
    "output_tokens": "output",
    "reasoning_tokens": "reasoning",
    "searches": "searches",
    "fetches": "pages",
    "cost": "cost",
}
"""The numbers of the table, with their headings."""


def parse_query(
    today: str,
    *,
    first: str | None = None,
    last: str | None = None,
    group_by: str | None = None,
    key: str | None = None,
    model: str | None = None,
    team: str | None = None,
    user: str | None = None,
    tag: str | None = None,
    names: tuple[str, str, str] = ("from", "to", "group_by"),
) -> UsageQuery:
    """Return a query. Without days, it is about the last 30; `group_by` is a list with commas, by default of day, key
    and model.

    `names` are those of `first`, `last` and `group_by` in messages. Raises InvalidInput.
    """
    violations: list[Violation] = []
    last_day = _parse_day(last, names[1], violations) or date.fromisoformat(today)
    first_day = _parse_day(first, names[0], violations) or last_day - timedelta(days=DEFAULT_DAYS - 1)
    if not violations and first_day > last_day:
        violations.append(Violation(names[0], f"must not be after `{names[1]}` ({last_day})"))
    groups: list[GroupBy] = []
    words = DEFAULT_GROUPS if group_by is None else group_by.split(",")
    for word in dict.fromkeys(part.strip() for part in words):
        found = next((name for name in GROUPS if name == word), None)
        if found is None:
            text = f"must be {', '.join(GROUPS)}, or several of them with commas, not {word[:40]!r}"
            violations.append(Violation(names[2], text + suggest_name(word, GROUPS)))
        else:
            groups.append(found)
    if violations:
        raise InvalidInput(violations)
    return UsageQuery(str(first_day), str(last_day), tuple(groups), key, model, team, user, tag)


def _parse_day(text: str | None, name: str, violations: list[Violation]) -> date | None:
    if text is None:
        return None
    try:
        if _DAY.fullmatch(text):
            return date.fromisoformat(text)
    except ValueError:
        pass
    violations.append(Violation(name, f"must be a day such as 2026-11-22, not {text[:40]!r}"))
    return None


def report_usage(query: UsageQuery, rows: Sequence[UsageRow]) -> dict[str, Any]:
    """Return the result of a query as JSON values; each entry has only the names that it was grouped by."""
    return {
        "from": query.first_day,
        "to": query.last_day,
        "group_by": [name for name in GROUPS if name in query.group_by],
        "data": [_write_names(query, row) | _write_numbers(row.totals) for row in split_by_tag(query, rows)],
        "total": _write_numbers(sum_totals(rows)),
    }


def _write_names(query: UsageQuery, row: UsageRow) -> dict[str, Any]:
    return {name: getattr(row.key, name) for name in GROUPS if name in query.group_by}


def _write_numbers(totals: Totals) -> dict[str, Any]:
    numbers = asdict(totals)
    return {name: round(numbers[name], 9) if name == "cost" else numbers[name] for name in NUMBERS}


def write_csv(query: UsageQuery, rows: Sequence[UsageRow]) -> str:
    """Return the result of a query as CSV (RFC 4180), with the names of the columns in its first line.

    Spreadsheet programs run a cell that begins like a formula: such a name gets an apostrophe before it, as OWASP
    advises (owasp.org/www-community/attacks/CSV_Injection).
    """
    groups = [name for name in GROUPS if name in query.group_by]
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow([*groups, *NUMBERS])
    for row in split_by_tag(query, rows):
        names = _write_names(query, row).values()
        writer.writerow([*map(_escape_formula, names), *_write_numbers(row.totals).values()])
    return text.getvalue()


_FORMULA = re.compile(r"^(?=[=+\-@＝＋－＠\t\r\n])|(?<=[;,\t\r\n])(?=[=+\-@＝＋－＠])")
"""Where a formula could begin: in the cell, or after a character at which a program with other rules would split it."""


def _escape_formula(cell: str) -> str:
    return _FORMULA.sub("'", cell)


def format_table(query: UsageQuery, rows: Sequence[UsageRow]) -> str:
    """Return the result of a query as a table, with the sum of all rows as its last line."""
    groups = [name for name in GROUPS if name in query.group_by]
    lines = [[*groups, *_COLUMNS.values()]]
    split = split_by_tag(query, rows)
    lines += [[*(getattr(row.key, name) or "-" for name in groups), *_write_cells(row.totals)] for row in split]
    lines.append(["total", *[""] * (len(groups) - 1), *_write_cells(sum_totals(rows))])
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join(
        "  ".join(
            cell.ljust(width) if number < len(groups) else cell.rjust(width)
            for number, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    )


def _write_cells(totals: Totals) -> list[str]:
    return [f"{totals.cost:,.4f}" if name == "cost" else f"{getattr(totals, name):,}" for name in _COLUMNS]
