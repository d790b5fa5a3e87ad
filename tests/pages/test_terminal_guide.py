"""The guide on the terminal: its commands run as they stand, and print what the guide shows."""

import re
import shlex
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from app.doctor import examination, model_server, network, stores

from tests.clean_environment import clean_environment
from tests.fork_server import forked_parley
from tests.terminal.gateway_process import running_gateway
from tests.terminal.pseudo_terminal import CTRL_D, at_terminal

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/guides/terminal.md").read_text("utf-8")
BLOCKS = re.findall(r"^```sh\n(.*?)^```(?:\n+```\n(.*?)^```)?", PAGE, re.DOTALL | re.MULTILINE)
"""Each block of commands, with the output that follows it."""
ADDRESS = "http://127.0.0.1:8000"


@pytest.fixture(scope="module")
def gateway() -> Iterator[str]:
    with running_gateway() as url:
        yield url


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the files that the guide names."""
    folder = tmp_path_factory.mktemp("clone")
    (folder / ".venv/bin").mkdir(parents=True)
    program = folder / ".venv/bin/parley"
    program.write_text(f'#!/bin/sh\nexec {shlex.join(forked_parley())} "$@"\n')
    program.chmod(0o755)
    (folder / "README.md").write_text("# A project\n")
    return folder


def normal(text: str, gateway: str) -> list[str]:
    """The lines without what differs between machines."""
    port = gateway.rpartition(":")[2]
    text = text.replace(gateway, ADDRESS).replace(f"port {port}", "port 8000")
    text = re.sub(r"in [0-9.]+ ms", "in 1 ms", text)
    text = re.sub(r"[0-9.,]+ GiB", "1 GiB", text)
    text = re.sub(r"^/\S+(?=/\.codex/)", "/home/me", text, flags=re.MULTILINE)
    text = re.sub(r"^(cache|state): .*", r"\1: a file", text, flags=re.MULTILINE)
    return [line.rstrip() for line in text.strip().splitlines()]


def is_interactive(commands: str) -> bool:
    last = commands.strip().splitlines()[-1]
    return last in (".venv/bin/parley chat", ".venv/bin/parley chat --functions weather.json")


def test_every_command_runs_and_prints_what_the_guide_shows(gateway: str, folder: Path) -> None:
    home = {"HOME": str(folder), "XDG_CACHE_HOME": str(folder / "cache"), "XDG_DATA_HOME": str(folder / "data")}
    environ = clean_environment(PARLEY_URL=gateway, **home)

    def run(commands: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["bash", "-c", commands.replace(ADDRESS, gateway)],
            cwd=folder,
            env=environ,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )

    blocks = [block for block in BLOCKS if "completion" not in block[0]]
    assert len(blocks) >= 9
    with ThreadPoolExecutor(len(blocks)) as pool:  # the demo model writes slowly
        results = pool.map(run, [commands for commands, _ in blocks])
    for (commands, shown), done in zip(blocks, results, strict=True):
        assert done.returncode == 0, (commands, done.stdout, done.stderr)
        assert not shown or is_interactive(commands) or normal(done.stdout, gateway) == normal(shown, gateway)


def test_a_function_is_called_and_answered_as_the_guide_shows(gateway: str, folder: Path) -> None:
    ((commands, shown),) = [block for block in BLOCKS if "--functions" in block[0]]
    question, result = re.findall(r"^> (.*)$", shown, re.M), re.findall(r"^result of .*\): (.*)$", shown, re.M)
    environ = clean_environment(PARLEY_URL=gateway, NO_COLOR="1", HOME=str(folder), INPUTRC="/dev/null", TERM="xterm")
    with at_terminal(["bash", "-c", commands], environ, folder=str(folder)) as terminal:
        terminal.wait_for("/help lists the commands\n")
        terminal.wait_for("> ")
        terminal.type(f"{question[0]}\r")
        terminal.wait_for("result of ")
        terminal.type(f"{result[0]}\r")
        terminal.wait_for("\nstop · ")
        terminal.wait_for("\n> ")
        terminal.type(CTRL_D)
        assert terminal.wait_until_ended() == 0
    text = re.sub(r"\x1b\[\?2004[hl]\r?", "", terminal.text)
    assert "\n".join(normal(shown, gateway)) in text


def test_the_guide_names_every_check() -> None:
    sources = "".join(
        Path(module.__file__ or "").read_text() for module in (examination, model_server, network, stores)
    )
    made = {name for name in re.findall(r'"([a-z]+)", "(?:ok|warning|problem)"', sources)}
    made |= {name for name in re.findall(r'way\.(?:finding|problem)\("([a-z]+)"', sources)} | {"path", "key", "http"}
    table = PAGE.partition("| Check |")[2].partition("\n\n")[0]
    named = {name for row in table.splitlines()[2:] for name in re.findall(r"`([a-z]+)`", row.split("|")[1])}
    assert made - {"lines", "probes"} <= named
