"""The question before a command that cannot be taken back."""

import sys

from app.commands.command_line import UsageError


def confirm(question: str, *, confirmed: bool) -> bool:
    """Return whether to go on: `--yes` was given, or the user says so. Raises UsageError if there is no terminal."""
    if confirmed:
        return True
    if not sys.stdin.isatty():
        raise UsageError("this asks for confirmation and standard input is not a terminal: use --yes")
    print(f"{question} [y/N] ", end="", file=sys.stderr, flush=True)
    if sys.stdin.readline().strip().lower() in ("y", "yes"):
        return True
    print("parley: nothing was changed", file=sys.stderr)
    return False
