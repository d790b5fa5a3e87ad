"""The golden cases of coding agents, as they are and with each text of the model server cut at every character."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from app.importers.toml_text import write_toml

from tests.clean_environment import clean_environment
from tests.coding_agents.golden_runner import compare, list_cases, read_case, run_case
from tests.coding_agents.stand_in import make_environ, seen, write_stand_in
from tests.fork_server import forked_parley
from tests.golden_comparison import Differences
from tests.terminal.gateway_process import running_gateway, serving_models

CASES = list_cases()
COMMANDS = [name for name in CASES if "command" in read_case(name)["given"]]
REQUESTS = [name for name in CASES if name not in COMMANDS]


def test_every_case_is_played() -> None:
    assert len(CASES) == 93
    assert all("requests" in read_case(name)["given"] for name in REQUESTS)


@pytest.mark.parametrize("name", REQUESTS)
def test_a_golden_case_holds(name: str, tmp_path: Path) -> None:
    case = read_case(name)
    assert compare(case, run_case(case, tmp_path)) == []


@pytest.mark.parametrize("name", REQUESTS)
def test_a_golden_case_holds_with_each_text_cut_at_every_character(name: str, tmp_path: Path) -> None:
    case = read_case(name)
    assert compare(case, run_case(case, tmp_path, list)) == []


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_does_what_the_case_says(name: str, tmp_path: Path) -> None:
    case = read_case(name)
    given, expect = case["given"], case["expect"]
    home = tmp_path / "home"
    home.mkdir()
    if given["stub"] is not None:
        write_stand_in(home / "bin", given["stub"])
    with serving_models(given["upstream_models"]) as upstream:
        (tmp_path / "parley.toml").write_text(write_toml(_insert(given["config"], "<UPSTREAM>", upstream)))
        with running_gateway({"PARLEY_CONFIG": str(tmp_path / "parley.toml")}) as url:
            environ = make_environ(clean_environment(), home) | _insert(given.get("environment", {}), "<GATEWAY>", url)
            command = [*forked_parley(), *_insert(given["command"], "<GATEWAY>", url)]
            done = subprocess.run(
                command, env=environ, cwd=home, capture_output=True, text=True, timeout=100, check=False
            )
    assert done.returncode == expect["exit"], done.stderr
    started = seen(home) if given["stub"] is not None else {"argv": [], "env": {}}
    differences = Differences()
    for name_ in {"argv", "env"} & expect.keys():
        differences.compare(_insert(expect[name_], "<GATEWAY>", url), started[name_], name_)
    assert differences.found == []
    assert set(expect.get("argv_has", ())) <= set(started["argv"])
    for text in expect.get("stdout_has", ()):
        assert text in done.stdout
    for text in expect.get("stderr_has", ()):
        assert text in done.stderr
    assert not [file for file in expect.get("unwritten", ()) if (home / file).exists()]


def _insert(value: Any, placeholder: str, url: str) -> Any:
    return json.loads(json.dumps(value).replace(placeholder, url))
