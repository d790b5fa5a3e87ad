"""`parley doctor` as operators run it: text and JSON, exit statuses, colours and progress."""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.terminal.gateway_process import COMMAND, clean_environment, running_gateway
from tests.terminal.pseudo_terminal import at_terminal

DOCTOR = (*COMMAND, "doctor")
STORES = {"PARLEY_CACHE__URL": "null:", "PARLEY_USAGE__URL": "null:"}


@pytest.fixture(scope="module")
def gateway() -> Iterator[str]:
    """A gateway with the demo model, which is also a model server."""
    with running_gateway() as url:
        yield url


def doctor(*arguments: str, folder: Path, **environ: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*DOCTOR, *arguments],
        env=clean_environment(**STORES, **environ),
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_a_server_of_which_only_the_url_is_known(gateway: str, tmp_path: Path) -> None:
    ran = doctor("--url", f"{gateway}/v1", folder=tmp_path)
    assert (ran.returncode, ran.stderr) == (0, "")
    assert "\x1b" not in ran.stdout
    assert "  ok       tools      the server returns function calls\n" in ran.stdout
    assert f'base_url = "{gateway}/v1"\n' in ran.stdout
    assert ran.stdout.endswith("\n0 problems, 0 warnings\n")


def test_a_configuration_with_a_problem_ends_with_one_and_what_to_do(gateway: str, tmp_path: Path) -> None:
    ran = doctor(folder=tmp_path, PARLEY_UPSTREAM_URL=gateway)
    assert (ran.returncode, ran.stderr) == (1, "")
    assert f"→ base_url probably lacks /v1: set it to '{gateway}/v1'\n" in ran.stdout
    assert ran.stdout.endswith("\n1 problem, 0 warnings\n")


def test_json_has_every_finding(gateway: str, tmp_path: Path) -> None:
    file = tmp_path / "my.toml"
    file.write_text(
        f'[upstreams.box]\nbase_url = "{gateway}/v1"\n[models.m]\nupstreams = ["box"]\nname = "demo"\n'
        '[models.m.profile]\nnative_tools = false\n[models.gone]\nupstreams = ["box"]\n'
    )
    ran = doctor("--config", "my.toml", "--json", folder=tmp_path)
    report: dict[str, Any] = json.loads(ran.stdout)
    assert (ran.returncode, report["ok"], report["problems"], report["warnings"]) == (1, False, 1, 0)
    (problem,) = [finding for finding in report["findings"] if finding["status"] == "problem"]
    assert problem.keys() == {"subject", "check", "status", "message", "advice", "settings"}
    assert (problem["check"], problem["message"]) == ("models", "it does not list 'gone'; available models: demo")
    subjects = [finding["subject"] for finding in report["findings"]]
    assert subjects[0] == "configuration my.toml"
    assert "model m of upstream box" in subjects
    assert "model gone of upstream box" not in subjects


def test_mistakes_in_the_configuration_are_problems(tmp_path: Path) -> None:
    (tmp_path / "parley.toml").write_text('[server]\nport = 70000\nhots = "x"\n')
    ran = doctor(folder=tmp_path)
    assert ran.returncode == 1
    assert ran.stdout.startswith("configuration parley.toml\n  problem  settings   server.port: ")
    assert ran.stdout.endswith("\n2 problems, 0 warnings\n")


def test_a_url_that_is_none_is_a_usage_error(tmp_path: Path) -> None:
    ran = doctor("--url", "127.0.0.1:8001", folder=tmp_path)
    assert (ran.returncode, ran.stdout) == (2, "")
    assert ran.stderr.startswith("parley: --url: must be an http or https URL")
    assert doctor("--timeout", "0", folder=tmp_path).returncode == 2


def test_at_a_terminal_there_are_colours_and_progress(gateway: str, tmp_path: Path) -> None:
    environ = clean_environment(**STORES, PARLEY_UPSTREAM_URL=f"{gateway}/v1")
    with at_terminal(DOCTOR, environ, folder=str(tmp_path)) as terminal:
        assert terminal.ended() == 0
    assert f"\r\x1b[Kchecking upstream default at {gateway}/v1 …" in terminal.text
    assert "\x1b[32mok     \x1b[0m" in terminal.text
    with at_terminal([*DOCTOR, "--no-probes"], {**environ, "NO_COLOR": "1"}, folder=str(tmp_path)) as terminal:
        assert terminal.ended() == 0
    assert "\x1b[32m" not in terminal.text
