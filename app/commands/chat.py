"""`parley chat`: ask a running gateway and show the reply as it streams."""

import argparse
import json
import os
import sys
from pathlib import Path
from typing import Any

from app import terminal
from app.command_line import UsageError


def run(arguments: argparse.Namespace) -> int:

    if arguments.system and not arguments.question:
        raise UsageError("--system needs a question on the command line")
    options: dict[str, Any] = {
        "model": arguments.model,
        "functions": _functions(arguments.functions) if arguments.functions else None,
        "api_key": os.environ.get("PARLEY_API_KEY"),
        "out": sys.stdout,
        "err": sys.stderr,
        "color": sys.stdout.isatty() and "NO_COLOR" not in os.environ,
    }
    options["as_json"] = arguments.json
    if not arguments.question:
        return terminal.repl(arguments.url, **options)
    messages: list[dict[str, Any]] = [{"role": "user", "content": " ".join(arguments.question)}]
    if arguments.system:
        messages.insert(0, {"role": "system", "content": arguments.system})
    return terminal.chat(arguments.url, messages, **options)


def _functions(file: Path) -> list[dict[str, Any]]:
    try:
        functions = json.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"{file}: cannot be read ({error.strerror})") from None
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{file}: is not valid JSON ({error})") from None
    if not isinstance(functions, list):
        raise UsageError(f"{file}: must be a list of functions")
    return functions
