"""`parley models`: list the models of a running gateway, and what each can do."""

import argparse
import json
import os
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from app.terminal import Gateway, RequestFailed, Unreachable, use_color
from app.terminal.color import BOLD, paint
from app.terminal.screen import replace_control_characters

_TOOLS = {"native": "server", "text": "from text", "prompt": "by prompt"}
_HEADER = ("MODEL", "KIND", "TOOLS", "THINKING", "MEDIA", "MAX INPUT")
_UNKNOWN = "?"


def run(arguments: argparse.Namespace) -> int:
    try:
        rows = Gateway(arguments.url, os.environ.get("PARLEY_API_KEY")).models()
    except RequestFailed as error:
        print(f"parley: {replace_control_characters(str(error))}", file=sys.stderr)
        return 2 if isinstance(error, Unreachable) else 1
    if arguments.json:
        print(json.dumps(rows, indent=2))
    elif not rows:
        print(f"parley: the gateway at {arguments.url} lists no models", file=sys.stderr)
    else:
        _print_table([_describe(row) for row in rows], color=use_color(sys.stdout, os.environ))
    return 0


def _describe(row: Mapping[str, Any]) -> tuple[str, ...]:
    """Return a cell for each column. Only a Parley says more than the name."""
    name, about = str(row["id"]), row.get("parley")
    if not isinstance(about, dict):
        return name, *(_UNKNOWN for _ in _HEADER[1:])
    return (
        name,
        _join(about.get("kinds")),
        _TOOLS.get(str(about.get("tools")), _UNKNOWN),
        "on/off" if about.get("thinking_switch") else "as it is",
        _join(about.get("media")) or "text only",
        str(about.get("max_input_tokens") or "-"),
    )


def _join(words: Any) -> str:
    return ", ".join(map(str, words)) if isinstance(words, list) else _UNKNOWN


def _print_table(rows: Sequence[tuple[str, ...]], *, color: bool) -> None:
    table = [tuple(replace_control_characters(cell) for cell in row) for row in rows]
    widths = [max(len(row[column]) for row in [_HEADER, *table]) for column in range(len(_HEADER))]
    for number, row in enumerate([_HEADER, *table]):
        line = "  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip()
        print(paint(line, BOLD, color=color and number == 0))
