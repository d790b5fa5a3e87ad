"""`parley state`."""

import json
import os
from pathlib import Path

import pytest
from app.cli import main
from app.config.load import load
from app.state import open_database
from app.state.migrations import MIGRATIONS, VERSION
from app.state.urls import FileUrl, parse_state_url

from tests.clean_environment import clean_environment

USAGE_ERROR = 2


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(os, "environ", clean_environment())
    monkeypatch.setitem(os.environ, "XDG_DATA_HOME", str(tmp_path))


def fill() -> None:
    address = parse_state_url(load().state.url or "")
    assert isinstance(address, FileUrl)
    database = open_database(address)
    with database.transaction() as statements:
        rows = [("response:key a:1", b'{"id": 1}'), ("reasoning:key a:2", b"\xff"), ("response:key b:3", b"{}")]
        statements.execute_many("INSERT INTO kept_values VALUES (?, 'm', ?, 1.0, 2.0)", rows)
    database.close()


def test_status_and_migrations(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["state", "status"]) == 0
    assert f"version: 0; this Parley has {VERSION}" in capsys.readouterr().out
    assert main(["state", "migrate"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == len(MIGRATIONS)
    fill()
    assert main(["state", "status"]) == 0
    assert "kept_values 3" in capsys.readouterr().out
    assert main(["state", "migrate", "--to", "1"]) == USAGE_ERROR
    assert "use --yes" in capsys.readouterr().err
    assert main(["state", "migrate", "--to", "1", "--yes"]) == 0
    assert "was taken back" in capsys.readouterr().out
    assert main(["state", "migrate", "--to", str(VERSION + 1)]) == USAGE_ERROR
    assert f"from 0 to {VERSION}" in capsys.readouterr().err


def test_a_backup_is_restored(capsys: pytest.CaptureFixture[str]) -> None:
    fill()
    assert main(["state", "backup", "copy.db"]) == 0
    assert main(["state", "backup", "copy.db"]) == 1
    assert "copy.db: exists already" in capsys.readouterr().err
    assert main(["state", "delete", "a", "--yes"]) == 0
    assert "2 values deleted" in capsys.readouterr().out
    assert main(["state", "restore", "copy.db"]) == USAGE_ERROR
    assert main(["state", "restore", "copy.db", "--yes"]) == 0
    capsys.readouterr()
    assert main(["state", "export", "a"]) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [line["value"] for line in lines] == [{"base64": "/w=="}, {"id": 1}]


def test_a_state_that_cannot_be_read_from_outside_is_named(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable, url, words in (
        ("PARLEY_STATE__URL", "memory:", "cannot be read from outside"),
        ("PARLEY_STATE__URL", "null:", "cannot be read from outside"),
        ("PARLEY_CACHE__URL", "redis://r/0", "are in Redis"),
    ):
        with monkeypatch.context() as patch:
            patch.setitem(os.environ, variable, url)
            assert main(["state", "status"]) == USAGE_ERROR
            assert words in capsys.readouterr().err


def test_what_killed_gateways_had_reserved_is_given_back(capsys: pytest.CaptureFixture[str]) -> None:
    fill()
    address = parse_state_url(load().state.url or "")
    assert isinstance(address, FileUrl)
    database = open_database(address)
    with database.transaction() as statements:
        rows = [("key:a:spend_per_day", "2026-11-22", 5, 1_500_000_000), ("all:spend_per_month", "2026-11", 7, 0)]
        statements.execute_many("INSERT INTO spending VALUES (?, ?, ?, ?)", rows)
    assert main(["state", "release"]) == USAGE_ERROR
    assert "use --yes" in capsys.readouterr().err
    assert main(["state", "release", "--yes"]) == 0
    assert capsys.readouterr().out == "key:a:spend_per_day 2026-11-22: 1.5\n"
    with database.transaction() as statements:
        assert statements.execute("SELECT spent, reserved FROM spending ORDER BY spent") == [(5, 0), (7, 0)]
    database.close()
    assert main(["state", "release", "--yes"]) == 0
    assert capsys.readouterr().out == "nothing is reserved\n"
