"""`parley models`: list the models of a running gateway, and what each can do."""

import argparse
import json
import os
import sys
from collections.abc import Mapping
from typing import Any

from app.terminal import Gateway, RequestFailed, Unreachable, use_color
from app.terminal.screen import format_table, replace_control_characters

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
        print(format_table(_HEADER, [_describe(row) for row in rows], color=use_color(sys.stdout, os.environ)))
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
