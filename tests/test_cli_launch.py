"""`parley launch` and `parley configure` with a program in the agent's place, in front of a running gateway."""

import json
import os
import signal
import subprocess
import time
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
from app.cli import main
from app.coding_agents.agents import AGENTS
from app.commands import agent_gateway
from app.terminal import Gateway

from tests.clean_environment import clean_environment
from tests.coding_agents.stand_in import make_environ, seen, write_stand_in
from tests.fork_server import forked_parley
from tests.restored_logging import restored_logging
from tests.terminal.gateway_process import running_gateway, serving_models

SETTINGS = """
default_model = "qwen3"
[upstreams.up]
base_url = "http://127.0.0.1:1/v1"
kind = "vllm"
[models.other]
upstreams = ["up"]
[models.qwen3]
upstreams = ["up"]
profile = { media = [], max_input_tokens = 24576, max_output_tokens = 8192 }
"""


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("gateway")
    (folder / "parley.toml").write_text(SETTINGS)
    with running_gateway({"PARLEY_CONFIG": str(folder / "parley.toml")}) as url:
        yield url


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A home folder, and a program for each agent that keeps what it is given and ends with 7."""
    for agent in AGENTS.values():
        write_stand_in(tmp_path / "bin", agent.program)
    monkeypatch.setattr(os, "environ", make_environ(clean_environment(), tmp_path))
    monkeypatch.chdir(tmp_path)
    with restored_logging():
        yield tmp_path


def test_claude_code_asks_the_gateway_and_its_exit_status_is_passed_on(gateway: str, home: Path) -> None:
    os.environ.update(CLAUDE_CODE_USE_BEDROCK="1", ANTHROPIC_MODEL="opus", ANTHROPIC_API_KEY="mine", OTHER="kept")
    assert main(["launch", "claude", "--url", gateway, "--", "-p", "hi", "--", "--url"]) == 7
    given = seen(home)
    assert given["argv"] == ["--model", "qwen3", "-p", "hi", "--", "--url"]
    expected = {
        "ANTHROPIC_BASE_URL": gateway,
        "ANTHROPIC_AUTH_TOKEN": "any",
        "CLAUDE_CODE_MAX_CONTEXT_TOKENS": "32768",
        "CLAUDE_CODE_MAX_OUTPUT_TOKENS": "8192",
        "OTHER": "kept",
    }
    assert {name: given["env"].get(name) for name in expected} == expected
    assert not {"CLAUDE_CODE_USE_BEDROCK", "ANTHROPIC_MODEL", "ANTHROPIC_API_KEY"} & given["env"].keys()
    assert not (home / ".claude").exists()


def test_settings_of_claude_code_that_lead_elsewhere_are_overruled(gateway: str, home: Path) -> None:
    (home / ".claude").mkdir()
    (home / ".claude" / "settings.json").write_text('{"env": {"ANTHROPIC_BASE_URL": "http://elsewhere"}}')
    (home / ".claude" / "settings.local.json").write_bytes(b"\xff")
    assert main(["launch", "claude", "--url", gateway]) == 7
    option, file, *rest = seen(home)["argv"]
    assert (option, rest) == ("--settings", ["--model", "qwen3"]) and not Path(file).exists()
    assert "elsewhere" in (home / ".claude" / "settings.json").read_text()


def test_codex_gets_the_model_that_is_named_and_the_key_of_another_variable(gateway: str, home: Path) -> None:
    os.environ["MY_KEY"] = "secret"
    arguments = ["launch", "codex", "--url", f"{gateway}/v1/", "--model", "other", "--key-env", "MY_KEY", "--", "exec"]
    assert main(arguments) == 7
    given = seen(home)
    assert given["argv"][-1] == "exec" and 'model="other"' in given["argv"]
    assert f'model_providers.parley.base_url="{gateway}/v1"' in given["argv"]
    assert given["env"]["PARLEY_API_KEY"] == "secret"


def test_pi_has_the_rest_of_its_own_folder_which_stays_as_it_is(gateway: str, home: Path) -> None:
    own = home / ".pi" / "agent"
    own.mkdir(parents=True)
    (own / "settings.json").write_text("mine")
    (own / "models.json").write_text("old")
    assert main(["launch", "pi", "--url", gateway]) == 7
    files = seen(home)["files"]
    assert files["settings.json"] == "mine" and gateway in files["models.json"]
    assert (own / "models.json").read_text() == "old"
    assert not Path(seen(home)["env"]["PI_CODING_AGENT_DIR"]).exists()


def test_a_missing_program_ends_with_127_and_its_install_line(
    gateway: str, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (home / "bin" / "codex").unlink()
    assert main(["launch", "codex", "--url", gateway]) == 127
    assert "npm install -g @openai/codex" in capsys.readouterr().err


def test_a_named_gateway_that_does_not_run_is_not_started(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["launch", "claude", "--url", "http://127.0.0.1:1"]) == 1
    assert "cannot connect to http://127.0.0.1:1" in capsys.readouterr().err
    assert not (home / "seen.json").exists()


def test_a_gateway_is_started_for_as_long_as_the_agent_runs(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agent_gateway, "DEFAULT_URL", "http://127.0.0.1:1")
    assert main(["launch", "claude"]) == 7
    given = seen(home)
    assert given["argv"] == ["--model", "demo"]
    url = given["env"]["ANTHROPIC_BASE_URL"]
    assert url.startswith("http://127.0.0.1:") and not agent_gateway.is_parley(url)


def test_a_gateway_that_cannot_start_says_why(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(agent_gateway, "DEFAULT_URL", "http://127.0.0.1:1")
    Path("parley.toml").write_text("modles = 1\n")
    assert main(["launch", "claude"]) == 1
    assert "modles" in capsys.readouterr().err
    assert not (home / "seen.json").exists()


def test_a_signal_is_the_agents(gateway: str, home: Path) -> None:
    command = [*forked_parley(), "launch", "claude", "--url", gateway, "--", "wait"]
    with subprocess.Popen(command, env=dict(os.environ), stdin=subprocess.DEVNULL) as process:
        deadline = time.monotonic() + 60
        while not (home / "seen.json").exists() and time.monotonic() < deadline:
            time.sleep(0.02)
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 128 + signal.SIGTERM


def test_a_dry_run_shows_the_changes_and_writes_nothing(
    gateway: str, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["configure", "claude", "--url", gateway, "--dry-run"]) == 0
    shown = capsys.readouterr().out
    assert f'+ env.ANTHROPIC_BASE_URL = "{gateway}"' in shown
    assert '+ env.CLAUDE_CODE_MAX_CONTEXT_TOKENS = "32768"' in shown
    assert not (home / ".claude").exists() and not (home / ".local").exists()


def test_without_a_terminal_nothing_is_changed_unless_yes_is_given(
    gateway: str, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["configure", "codex", "--url", gateway]) == 2
    assert not (home / ".codex").exists()
    assert "use --yes" in capsys.readouterr().err


def test_what_was_there_is_put_back(gateway: str, home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = home / ".codex" / "config.toml"
    file.parent.mkdir()
    file.write_text('# mine\nmodel = "o"   # two\n\n[projects."/a"]\ntrust_level = "trusted"\n')
    before = file.read_text()
    assert main(["configure", "codex", "--url", gateway, "--yes"]) == 0
    changed = tomllib.loads(file.read_text())
    assert changed["model"] == "qwen3" and changed["model_providers"]["parley"]["base_url"] == f"{gateway}/v1"
    assert "env_key" not in changed["model_providers"]["parley"] and "projects" in changed
    assert main(["configure", "codex", "--url", gateway, "--model", "other", "--yes"]) == 0
    assert tomllib.loads(file.read_text())["model"] == "other"
    assert main(["configure", "codex", "--undo", "--yes"]) == 0
    assert file.read_text() == before
    assert main(["configure", "codex", "--undo", "--yes"]) == 1
    assert "nothing to undo" in capsys.readouterr().err


ODD_JSON = b'{\r\n "env" :{"A": "1", "ANTHROPIC_BASE_URL": "https://x.example"},\n\n"model": "\xc3\xbc"}'


@pytest.mark.parametrize(
    ("agent", "path", "before"),
    [
        ("claude", ".claude/settings.json", ODD_JSON),
        (
            "codex",
            ".codex/config.toml",
            b'# a\r\nmodel = "o"\r\n[model_providers.parley]\nname="a"\r\n\n[t]\nx = 1',
        ),
        ("opencode", ".config/opencode/opencode.json", ODD_JSON),
        ("pi", ".pi/agent/models.json", ODD_JSON),
        ("qwen", ".qwen/settings.json", b"{ }\r\n\r\n"),
    ],
)
def test_every_byte_of_what_was_there_is_put_back(
    gateway: str, home: Path, agent: str, path: str, before: bytes
) -> None:
    file = home / path
    file.parent.mkdir(parents=True)
    file.write_bytes(before)
    assert main(["configure", agent, "--url", gateway, "--yes"]) == 0
    assert file.read_bytes() != before
    assert main(["configure", agent, "--undo", "--yes"]) == 0
    assert file.read_bytes() == before


def test_codex_gets_a_catalogue_of_the_models_which_goes_again(
    gateway: str, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file, catalogue = home / ".codex" / "config.toml", home / ".codex" / "parley-models.json"
    arguments = ["configure", "codex", "--url", gateway, "--models"]
    assert main([*arguments, "--dry-run"]) == 0
    shown = capsys.readouterr()
    assert f"{catalogue}: 2 models" in shown.out and "in place of its own prompt" in shown.err
    assert not catalogue.parent.exists()
    assert main([*arguments, "--yes"]) == 0
    assert tomllib.loads(file.read_text())["model_catalog_json"] == str(catalogue)
    entries = json.loads(catalogue.read_text())["models"]
    assert {entry["slug"]: entry.get("context_window") for entry in entries} == {"other": None, "qwen3": 32768}
    catalogue.write_text("{}")
    assert main([*arguments, "--yes"]) == 0, "a list that has changed is written again"
    assert len(json.loads(catalogue.read_text())["models"]) == 2
    assert main(["configure", "codex", "--url", gateway, "--yes"]) == 0
    assert not catalogue.exists() and "model_catalog_json" not in file.read_text()
    assert main([*arguments, "--yes"]) == 0
    assert main(["configure", "codex", "--undo", "--yes"]) == 0
    assert not file.exists() and not catalogue.exists()


def test_a_catalogue_that_the_user_changed_stays(gateway: str, home: Path) -> None:
    assert main(["configure", "codex", "--url", gateway, "--models", "--yes"]) == 0
    catalogue = home / ".codex" / "parley-models.json"
    catalogue.write_text("mine")
    assert main(["configure", "codex", "--undo", "--yes"]) == 0
    assert catalogue.read_text() == "mine"


def test_a_catalogue_is_codexs_alone_and_needs_the_gateways_list(
    gateway: str, home: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert main(["configure", "claude", "--url", gateway, "--models", "--yes"]) == 2
    assert "Claude Code reads no catalogue" in capsys.readouterr().err
    listed = Gateway.list_for_agents
    monkeypatch.setattr(Gateway, "list_for_agents", lambda *words: (listed(*words)[0], []))
    assert main(["configure", "codex", "--url", gateway, "--models", "--yes"]) == 1
    assert "agents.codex_models" in capsys.readouterr().err
    assert not (home / ".codex").exists()


def test_the_window_is_the_one_that_the_model_server_lists(home: Path, tmp_path: Path) -> None:
    with serving_models([{"id": "served", "max_model_len": 40000}]) as upstream:
        (tmp_path / "parley.toml").write_text(
            f'[agents]\ncodex_models = false\n[upstreams.up]\nbase_url = "{upstream}/v1"\n'
            '[models.m]\nupstreams = ["up"]\nname = "served"\n'
        )
        with running_gateway({"PARLEY_CONFIG": str(tmp_path / "parley.toml")}) as url:
            assert main(["launch", "codex", "--url", url, "--", "exec"]) == 7
    assert {"model_context_window=40000", "model_auto_compact_token_limit=31808"} <= {*seen(home)["argv"]}


def test_what_the_user_changed_since_stays(gateway: str, home: Path) -> None:
    file = home / ".claude" / "settings.json"
    file.parent.mkdir()
    file.write_text('{"model": "opus", "env": {"A": "1"}}')
    file.chmod(0o640)
    assert main(["configure", "claude", "--url", gateway, "--yes"]) == 0
    settings = json.loads(file.read_text())
    assert settings["model"] == "qwen3" and settings["env"]["ANTHROPIC_AUTH_TOKEN"] == "any"
    assert file.stat().st_mode & 0o777 == 0o640
    settings["env"]["CLAUDE_CODE_SUBAGENT_MODEL"] = "mine"
    settings["theme"] = "dark"
    file.write_text(json.dumps(settings))
    assert main(["configure", "claude", "--undo", "--yes"]) == 0
    assert json.loads(file.read_text()) == {
        "model": "opus",
        "env": {"A": "1", "CLAUDE_CODE_SUBAGENT_MODEL": "mine"},
        "theme": "dark",
    }


def test_a_new_file_is_removed_again(gateway: str, home: Path) -> None:
    assert main(["configure", "opencode", "--url", gateway, "--yes"]) == 0
    file = home / ".config" / "opencode" / "opencode.json"
    assert json.loads(file.read_text())["model"] == "parley/qwen3" and file.stat().st_mode & 0o777 == 0o600
    assert main(["configure", "opencode", "--undo", "--yes"]) == 0
    assert not file.exists()


def test_a_file_that_cannot_be_read_stays_and_the_values_are_printed(
    gateway: str, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = home / ".claude" / "settings.json"
    file.parent.mkdir()
    file.write_text("{ // mine\n}")
    assert main(["configure", "claude", "--url", gateway, "--yes"]) == 2
    told = capsys.readouterr().err
    assert "is not valid JSON" in told and f'env.ANTHROPIC_BASE_URL = "{gateway}"' in told
    assert file.read_text() == "{ // mine\n}"


def test_a_key_of_the_user_is_not_shown_and_a_variable_that_wins_is_named(
    gateway: str, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    os.environ.update(ANTHROPIC_API_KEY="mine", PARLEY_API_KEY="secret")
    (home / ".claude").mkdir()
    (home / ".claude" / "settings.json").write_text('{"apiKeyHelper": "echo users-secret"}')
    assert main(["configure", "claude", "--url", gateway, "--yes"]) == 0
    shown = capsys.readouterr()
    assert "users-secret" not in shown.out and '- apiKeyHelper = "…"' in shown.out
    assert "the variable ANTHROPIC_API_KEY is set and wins" in shown.err
    assert "secret" not in (home / ".claude" / "settings.json").read_text().replace("PARLEY_API_KEY", "")
