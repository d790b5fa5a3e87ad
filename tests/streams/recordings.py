"""Where the recorded replies of real servers are: they belong to others and are never committed."""

import json
import os
import random
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOLDER = Path(os.environ.get("PARLEY_STREAMS") or ROOT.parent / "shared" / "streams")

RECORDINGS = sorted(path for path in FOLDER.glob("*/*") if path.suffix in (".sse", ".json"))
"""Every recorded file; empty when the folder is absent."""

needs_recordings = pytest.mark.skipif(
    not RECORDINGS, reason=f"no recorded streams in {FOLDER}: set PARLEY_STREAMS to their folder"
)


def _statuses() -> dict[str, int]:
    index = FOLDER / "INDEX.jsonl"
    rows = [json.loads(line) for line in index.read_text("utf-8").splitlines()] if index.exists() else []
    return {row["file"]: int(str(row.get("status") or 200).split()[0]) for row in rows}


STATUSES = _statuses()


def status_of(path: Path) -> int:
    """The HTTP status that the reply came with."""
    return STATUSES.get(f"{path.parent.name}/{path.name}", 200)


def some_recordings(count: int) -> list[Path]:
    """One recording of every provider, and others up to that number."""
    shuffled = random.Random(1).sample(RECORDINGS, len(RECORDINGS))
    one_each = {path.parent.name: path for path in shuffled}
    others = [path for path in shuffled if path not in one_each.values()]
    return [*one_each.values(), *others][:count]
