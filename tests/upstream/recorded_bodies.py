"""The recorded and golden bodies of clients of the Messages and Responses APIs."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.upstream.messages.recordings import GOLDENS

Json = dict[str, Any]
OWN_FOLDERS = [Path(__file__).parents[1] / "formats", Path(__file__).parents[1] / "conversations"]


def find_bodies(value: Any) -> Iterator[Json]:
    """Yield the bodies of requests of both APIs in a JSON value."""
    if isinstance(value, list):
        for one in value:
            yield from find_bodies(one)
    elif isinstance(value, dict):
        is_messages = isinstance(value.get("messages"), list) and "max_tokens" in value
        if isinstance(value.get("model"), str) and (is_messages or isinstance(value.get("input"), list | str)):
            yield value
        for one in value.values():
            yield from find_bodies(one)


def load_bodies() -> list[Json]:
    found: dict[str, Json] = {}
    for folder in (*OWN_FOLDERS, GOLDENS.parent):
        for path in sorted(folder.rglob("*.json")) if folder.is_dir() else ():
            try:
                value = json.loads(path.read_text("utf-8"))
            except (ValueError, UnicodeDecodeError):
                continue
            found |= {json.dumps(body, sort_keys=True): body for body in find_bodies(value)}
    return list(found.values())


BODIES = load_bodies()
