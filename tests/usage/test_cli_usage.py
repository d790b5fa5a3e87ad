"""parley usage: what it prints, and what it ends with."""

import json
import os
import time
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from app.cli import main
from app.config.load import load
from app.state import open_database
from app.state.urls import FileUrl, parse_state_url
from app.usage.ledger import name_day
from app.usage.store import UsageStore
from app.usage.totals import RowKey, Totals, UsageRow

from tests.clean_environment import clean_environment


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(os, "environ", clean_environment())
    monkeypatch.setitem(os.environ, "XDG_DATA_HOME", str(tmp_path))


def fill() -> None:
    url = load().usage.url
    assert url is not None
    address = parse_state_url(url)
    assert isinstance(address, FileUrl)
    store = UsageStore(open_database(address))
    today = name_day(time.time())
    store.add(
        [
            UsageRow(RowKey(today, "a", "m"), Totals(requests=2, output_tokens=5, cost=0.5)),
            UsageRow(RowKey(today, "b", "m"), Totals(requests=1)),
        ]
    )
    store.close()


def test_a_table_or_json_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    fill()
    assert main(["usage", "--group-by", "key"]) == 0
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert [line[0] for line in lines] == ["usage:", "key", "a", "b", "total"]
    assert main(["usage", "--json", "--key", "a"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert [(entry["key"], entry["requests"], entry["cost"]) for entry in report["data"]] == [("a", 2, 0.5)]
    assert report["total"]["output_tokens"] == 5
    assert main(["usage", "--csv", "--group-by", "key,team", "--key", "a"]) == 0
    assert [line.split(",")[:3] for line in capsys.readouterr().out.splitlines()] == [
        ["key", "team", "requests"],
        ["a", "", "2"],
    ]


def test_the_last_day_is_today_in_the_time_zone_of_the_settings(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    days = []
    for zone in ("Etc/GMT+12", "Etc/GMT-14"):  # never the same day
        monkeypatch.setitem(os.environ, "PARLEY_USAGE__TIME_ZONE", zone)
        assert main(["usage"]) == 0
        heading = capsys.readouterr().out.splitlines()[0]
        assert heading.endswith(f"to {name_day(time.time(), ZoneInfo(zone))} ({zone})")
        days.append(heading.split()[-2])
    assert days[0] < days[1]


def test_an_option_or_store_that_cannot_be_read_is_an_error_message(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert main(["usage", "--from", "yesterday"]) == 2
    assert "--from: must be a day such as" in capsys.readouterr().err
    for url, text in (("null:", "usage.url is null"), ("memory:", "usage.url is memory")):
        monkeypatch.setitem(os.environ, "PARLEY_USAGE__URL", url)
        assert main(["usage"]) == 2
        assert text in capsys.readouterr().err
    Path("other.db").write_bytes(b"no database" * 100)
    monkeypatch.setitem(os.environ, "PARLEY_USAGE__URL", "sqlite:///other.db")
    assert main(["usage"]) == 1
    assert "other.db" in capsys.readouterr().err


def test_which_configuration_was_read_is_said_beside_the_figures(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert main(["usage", "--json"]) == 0
    assert capsys.readouterr().err == (
        f"parley: configuration: no file (there is no {tmp_path}/parley.toml; see --config)\n"
    )
    (tmp_path / "parley.toml").write_text("[server]\nport = 9000\n")
    assert main(["state", "status"]) == 0
    assert capsys.readouterr().err == f"parley: configuration: {tmp_path}/parley.toml\n"
