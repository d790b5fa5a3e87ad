"""`parley doctor` as operators run it: text and JSON, exit statuses, colours and progress."""

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from app.cli import main
from msgspec import Struct

from tests.clean_environment import clean_environment
from tests.terminal.gateway_process import COMMAND, running_gateway
from tests.terminal.pseudo_terminal import at_terminal

DOCTOR = (*COMMAND, "doctor")


class Ran(Struct):
    status: int
    out: str
    err: str


Doctor = Callable[..., Ran]
STORES = {"PARLEY_CACHE__URL": "null:", "PARLEY_USAGE__URL": "null:"}


@pytest.fixture(scope="module")
def gateway() -> Iterator[str]:
    """A gateway with the demo model, which is also a model server."""
    with running_gateway() as url:
        yield url


@pytest.fixture
def doctor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Doctor:
    """Runs the command in an empty folder."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments: str, **environ: str) -> Ran:
        monkeypatch.setattr(os, "environ", clean_environment(**STORES, **environ))
        try:
            status = main(["doctor", *arguments])
        except SystemExit as ended:
            status = int(ended.code or 0)
        return Ran(status, *capsys.readouterr())

    return run


def test_a_tokenizer_file_that_cannot_be_used_is_a_problem(doctor: Doctor) -> None:
    ran = doctor(PARLEY_TOKENIZER="nowhere.json")
    assert (ran.status, ran.err) == (1, "")
    assert "  problem  settings   tokenizer: nowhere.json: cannot be read (No such file or directory)\n" in ran.out


def test_a_server_of_which_only_the_url_is_known(gateway: str, doctor: Doctor) -> None:
    ran = doctor("--url", f"{gateway}/v1")
    assert (ran.status, ran.err) == (0, "")
    assert "\x1b" not in ran.out
    assert "  ok       tools      the server returns function calls\n" in ran.out
    assert f'base_url = "{gateway}/v1"\n' in ran.out
    assert ran.out.endswith("\n0 problems, 0 warnings\n")


def test_a_configuration_with_a_problem_ends_with_one_and_what_to_do(gateway: str, doctor: Doctor) -> None:
    ran = doctor(PARLEY_UPSTREAM_URL=gateway)
    assert (ran.status, ran.err) == (1, "")
    assert f"→ base_url probably lacks /v1: set it to '{gateway}/v1'\n" in ran.out
    assert ran.out.endswith("\n1 problem, 0 warnings\n")


def test_json_has_every_finding(gateway: str, doctor: Doctor) -> None:
    Path("my.toml").write_text(
        f'[upstreams.box]\nbase_url = "{gateway}/v1"\n[models.m]\nupstreams = ["box"]\nname = "demo"\n'
        '[models.m.profile]\nnative_tools = false\n[models.gone]\nupstreams = ["box"]\n'
    )
    ran = doctor("--config", "my.toml", "--json")
    report: dict[str, Any] = json.loads(ran.out)
    assert (ran.status, report["ok"], report["problems"], report["warnings"]) == (1, False, 1, 0)
    (problem,) = [finding for finding in report["findings"] if finding["status"] == "problem"]
    assert problem.keys() == {"subject", "check", "status", "message", "advice", "settings"}
    assert (problem["check"], problem["message"]) == ("models", "it does not list 'gone'; available models: demo")
    subjects = [finding["subject"] for finding in report["findings"]]
    assert subjects[0] == "configuration my.toml"
    assert "model m of upstream box" in subjects
    assert "model gone of upstream box" not in subjects


def test_mistakes_in_the_configuration_are_problems(doctor: Doctor) -> None:
    Path("parley.toml").write_text('[server]\nport = 70000\nhots = "x"\n')
    ran = doctor()
    assert ran.status == 1
    assert ran.out.startswith("configuration parley.toml\n  problem  settings   server.port: ")
    assert ran.out.endswith("\n2 problems, 0 warnings\n")


def test_a_url_that_is_none_is_a_usage_error(doctor: Doctor) -> None:
    ran = doctor("--url", "127.0.0.1:8001")
    assert (ran.status, ran.out) == (2, "")
    assert ran.err.startswith("parley: --url: must be an http or https URL")
    ran = doctor("--url", "http://127.0.0.1:1", PARLEY_UPSTREAM_API_KEY="a\nb")
    assert (ran.status, ran.err) == (2, "parley: PARLEY_UPSTREAM_API_KEY: must be printable ASCII on one line\n")
    ran = doctor("--timeout", "0")
    assert (ran.status, "must be a number of seconds above 0, not '0'" in ran.err) == (2, True)


def test_at_a_terminal_there_are_colours_and_progress(gateway: str, tmp_path: Path) -> None:
    environ = clean_environment(**STORES, PARLEY_UPSTREAM_URL=f"{gateway}/v1")
    with at_terminal(DOCTOR, environ, folder=str(tmp_path)) as terminal:
        assert terminal.wait_until_ended() == 0
    assert f"\r\x1b[Kchecking upstream default at {gateway}/v1 …" in terminal.text
    assert "\x1b[32mok     \x1b[0m" in terminal.text
