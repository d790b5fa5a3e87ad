"""`parley import`: what it writes and prints, and what it ends with."""

import json
import os
import stat
import sys
from pathlib import Path

import pytest
from app.cli import main
from app.config.load import load

from tests.clean_environment import clean_environment

CONFIG = """
model_list:
  - {model_name: qwen3, litellm_params: {model: hosted_vllm/Qwen/Qwen3-8B, api_base: os.environ/VLLM_URL}}
  - {model_name: old, litellm_params: {model: bedrock/x}}
general_settings: {master_key: os.environ/MASTER}
"""


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(os, "environ", clean_environment())


def test_a_configuration_is_written_for_its_owner_alone_and_says_what_is_missing(
    capsys: pytest.CaptureFixture[str],
) -> None:
    Path("config.yaml").write_text(CONFIG)
    assert main(["import", "litellm", "config.yaml"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(": ")[0] for line in lines] == [
        "not taken",
        "not taken",
        "it needs the variables VLLM_URL",
        "parley.toml",
    ]
    assert lines[-1] == "parley.toml: 1 model at 1 upstream, 2 things not taken"
    written = Path("parley.toml")
    assert stat.S_IMODE(written.stat().st_mode) == 0o600
    assert written.read_text().startswith(
        "# Written by `parley import litellm config.yaml`.\n# Not taken:\n# - model_list[1]"
    )
    settings = load({"VLLM_URL": "http://127.0.0.1:8001/v1", "PARLEY_API_KEYS": "master:sk-0123456789abcdef"})
    assert settings.models["qwen3"].name == "Qwen/Qwen3-8B"
    assert settings.keys["master"].admin


def test_a_file_is_replaced_only_if_that_is_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    providers = [{"name": "p", "api_base_url": "http://127.0.0.1:1/v1/chat/completions", "models": ["m"]}]
    Path("config.json").write_text(json.dumps({"Providers": providers, "Router": {"default": "p,m"}}))
    Path("parley.toml").write_text("port = 1")
    Path("parley.toml").chmod(0o644)
    assert main(["import", "ccr", "config.json"]) == 2
    assert "parley: parley.toml exists: use --to FILE for another one, or --force" in capsys.readouterr().err
    assert main(["import", "ccr", "config.json", "--force"]) == 0
    assert load({}).default_model == "ccr"
    assert stat.S_IMODE(Path("parley.toml").stat().st_mode) == 0o600
    assert main(["import", "ccr", "config.json", "--to", "no/such/folder.toml"]) == 2
    assert "cannot be written (No such file or directory)" in capsys.readouterr().err


def test_json_may_have_comments_and_commas_at_ends_as_the_router_reads_it() -> None:
    provider = '{"name": "p", "api_base_url": "http://127.0.0.1:1/v1/chat/completions", "models": ["m",]}'
    Path("config.json").write_text(
        f'{{ // the router\'s\n"Providers": [{provider}], "Router": {{"default": "p,m",}},}}'
    )
    assert main(["import", "ccr", "config.json"]) == 0
    assert load({}).default_model == "ccr"


def test_json_that_is_cut_is_refused_with_the_place(capsys: pytest.CaptureFixture[str]) -> None:
    Path("config.json").write_text('{"Providers": [')
    assert main(["import", "ccr", "config.json"]) == 2
    assert "config.json: Expecting value: line 1 column 16" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (None, "cannot be read (No such file or directory)"),
        (b"a: [", "while parsing a flow node"),
        (b"\xff", "codec can't decode byte"),
        (b"- 1", "must hold an object, not list"),
        (b" \n", "is empty"),
        (
            b'{"Providers": [{"name": "p", "api_base_url": "http://h/v1", "models": ["m"]}]}',
            "is of another program: parley import ccr c",
        ),
        (b"model_list: []", "config.yaml: no model of it was taken"),
        (b"a" * (4 * 1024 * 1024 + 1), "is larger than 4194304 bytes"),
        (b"[" * 100_000, "config.yaml: "),
    ],
)
def test_what_is_no_configuration_is_refused(text: bytes | None, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    if text is not None:
        Path("config.yaml").write_bytes(text)
    assert main(["import", "litellm", "config.yaml"]) == 2
    assert said in capsys.readouterr().err
    assert not Path("parley.toml").exists()


def test_without_the_package_for_yaml_json_is_read(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "yaml", None)
    Path("config.yaml").write_text(CONFIG)
    assert main(["import", "litellm", "config.yaml"]) == 2
    assert "YAML needs the package pyyaml" in capsys.readouterr().err
    Path("config.json").write_text(
        json.dumps({"model_list": [{"model_name": "m", "litellm_params": {"model": "gpt-5"}}]})
    )
    assert main(["import", "litellm", "config.json"]) == 0


def test_settings_that_cannot_be_right_are_written_and_named(capsys: pytest.CaptureFixture[str]) -> None:
    Path("config.yaml").write_text(CONFIG.replace("os.environ/VLLM_URL", "ftp://h"))
    assert main(["import", "litellm", "config.yaml"]) == 1
    assert "parley: correct parley.toml: upstreams.h.base_url: must be an http" in capsys.readouterr().err
