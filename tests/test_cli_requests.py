"""`parley requests`, and what `parley state` does to logged requests."""

import json
import os
from pathlib import Path

import pytest
from app.cli import main
from app.observe.request_log.file import LogFile, Query

from tests.clean_environment import clean_environment
from tests.each_case import each_case
from tests.observe.request_log.log_entries import add, entry


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(os, "environ", clean_environment())
    monkeypatch.setitem(os.environ, "XDG_DATA_HOME", str(tmp_path))


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> LogFile:
    monkeypatch.setitem(os.environ, "PARLEY_REQUEST_LOG__URL", f"sqlite:///{tmp_path}/requests.db")
    monkeypatch.setitem(os.environ, "PARLEY_STATE__URL", f"sqlite:///{tmp_path}/state.db")
    file = LogFile(str(tmp_path / "requests.db"))
    rows = [("r1", "alice", 1_700_000_000.0), ("r2", "bob", 1_750_000_000.0)]
    add(file, *(entry(f"text of {key}".encode(), id_, key, ended) for id_, key, ended in rows))
    return file


def list_left(file: LogFile) -> list[str]:
    return [one.figures.request_id for one in file.find_entries(Query(), 10)]


def test_the_list_has_a_line_for_each_request(file: LogFile, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["requests", "list", "--key", "bob"]) == 0
    head, row = capsys.readouterr().out.splitlines()
    assert head.split()[:3] == ["ID", "TIME", "ENDPOINT"]
    assert row.split()[0] == "2"
    assert row.endswith("r2")
    assert main(["requests", "list", "--failed"]) == 0
    assert capsys.readouterr().out == "no requests are logged\n"


@pytest.mark.parametrize(
    ("words", "left"),
    [
        (["--key", "alice"], ["r2"]),
        (["--before", "2024-01-01"], ["r2"]),
        (["--user", "u"], ["r2", "r1"]),
        (["--all"], []),
    ],
)
def test_requests_are_deleted_by_key_user_day_or_all(
    words: list[str], left: list[str], file: LogFile, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["requests", "delete", *words, "--yes"]) == 0
    assert "requests deleted" in capsys.readouterr().out
    assert list_left(file) == left


@each_case(
    ("words", "text"),
    [([], "name what to delete"), (["--before", "today"], "must be a day such as"), (["--all"], "use --yes")],
)
def test_a_deletion_that_is_not_clear_is_refused(
    words: list[str], text: str, file: LogFile, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["requests", "delete", *words]) == 2
    assert text in capsys.readouterr().err
    assert list_left(file) == ["r2", "r1"]


def test_a_caller_is_exported_and_deleted_with_the_state(file: LogFile, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["state", "export", "alice"]) == 0
    (line,) = capsys.readouterr().out.splitlines()
    request = json.loads(line)["request"]
    assert (request["request_id"], request["bodies"][0]["text"]) == ("r1", "text of alice")
    assert main(["state", "delete", "alice", "--yes"]) == 0
    assert "1 logged requests deleted" in capsys.readouterr().out
    assert list_left(file) == ["r2"]


def test_what_else_a_caller_stored_is_deleted_also_if_the_log_cannot_be_read(
    file: LogFile, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file.close()
    (tmp_path / "requests.db").write_bytes(b"no database" * 100)
    assert main(["state", "delete", "alice", "--yes"]) == 1
    said = capsys.readouterr()
    assert "0 values deleted" in said.out
    assert "requests.db" in said.err


def test_without_a_file_nothing_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(os.environ, "PARLEY_REQUEST_LOG__URL", f"sqlite:///{tmp_path}/none.db")
    assert main(["requests", "list"]) == 0
    assert "there is no file" in capsys.readouterr().out
    assert not list(tmp_path.iterdir())


def test_a_file_of_another_program_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "other.db").write_bytes(b"no database" * 100)
    monkeypatch.setitem(os.environ, "PARLEY_REQUEST_LOG__URL", f"sqlite:///{tmp_path}/other.db")
    assert main(["requests", "list"]) == 1
    assert "other.db" in capsys.readouterr().err


def test_a_request_is_exported(file: LogFile, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    assert main(["requests", "export", "r1"]) == 0
    report = json.loads(capfdbinary.readouterr().out)
    assert report["client"]["request"]["text"] == "text of alice"
    assert main(["requests", "export", "2", "--as", "curl"]) == 0
    assert b"text of bob" in capfdbinary.readouterr().out
    assert main(["requests", "export", "none"]) == 1
    assert b"no request 'none' is logged" in capfdbinary.readouterr().err
