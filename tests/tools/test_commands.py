"""`parley tools` and `parley check-config --online`."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from app.cli import main

from tests.each_case import each_case
from tests.tools.local_servers import SCRIPT

CONFIG = f"""
demo = true
[mcp_servers.s]
command = "{sys.executable}"
args = ["{SCRIPT}"]
enabled_tools = ["echo", "fail"]
approval = ["fail"]
"""
BAD = '[mcp_servers.bad]\ncommand = "no-such-command"\n'


def run(tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, *arguments: str) -> tuple[int, str, str]:
    file = tmp_path / "parley.toml"
    file.write_text(text)
    at = [str(file)] if arguments[0] == "check-config" else ["--config", str(file)]
    status = main([*arguments[:2], *at, *arguments[2:]])
    out, err = capsys.readouterr()
    return status, out, err


def test_the_tools_are_listed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, out, err = run(tmp_path, capsys, CONFIG, "tools", "list")
    assert (status, err) == (0, "")
    assert [line.split() for line in out.splitlines()] == [
        ["SERVER", "TOOL", "READS", "ONLY", "APPROVAL", "DESCRIPTION"],
        ["s", "echo", "yes", "-", "repeats"],
        ["s", "fail", "-", "yes"],
    ]
    status, out, _ = run(tmp_path, capsys, CONFIG, "tools", "list", "--json", "s")
    assert [tool["name"] for tool in json.loads(out)[0]["tools"]] == ["s-echo", "s-fail"]


def test_a_server_that_fails_is_named_and_the_others_are_listed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    status, out, err = run(tmp_path, capsys, CONFIG + BAD, "tools", "list")
    assert (status, err) == (1, "parley: MCP server bad: its command, or its cwd, does not exist\n")
    assert "echo" in out


def test_a_tool_is_called(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(tmp_path, capsys, CONFIG, "tools", "call", "s", "echo", '{"a": 1}') == (0, '{"a": 1}\n', "")
    assert run(tmp_path, capsys, CONFIG, "tools", "call", "s", "fail") == (1, "no such city\n", "")


@each_case(
    ("text", "arguments", "reason"),
    [
        ("demo = true\nmcp_servers = {}", ["list"], "the configuration has no MCP server"),
        (CONFIG, ["list", "x"], "there is no MCP server 'x'"),
        (CONFIG, ["call", "s", "eho"], "has no tool 'eho'; did you mean `echo`?"),
        (CONFIG, ["call", "s", "echo", "{"], "the arguments are not valid JSON"),
        (CONFIG, ["call", "s", "echo", "[]"], "the arguments must be a JSON object, not []"),
        (CONFIG + BAD, ["call", "bad", "echo"], "MCP server bad: its command"),
    ],
)
def test_a_wrong_command_is_explained(
    text: str, arguments: list[str], reason: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    status, _, err = run(tmp_path, capsys, text, "tools", *arguments)
    assert status == 2 and reason in err


def test_the_online_check_starts_each_server(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = run(tmp_path, capsys, CONFIG, "check-config", "--online")
    assert status == 0 and "MCP server s: echo, fail" in out
    status, out, _ = run(tmp_path, capsys, CONFIG + BAD, "check-config", "--online")
    assert status == 1 and "MCP server bad: its command, or its cwd, does not exist" in out


def test_a_gateway_without_servers_imports_nothing_of_them() -> None:
    code = """
import asyncio, sys
from app.config.settings import Settings
from app.main import create_app

async def main():
    settings = {"upstreams": {"u": {"base_url": "http://h/v1"}}, "passthrough": "u", "cache": {"url": "memory:"}}
    app = create_app(Settings.model_validate(settings))
    async with app.router.lifespan_context(app):
        names = ("mcp", "httpx2", "app.tools")
        print([name for name in sys.modules if name.startswith(names)])

asyncio.run(main())
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout == "[]\n", done.stderr


def test_the_example_of_a_server_works(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(Path(__file__).parents[2] / "examples")
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    command = ["tools", "call", "--config", "tools/parley.toml", "words", "count_words", '{"text": "one two"}']
    assert (main(command), capsys.readouterr().out.strip()) == (0, "2 words")
