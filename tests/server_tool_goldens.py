"""The cases of server-side tools in the shared goldens, which are no part of this repository."""

import json
import os
from pathlib import Path
from typing import Any

Json = dict[str, Any]
_ROOT = Path(__file__).resolve().parents[1]
_PLACES = (_ROOT.parent / "shared", _ROOT.parent.parent / "shared")


def find_folder() -> Path | None:
    """Return the folder that `PARLEY_SERVER_TOOL_GOLDENS` names, or that of a neighbour of this checkout."""
    given = os.environ.get("PARLEY_SERVER_TOOL_GOLDENS")
    places = [Path(given)] if given else [place / "goldens" / "server_tools" for place in _PLACES]
    return next((place for place in places if (place / "cases").is_dir()), None)


def read_cases() -> dict[str, Json]:
    """Return the cases by name; none if the goldens are absent."""
    folder = find_folder()
    files = [] if folder is None else sorted((folder / "cases").glob("*.json"))
    return {file.stem: json.loads(file.read_text(encoding="utf-8")) for file in files}


def read_refused() -> Json:
    folder = find_folder()
    empty: Json = {"cases": [], "accepted": []}
    return empty if folder is None else json.loads((folder / "refused.json").read_text(encoding="utf-8"))


def drop_empty_texts(messages: list[Json]) -> list[Json]:
    """Write the text of a message with calls in one way: "" and null are the same."""
    return [{**one, "content": one.get("content") or ""} if one.get("tool_calls") else one for one in messages]
