"""`parley completion` in real shells: Tab at a pseudo-terminal."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.clean_environment import clean_environment
from tests.terminal.gateway_process import COMMAND
from tests.terminal.pseudo_terminal import CTRL_D, TAB, Terminal, at_terminal

SHELLS = {
    "bash": ["bash", "--norc", "--noprofile", "-i"],
    "zsh": ["zsh", "-f", "-i"],
    "fish": ["fish", "--no-config", "-i"],
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the program `parley`."""
    folder = tmp_path_factory.mktemp("bin")
    program = folder / "parley"
    program.write_text(f"#!{sys.executable}\nimport sys\nfrom app.cli import main\nsys.exit(main())\n")
    program.chmod(0o755)
    return folder


def set_up(terminal: Terminal, shell: str) -> None:
    """Load the completion as the docs say, and wait until the shell has done so."""
    script = {
        "bash": 'eval "$(parley completion bash)"',
        "zsh": 'autoload -U compinit && compinit -u && eval "$(parley completion zsh)"',
        "fish": "parley completion fish | source",
    }[shell]
    terminal.type(f"{script}; echo loa''ded\r")
    terminal.wait_for("loaded")


@pytest.mark.parametrize("shell", SHELLS)
def test_tab_completes_commands_options_and_values(shell: str, folder: Path) -> None:
    if not shutil.which(shell):
        pytest.skip(f"{shell} is not installed")
    environ = clean_environment(PATH=f"{folder}:{os.environ['PATH']}", HOME=str(folder), TERM="xterm")
    with at_terminal(SHELLS[shell], environ, folder=str(folder)) as terminal:
        set_up(terminal, shell)
        terminal.type("parley doc" + TAB)
        terminal.wait_for("tor")
        terminal.type("--no-pr" + TAB)
        terminal.wait_for("obes")
        terminal.type("\x15parley convert --to agentscope2 --fr" + TAB)
        terminal.wait_for("om")
        terminal.type("autog" + TAB)
        terminal.wait_for("en")
        terminal.type("\x15" + CTRL_D)
        terminal.wait_until_ended()


def test_the_words_are_those_of_the_parser_and_nothing_that_takes_long_is_loaded() -> None:
    environ = clean_environment(_ARGCOMPLETE="1", COMP_LINE="parley ", COMP_POINT="7", _ARGCOMPLETE_STDOUT_FILENAME="")
    script = (
        "import argcomplete, io, sys; from app.commands.command_line import make_parser; out = io.StringIO();"
        "argcomplete.autocomplete(make_parser(), exit_method=lambda _: None, output_stream=out);"
        "print(*out.getvalue().split('\\v'), *sorted({'pydantic', 'httpx'} & sys.modules.keys()))"
    )
    environ["IFS"] = environ["_ARGCOMPLETE_IFS"] = "\v"
    ran = subprocess.run([sys.executable, "-c", script], env=environ, capture_output=True, text=True, check=True)
    helped = subprocess.run([*COMMAND, "--help"], env=clean_environment(), capture_output=True, text=True, check=True)
    words = [word for word in ran.stdout.split() if not word.startswith("-")]
    assert len(words) > 10
    assert all(f"\n    {word}" in helped.stdout for word in words)


def test_a_shell_that_is_not_known_is_an_error() -> None:
    ran = subprocess.run([*COMMAND, "completion", "tcsh"], capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stdout) == (2, "")
    assert "bash" in ran.stderr and "fish" in ran.stderr
