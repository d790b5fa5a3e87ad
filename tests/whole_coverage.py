"""The share of the lines and branches of app/ that the whole of the tests runs, which `make test` prints and judges.

An interpreter that a test starts afresh, and not by forking, is left out unless it loads a module of tests/ first.
"""

import ast
import os
import re
import shutil
import tempfile
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.coverage_marks import (
    BYTES,
    MARKS,
    ROOT,
    can_end_without_body,
    leaves_mark,
    marks_of,
    measured_files,
    write_bytecode,
)

SHARE = 0.95
MISSING = Path("build/coverage.txt")
_PARTS = ("keyword", "markexpr", "deselect", "ignore", "ignore_glob", "collectonly")
"""Options that leave tests out."""


def is_whole(config: pytest.Config) -> bool:
    """Whether all tests are asked for."""
    some = any(getattr(config.option, name) for name in _PARTS)
    return config.args_source is pytest.Config.ArgsSource.TESTPATHS and not some


class WholeCoverage:
    """A plugin of the process that starts the workers of pytest-xdist."""

    def __init__(self) -> None:
        handle, os.environ[MARKS] = tempfile.mkstemp(prefix="parley-tests-")
        os.truncate(handle, len(measured_files()) * BYTES)
        os.close(handle)
        write_bytecode()
        self._line = ""

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if session.exitstatus == pytest.ExitCode.OK:
            share, missing = add_up()
            file = ROOT / MISSING
            file.parent.mkdir(exist_ok=True)
            file.write_text("".join(missing), "utf-8")
            self._line = describe(share)
            if share < SHARE and can_run_all():
                session.exitstatus = pytest.ExitCode.TESTS_FAILED
        Path(os.environ[MARKS]).unlink()

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if self._line:
            terminalreporter.write_line(self._line)


def can_run_all() -> bool:
    """Whether no tests are skipped because a program is not installed that many of them need."""
    return shutil.which("redis-server") is not None


def add_up() -> tuple[float, list[str]]:
    """The share that ran, and what did not, by module."""
    excluded = excluded_lines()
    ran = countable = 0
    missing: list[str] = []
    for path in measured_files():
        marks = marks_of(path)
        expected = expected_marks(Path(path).read_text("utf-8"), excluded)
        ran += sum(marks[one] for one in expected)
        countable += len(expected)
        if left := sorted({one for one in expected if not marks[one]}):
            lines = (f"{one // 2}{' else' * (one % 2)}" for one in left)
            missing.append(f"{Path(path).relative_to(ROOT)}: {', '.join(lines)}\n")
    return ran / countable, missing


def describe(share: float) -> str:
    more = ""
    if not can_run_all():
        more = "; many tests were skipped, because redis-server is not installed"
    elif share < SHARE:
        more = f", which must be {SHARE:.0%}: {MISSING} names the others"
    return f"coverage: {share:.2%} of the lines and branches of app/{more}"


def excluded_lines() -> re.Pattern[str]:
    """Those that coverage.py leaves out in `make check`: by comments and by settings, which give the reasons."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["coverage"]["report"]
    return re.compile("|".join(["# pragma: no cover", *settings["exclude_also"]]))


def expected_marks(source: str, excluded: re.Pattern[str]) -> list[int]:
    """The marks of lines, and those of branches: the first line of a branch counts as both."""
    lines = source.splitlines()

    def is_counted(statement: ast.stmt | ast.excepthandler) -> bool:
        return not excluded.search(lines[statement.lineno - 1])

    def marks(node: ast.AST) -> Iterator[int]:
        for one in ast.iter_child_nodes(node):
            if isinstance(one, ast.stmt | ast.excepthandler) and is_counted(one):
                if isinstance(one, ast.stmt) and leaves_mark(one):
                    yield 2 * one.lineno
                if can_end_without_body(one):
                    ends = [part[0] for part in (one.body, one.orelse) if part]
                    yield from (2 * end.lineno for end in ends if is_counted(end))
                    if not one.orelse:
                        yield 2 * one.lineno + 1
                yield from marks(one)
            elif isinstance(one, ast.match_case):
                yield from marks(one)

    return list(marks(ast.parse(source)))
