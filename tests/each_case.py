"""`@each_case`: one test that runs for a table of cases, where a test for each would cost more than the work it does.

It takes what `pytest.mark.parametrize` takes, and decorators may be stacked in the same way. Every case runs, also
after one has failed, and a failure names its case. Fixtures are set up once for all cases: a test that needs fresh ones
for each case, or runs longer than about 50 ms for each, is parametrized with pytest's mark.
"""

import functools
import inspect
import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

MAX_SHOWN = 20
"""Failures after the first one that are named."""
MAX_CHARACTERS = 200
"""Characters of a value in the name of its case."""

_PARAM = type(pytest.param())

_Test = Callable[..., Any]
_Ids = Iterable[object] | Callable[[Any], object] | None


@dataclass(frozen=True, slots=True)
class _Row:
    """The arguments of one case, and its name if it was given one."""

    arguments: dict[str, Any]
    id: str | None

    def name(self) -> str:
        shown = (f"{name}={_shorten(repr(value))}" for name, value in self.arguments.items())
        return _shorten(self.id) if self.id is not None else ", ".join(shown)


@dataclass(frozen=True, slots=True)
class _Table:
    names: tuple[str, ...]
    rows: list[_Row]


@dataclass(frozen=True, slots=True)
class _Cases:
    """A test and the tables of its decorators, the lowest first."""

    test: _Test
    tables: tuple[_Table, ...]

    def __iter__(self) -> Iterator[tuple[_Row, ...]]:
        return itertools.product(*(table.rows for table in self.tables))

    def signature(self) -> inspect.Signature:
        """The arguments that no table gives: fixtures, and what pytest's own mark gives."""
        given = {name for table in self.tables for name in table.names}
        whole = inspect.signature(self.test)
        assert given <= whole.parameters.keys(), (
            f"{self.test.__name__} has no argument {given - whole.parameters.keys()}"
        )
        return whole.replace(parameters=[each for name, each in whole.parameters.items() if name not in given])


@dataclass(slots=True)
class _Outcome:
    """What became of the cases of one test."""

    count: int = 0
    failed: list[tuple[str, BaseException]] = field(default_factory=list)
    skipped: list[BaseException] = field(default_factory=list)

    def add(self, rows: Sequence[_Row], error: BaseException) -> None:
        if isinstance(error, pytest.skip.Exception):
            self.skipped.append(error)
        else:
            self.failed.append((", ".join(row.name() for row in rows), error))

    def raise_failures(self) -> None:
        """Raises the first failure with notes of its case and of the others; skips where every case was skipped."""
        if self.failed:
            (name, first), *others = self.failed
            first.add_note(f"in the case {name}")
            if others:
                first.add_note(f"{len(self.failed)} of {self.count} cases failed; the others:")
            for name, error in others[:MAX_SHOWN]:
                first.add_note(f"  {name}: {type(error).__name__}: {_first_line(error)}")
            if len(others) > MAX_SHOWN:
                first.add_note(f"  and {len(others) - MAX_SHOWN} more")
            raise first
        if len(self.skipped) == self.count:
            raise self.skipped[0] if self.skipped else pytest.skip.Exception("there are no cases")


def each_case(names: str | Sequence[str], values: Iterable[Any], *, ids: _Ids = None) -> Callable[[_Test], _Test]:
    """Runs a test with each of these values; stacked, with each combination.

    `values` holds a value for each case, or a tuple where there are several `names`. `ids` are the names of the cases,
    or a function that names a value; by default a case is named after its arguments.
    """
    split = tuple(name.strip() for name in names.split(",")) if isinstance(names, str) else tuple(names)
    table = _Table(split, list(_rows(split, values, ids)))

    def decorate(test: _Test) -> _Test:
        lower = getattr(test, "cases", None)
        cases = _Cases(lower.test, (*lower.tables, table)) if lower else _Cases(test, (table,))
        run = _run_async(cases) if inspect.iscoroutinefunction(cases.test) else _run(cases)
        functools.update_wrapper(run, test)
        run.__dict__ |= {"cases": cases, "__signature__": cases.signature()}
        return run

    return decorate


def _rows(names: Sequence[str], values: Iterable[Any], ids: _Ids) -> Iterator[_Row]:
    given = None if ids is None or callable(ids) else iter(ids)
    for value in values:
        id = None if given is None else str(next(given))
        row = (value,) if len(names) == 1 else value
        if isinstance(value, _PARAM):
            id, row = str(value.id), value.values
        if callable(ids):
            id = "-".join(str(ids(part)) for part in row)
        yield _Row(dict(zip(names, row, strict=True)), id)


def _run(cases: _Cases) -> _Test:
    def run(**fixtures: Any) -> None:
        outcome = _Outcome()
        for rows in cases:
            outcome.count += 1
            try:
                cases.test(**fixtures, **_arguments(rows))
            except (Exception, pytest.fail.Exception, pytest.skip.Exception) as error:
                outcome.add(rows, error)
        outcome.raise_failures()

    return run


def _run_async(cases: _Cases) -> _Test:
    async def run(**fixtures: Any) -> None:
        outcome = _Outcome()
        for rows in cases:
            outcome.count += 1
            try:
                await cases.test(**fixtures, **_arguments(rows))
            except (Exception, pytest.fail.Exception, pytest.skip.Exception) as error:
                outcome.add(rows, error)
        outcome.raise_failures()

    return run


def _arguments(rows: Sequence[_Row]) -> dict[str, Any]:
    return {name: value for row in rows for name, value in row.arguments.items()}


def _first_line(error: BaseException) -> str:
    return _shorten(str(error).partition("\n")[0])


def _shorten(text: str) -> str:
    return text if len(text) <= MAX_CHARACTERS else f"{text[:MAX_CHARACTERS]}… ({len(text)} characters)"
