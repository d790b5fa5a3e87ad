"""`parley launch`: run a coding agent with the gateway as its model server, without a change to its settings."""

import argparse
import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import FrameType
from typing import Any, Self

from app.coding_agents.agent import ANY_KEY, Agent, Start, matches
from app.coding_agents.agents import AGENTS
from app.commands.agent_gateway import NoGateway, connect, find_gateway
from app.terminal.screen import replace_control_characters

NOT_FOUND = 127
"""The exit status of a shell for a program that it does not find."""

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
_TERMINAL_SIGNALS = (signal.SIGINT, signal.SIGQUIT)
"""A terminal sends them to the agent, too: passed on, it would get them twice."""


def run(arguments: argparse.Namespace) -> int:
    agent = AGENTS[arguments.agent]
    program = shutil.which(agent.program)
    if program is None:
        print(
            f"parley: {agent.title} is not installed: no program {agent.program!r} is found. Install it:",
            file=sys.stderr,
        )
        print(f"  {agent.install_line}", file=sys.stderr)
        return NOT_FOUND
    try:
        with _Signals() as signals:
            return _launch(agent, program, arguments, signals)
    except NoGateway as error:
        for line in str(error).splitlines():
            print(f"parley: {replace_control_characters(line)}", file=sys.stderr)
        return 1


def _launch(agent: Agent, program: str, arguments: argparse.Namespace, signals: "_Signals") -> int:
    key = os.environ.get(arguments.key_env) or None
    with (
        find_gateway(arguments.url, key) as gateway,
        tempfile.TemporaryDirectory(prefix="parley-agent-") as folder,
    ):
        connection = connect(gateway, arguments.model)
        start = agent.make_start(connection, key or ANY_KEY, arguments.program_arguments, Path(folder), os.environ)
        if agent.list_winning_files is not None and agent.pin_start is not None:
            start = agent.pin_start(start, _read_texts(agent.list_winning_files(os.environ)), Path(folder))
        _fill_folder(Path(folder), start)
        process = subprocess.Popen([program, *start.arguments], env=make_environment(os.environ, start))
        signals.process = process
        status = process.wait()
    return status if status >= 0 else 128 - status


def make_environment(inherited: Mapping[str, str], start: Start) -> dict[str, str]:
    """Return the variables of the agent: those of the caller without what would lead it elsewhere, and its own."""
    kept = {name: value for name, value in inherited.items() if not matches(name, start.removed)}
    return {**kept, **start.variables}


def _read_texts(files: Sequence[Path]) -> list[str]:
    """Return the texts of those files that can be read."""
    texts = []
    for file in files:
        with contextlib.suppress(OSError, ValueError):
            texts.append(file.read_text("utf-8"))
    return texts


def _fill_folder(folder: Path, start: Start) -> None:
    for name, text in start.files.items():
        (folder / name).write_text(text, encoding="utf-8")
    if start.linked is not None and start.linked.is_dir():
        for entry in start.linked.iterdir():
            if entry.name not in start.files:
                (folder / entry.name).symlink_to(entry.absolute())


class _Signals:
    """What signals do: before the agent runs, they end this program, with all that it has started; then they are the
    agent's, whose end is waited for."""

    def __init__(self) -> None:
        self.process: subprocess.Popen[bytes] | None = None
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Self:
        self._before = {number: signal.signal(number, self._handle) for number in _SIGNALS}
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _handle(self, number: int, _frame: FrameType | None) -> None:
        if self.process is None:
            raise SystemExit(128 + number)
        if number in _TERMINAL_SIGNALS and sys.stdin.isatty():
            return
        with contextlib.suppress(ProcessLookupError):
            self.process.send_signal(number)
