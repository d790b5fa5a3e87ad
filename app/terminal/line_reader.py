"""Read lines: at a terminal with editing, history and completion, from a pipe without a prompt."""

import contextlib
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TextIO

try:
    import readline
except ImportError:  # Python for Windows
    readline = None  # type: ignore[assignment]

MAX_LINES = 1000
"""How many lines the history file keeps."""


def find_history_file(environ: Mapping[str, str]) -> Path | None:
    """Return the file in the user's folder for state, as the XDG base directory specification says."""
    if Path(environ.get("XDG_STATE_HOME") or "").is_absolute():
        return Path(environ["XDG_STATE_HOME"]) / "parley" / "chat_history"
    home = Path(environ.get("HOME") or "")
    return home / ".local" / "state" / "parley" / "chat_history" if home.is_absolute() else None


class LineReader:
    """Reads lines from standard input. `close` writes the history, which only its user can read."""

    def __init__(self, history: Path | None, commands: Sequence[str] = ()) -> None:
        """`history` is the file of the lines typed before; None keeps no file. `commands` are completed by Tab."""
        self._history = history
        self._commands = [command.partition(" ")[0] + (" " if " " in command else "") for command in commands]
        self.is_terminal = sys.stdin.isatty()
        self._edits = self.is_terminal and sys.stdout.isatty() and readline is not None
        if self._edits:
            self._set_up()

    def __call__(self, prompt: str) -> str:
        """Read one line without its end. Raises EOFError at the end of input."""
        if self._edits:
            return input(prompt)
        if self.is_terminal:
            _write(sys.stderr, prompt)
        line = sys.stdin.readline()
        if not line:
            raise EOFError
        return line.removesuffix("\n")

    def close(self) -> None:
        if not self._edits or self._history is None:
            return
        with contextlib.suppress(OSError):
            self._history.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            os.close(os.open(self._history, os.O_WRONLY | os.O_CREAT, 0o600))
            readline.set_history_length(MAX_LINES)
            readline.write_history_file(self._history)

    def _set_up(self) -> None:
        if self._history is not None:
            with contextlib.suppress(OSError):
                readline.read_history_file(self._history)
        readline.set_completer_delims(" ")
        readline.set_completer(self._complete)
        uses_libedit = "libedit" in (readline.__doc__ or "")
        readline.parse_and_bind("bind ^I rl_complete" if uses_libedit else "tab: complete")

    def _complete(self, word: str, index: int) -> str | None:
        """Complete the name of a command, and the path after one."""
        line = readline.get_line_buffer()
        if " " not in line:
            found = [command for command in self._commands if line.startswith("/") and command.startswith(word)]
        elif line.startswith(("/image ", "/file ", "/save ")):
            found = _find_paths(word)
        else:
            found = []
        return found[index] if index < len(found) else None


def _find_paths(start: str) -> list[str]:
    path = Path(start).expanduser()
    folder, name = (path, "") if start.endswith("/") or not start else (path.parent, path.name)
    try:
        found = sorted(
            each for each in folder.iterdir() if each.name.startswith(name) and (name or each.name[0] != ".")
        )
    except OSError:
        return []
    return [f"{each}/" if each.is_dir() else str(each) for each in found]


def _write(stream: TextIO, text: str) -> None:
    stream.write(text)
    stream.flush()
