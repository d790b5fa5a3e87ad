"""How `make test` measures the share of app/ that the tests run."""

import ast
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests import whole_coverage
from tests.coverage_marks import BYTES, MARKS, add_marks, measured_files
from tests.each_case import each_case
from tests.whole_coverage import SHARE, WholeCoverage, describe, excluded_lines, expected_marks, is_whole

SOURCE = '''\
"""The module."""
import typing; from typing import TYPE_CHECKING
if TYPE_CHECKING:
    import os
class C(typing.Protocol):
    """The class."""
    def one(self) -> int: ...
    def two(self) -> int:
        ...
def f(numbers):
    """The function."""
    for number in numbers:
        if number:
            continue
        elif numbers[1:]:
            break
    while True:
        try:
            if numbers:
                raise ValueError(numbers[9])
            return 1
        except TypeError:  # pragma: no cover - for the test
            return 2
        except IndexError:
            pass
        match numbers:
            case [0]:
                return 3
            case [_]:
                return 4
            case _:
                typing.assert_never(numbers)
'''


@each_case(
    ("program", "left"),
    [
        ("", "12 12-else 13 14 15 15-else 16 17 18 19 19-else 20 21 25 26 28 30"),
        ("f([])", "13 14 15 15-else 16 20 25 26 28 30"),
        ("f([0])", "14 16 19-else 21 30"),
        ("f([0]); f([1]); f([0, 1] * 9) if 0 else f([])", "16"),
    ],
)
def test_lines_and_branches_that_did_not_run_are_missing(program: str, left: str) -> None:
    marks = bytearray(BYTES)
    exec(compile(add_marks(ast.parse(SOURCE + program)), "source", "exec"), {"__marks__": marks, "__name__": "source"})
    missing = sorted({one for one in expected_marks(SOURCE, excluded_lines()) if not marks[one]})
    assert " ".join(f"{one // 2}{'-else' * (one % 2)}" for one in missing) == left


def test_tracebacks_name_the_lines_of_the_source() -> None:
    names: dict[str, Any] = {"__marks__": bytearray(BYTES)}
    exec(
        compile(add_marks(ast.parse("def fail():\n    number = 0\n\n    return 1 / number\n")), "source", "exec"), names
    )
    with pytest.raises(ZeroDivisionError) as raised:
        names["fail"]()
    assert raised.traceback[-1].lineno == 3  # counted from 0


def test_every_line_of_a_module_has_its_bytes() -> None:
    for path in measured_files():
        assert 2 * len(Path(path).read_text("utf-8").splitlines()) < BYTES - 1, path


@each_case(
    ("options", "source", "whole"),
    [
        ({}, "TESTPATHS", True),
        ({"reruns": 1}, "TESTPATHS", True),
        ({"keyword": "cache"}, "TESTPATHS", False),
        ({"markexpr": "not hypothesis"}, "TESTPATHS", False),
        ({"ignore": ["tests/live"]}, "TESTPATHS", False),
        ({"collectonly": True}, "TESTPATHS", False),
        ({}, "ARGS", False),
    ],
)
def test_a_run_of_some_tests_is_not_judged(options: dict[str, object], source: str, whole: bool) -> None:
    none = {"keyword": "", "markexpr": "", "deselect": None, "ignore": None, "ignore_glob": None, "collectonly": False}
    config = SimpleNamespace(option=SimpleNamespace(**none | options), args_source=pytest.Config.ArgsSource[source])
    assert is_whole(cast(pytest.Config, config)) is whole


@each_case(
    ("before", "share", "programs", "after"),
    [
        (pytest.ExitCode.OK, SHARE, True, pytest.ExitCode.OK),
        (pytest.ExitCode.OK, SHARE - 0.001, True, pytest.ExitCode.TESTS_FAILED),
        (pytest.ExitCode.OK, SHARE - 0.001, False, pytest.ExitCode.OK),
        (pytest.ExitCode.INTERRUPTED, 0.0, True, pytest.ExitCode.INTERRUPTED),
    ],
)
def test_the_run_fails_where_too_little_ran(
    tmp_path: Path, before: pytest.ExitCode, share: float, programs: bool, after: pytest.ExitCode
) -> None:
    session = SimpleNamespace(exitstatus=before)
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv(MARKS, raising=False)
        patch.setattr(whole_coverage, "add_up", lambda: (share, ["app/cli.py: 7\n"]))
        patch.setattr(whole_coverage, "can_run_all", lambda: programs)
        patch.setattr(whole_coverage, "MISSING", tmp_path / "coverage.txt")
        plugin = WholeCoverage()
        plugin.pytest_sessionfinish(cast(pytest.Session, session))
    assert session.exitstatus is after


def test_the_share_is_printed_and_what_it_should_be(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(whole_coverage, "can_run_all", lambda: True)
    assert describe(0.979) == "coverage: 97.90% of the lines and branches of app/"
    assert describe(0.9499).startswith("coverage: 94.99%") and "95%" in describe(0.9499)
    monkeypatch.setattr(whole_coverage, "can_run_all", lambda: False)
    assert "skipped" in describe(0.9499) and "must" not in describe(0.9499)
