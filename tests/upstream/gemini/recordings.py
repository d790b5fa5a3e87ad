"""Recorded replies of the Gemini API and of Vertex, with the requests.

The recordings belong to others and are never committed: they lie beside those of `tests.streams.recordings`.
"""

import json
from pathlib import Path
from typing import Any

from tests.streams.recordings import FOLDER as STREAMS

Json = dict[str, Any]
FOLDER = STREAMS.parent / "streams_gemini"


def _load_index() -> list[Json]:
    index = FOLDER / "INDEX.jsonl"
    return [json.loads(line) for line in index.read_text("utf-8").splitlines()] if index.exists() else []


ROWS = _load_index()


def read_body(row: Json) -> bytes:
    return Path(FOLDER, row["file"]).read_bytes()
