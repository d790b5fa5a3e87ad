"""What `make check` says of the coverage of pure modules, and when it fails."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.pages.coverage_figures import (
    ROOT,
    Figures,
    add_up,
    describe_pure,
    list_files,
    list_tests,
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
    assert {"app.chat", "app.formats", "app.upstream.chat_completions.assembler"} <= set(modules)
    for pattern in list_files(modules):
        assert (ROOT / pattern.removesuffix("/*")).exists(), pattern
    assert list_files(["app.chat", "app.errors"]) == ["app/chat/*", "app/errors.py"]


def test_the_tests_of_a_module_are_a_file_or_a_folder_of_its_name(tmp_path: Path) -> None:
    (tmp_path / "tests/chat").mkdir(parents=True)
    (tmp_path / "tests/test_params.py").touch()
    assert list_tests(["app.chat", "app.params", "app.errors"], tmp_path) == ["tests/chat", "tests/test_params.py"]


def test_the_files_of_a_package_are_added_up_and_others_do_not_count() -> None:
    files = report(chat__ids=row(3, 4, [7], [[6, -2]]), chat__deep__part=row(6, 6), chat=row(1, 1), chatty=row(0, 9))
    by_module = add_up(files, ["app.chat", "app.params"])
    assert by_module["app.chat"] == Figures(10, 11, ("app/chat/ids.py: 7, 6->exit",))
    assert by_module["app.params"].share == 1.0


def test_pure_modules_must_run_completely() -> None:
    for ran, enough in ((100, True), (98, False)):
        by_module = add_up(report(params=row(ran, 100), cli=row(0, 100)), ["app.params"])
        rows, reached = describe_pure(by_module)
        assert reached is enough
        assert rows[0].split() == [f"{ran / 100:.1%}", "app.params"]


def test_the_command_fails_where_a_pure_module_is_not_run_completely(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "report.json"
    for ran, code in ((10, 0), (9, 1)):
        file.write_text(json.dumps(report(params=row(ran, 10, [3] * (10 - ran)))), "utf-8")
        assert main(file) == code
    assert "app/params.py: 3" in capsys.readouterr().out
