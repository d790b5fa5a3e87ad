"""What `make check` says of pure modules and `make coverage` of the whole, and when they fail."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.pages.coverage_figures import (
    ROOT,
    Figures,
    add_up,
    describe_pure,
    describe_whole,
    list_files,
    main,
    pure_modules,
)


def row(ran: int, of: int, lines: list[int] | None = None, branches: list[list[int]] | None = None) -> dict[str, Any]:
    counts = {"covered_lines": ran, "num_statements": of, "covered_branches": 0, "num_branches": 0}
    return {"summary": counts, "missing_lines": lines or [], "missing_branches": branches or []}


def report(**files: dict[str, Any]) -> dict[str, Any]:
    return {"files": {f"app/{name.replace('__', '/')}.py": one for name, one in files.items()}}


def test_the_pure_modules_are_those_of_the_import_contract() -> None:
    modules = pure_modules()
    assert {"app.chat", "app.formats", "app.upstream.reply.assembler"} <= set(modules)
    for pattern in list_files(modules):
        assert (ROOT / pattern.removesuffix("/*")).exists(), pattern
    assert list_files(["app.chat", "app.errors"]) == ["app/chat/*", "app/errors.py"]


def test_the_files_of_a_package_are_added_up_and_others_count_for_the_whole_alone() -> None:
    files = report(chat__ids=row(3, 4, [7], [[6, -2]]), chat__deep__part=row(6, 6), chat=row(1, 1), chatty=row(0, 9))
    by_module, whole = add_up(files, ["app.chat", "app.nearest"])
    assert by_module["app.chat"] == Figures(10, 11, ("app/chat/ids.py: 7, 6->exit",))
    assert by_module["app.nearest"].share == 1.0
    assert (whole.ran, whole.countable) == (10, 20)


@pytest.mark.parametrize(
    ("pure", "other", "pure_enough", "whole_enough"),
    [(100, 90, True, True), (99, 100, False, True), (100, 89, True, False)],
)
def test_pure_modules_must_run_completely_and_the_whole_nearly_so(
    pure: int, other: int, pure_enough: bool, whole_enough: bool
) -> None:
    by_module, whole = add_up(report(nearest=row(pure, 100), cli=row(other, 100)), ["app.nearest"])
    assert describe_pure(by_module)[1] is pure_enough
    (line,), reached = describe_whole(whole)
    assert reached is whole_enough
    assert line.split()[0] == f"{(pure + other) / 200:.1%}"


def test_the_whole_may_be_left_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "report.json"
    file.write_text(json.dumps(report(nearest=row(10, 10), cli=row(0, 90))), "utf-8")
    assert main(file) == 1
    assert "all of app/" in capsys.readouterr().out
    assert main(file, only_pure=True) == 0
    assert "all of app/" not in capsys.readouterr().out


def test_the_command_fails_where_a_pure_module_is_not_run_completely(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "report.json"
    for ran, code in ((10, 0), (9, 1)):
        file.write_text(json.dumps(report(nearest=row(ran, 10, [3] * (10 - ran)))), "utf-8")
        assert main(file) == code
    assert "app/nearest.py: 3" in capsys.readouterr().out
