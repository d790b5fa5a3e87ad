"""`parley chat`: ask a running gateway and show the reply as it streams."""

import argparse
import contextlib
import io
import json
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from app.commands.command_line import UsageError
from app.terminal import COMMANDS, ChatOptions, LineReader, ask_once, converse, find_history_file, use_color


def run(arguments: argparse.Namespace) -> int:
    for stream in (sys.stdin, sys.stdout):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # for bytes and characters that the locale does not know
    options = ChatOptions(
        arguments.url,
        sys.stdout,
        sys.stderr,
        model=arguments.model,
        functions=_read_functions(arguments.functions) if arguments.functions else None,
        system=arguments.system,
        attachments=arguments.attachments,
        api_key=os.environ.get("PARLEY_API_KEY"),
        as_json=arguments.json,
        color=use_color(sys.stdout, os.environ),
    )
    with _end_like_ctrl_c():
        return _chat(arguments, options)


@contextlib.contextmanager
def _end_like_ctrl_c() -> Iterator[None]:
    """Closing the terminal window also stops the reply, as Ctrl-C does."""
    before = {number: signal.signal(number, signal.default_int_handler) for number in (signal.SIGHUP, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _chat(arguments: argparse.Namespace, options: ChatOptions) -> int:
    if arguments.question:
        return ask_once(options, _read_question(arguments.question))
    reader = LineReader(None if arguments.no_history else find_history_file(os.environ), [*COMMANDS])
    try:
        return converse(options, reader, interactive=reader.is_terminal)
    finally:
        reader.close()


def _read_question(words: list[str]) -> str:
    """Join the words. In place of `-`, the text of standard input is read."""
    if words.count("-") > 1:
        raise UsageError("standard input (-) can be read only once")
    parts = [sys.stdin.read() if word == "-" else word for word in words]
    return ("\n\n" if "-" in words and len(words) > 1 else " ").join(parts)


def _read_functions(file: Path) -> list[dict[str, Any]]:
    try:
        functions = json.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"{file}: cannot be read ({error.strerror})") from None
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{file}: is not valid JSON ({error})") from None
    if not isinstance(functions, list):
        raise UsageError(f"{file}: must be a list of functions")
    return functions
