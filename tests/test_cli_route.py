"""`parley route`: the model that rules choose for the body of a request, and why."""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from app.cli import main

from tests.clean_environment import clean_environment
from tests.restored_logging import restored_logging

SETTINGS = """
[upstreams.up]
base_url = "http://127.0.0.1:1/v1"
[models.auto]
use = "small"
rules = [
  { when = { tokens_above = 100, thinking = true }, use = "long" },
  { when = { header = { X-Agent = "*" }, team = "red" }, use = "sub" },
  { when = { format = "qwen" }, use = "long" },
]
aliases = ["claude-*"]
[models]
small.upstreams = ["up"]
long.upstreams = ["up"]
sub.upstreams = ["up"]
[teams.red]
[keys.ann]
team = "red"
sha256 = "f10f781241e2246678b6b45c857069208152a53863e47fac33f607ab405006f4"
"""
MESSAGES = {"model": "claude-x", "max_tokens": 9, "messages": [{"role": "user", "content": "hi"}]}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(os, "environ", clean_environment())
    Path("parley.toml").write_text(SETTINGS)
    with restored_logging():
        yield tmp_path


def written(body: Any) -> str:
    Path("body.json").write_text(json.dumps(body))
    return "body.json"


def test_the_choice_is_explained_condition_by_condition(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["route", "--explain", written(MESSAGES), "--format", "messages", "--header", "x-agent: a1"]
    assert main([*arguments, "--key", "ann"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "rule 1 → long: no",
        "  no   thinking true; the request has false",
        "  no   tokens_above 100; the request has 4",
        "rule 2 → sub: holds",
        "  yes  team red; the request has red",
        "  yes  header x-agent *; the request has a1",
        "rule 3 → long: no",
        "  no   format qwen; the request has messages",
        "default → small",
        "auto/2: sub",
    ]


@pytest.mark.parametrize(
    "body, options, line",
    [
        ({**MESSAGES, "model": "auto"}, (), "auto/default: small"),
        ({**MESSAGES, "model": "auto"}, ("--format", "chat"), "auto/3: long"),
        ({"model": "auto", "input": "hi"}, ("--format", "responses"), "auto/default: small"),
        ({**MESSAGES, "model": "long"}, (), "long: long, which is no virtual model"),
    ],
)
def test_the_last_line_is_the_choice(
    body: Any, options: tuple[str, ...], line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    if "chat" in options:
        body = {name: value for name, value in body.items() if name != "max_tokens"}
    assert main(["route", written(body), *options]) == 0
    assert capsys.readouterr().out == line + "\n"


@pytest.mark.parametrize(
    "body, options, reason",
    [
        ({"messages": []}, (), "body.json: "),
        ({"messages": [{"role": "user", "content": "hi"}]}, (), "the request names no model"),
        ({**MESSAGES, "model": "other"}, (), "there is no model 'other'"),
        (MESSAGES, ("--header", "x"), "--header must be 'name: value', not 'x'"),
        (MESSAGES, ("--header", "x: €"), "--header must be"),
        (MESSAGES, ("--key", "bob"), "there is no key 'bob'"),
        (
            {"model": "auto", "previous_response_id": "resp_1", "input": "hi"},
            ("--format", "responses"),
            "refers to what a gateway has stored",
        ),
    ],
)
def test_what_cannot_be_routed_is_refused_with_the_reason(
    body: Any, options: tuple[str, ...], reason: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["route", written(body), *options]) == 2
    assert reason in capsys.readouterr().err


def test_a_missing_file_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["route", "nothing.json"]) == 2
    assert "nothing.json: cannot be read" in capsys.readouterr().err
