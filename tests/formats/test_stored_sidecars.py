"""What was stored under `extra.parley` and `metadata.parley` on 2026-11-22 is written and read as it was then.

Each line of `sidecars/<format>.jsonl` is a conversation (the name of a sample in `tests/conversations/features.py`, or
a list in another format), what the format wrote, what it read from that, what it read after an edit of every
text, and what went back to the other format. Clients keep these lists, so the files are never recorded again.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest
from app.chat.messages import Message
from app.formats import FORMATS
from app.formats.base import Options
from msgspec.structs import replace

from tests.conversations.features import FEATURES
from tests.each_case import each_case

FOLDER = Path(__file__).parent / "sidecars"
SAMPLES = {one.name: one.messages for one in FEATURES}
_TEXT_KEYS = frozenset({"text", "content", "thinking"})


def with_path(messages: Sequence[Message]) -> list[Message]:
    return [replace(one, path=f"messages[{at}]") for at, one in enumerate(messages)]


_NEWER_FIELDS = {"server": None, "tool": "", "awaits_approval": False}
"""Fields of a call that came later, with the values that no stored list gives another; of a message `is_summary`."""


def describe(messages: Sequence[Message]) -> list[Any]:
    return [_drop_newer_fields(json.loads(json.dumps(msgspec.to_builtins(one)))) for one in messages]


def _drop_newer_fields(message: dict[str, Any]) -> dict[str, Any]:
    parts = [
        {key: value for key, value in part.items() if key not in _NEWER_FIELDS or value != _NEWER_FIELDS[key]}
        for part in message["parts"]
    ]
    without_newer = {name: value for name, value in message.items() if (name, value) != ("is_summary", False)}
    return {**without_newer, "parts": parts}


def edit(value: Any) -> Any:
    """The list with a word more in every text, outside the stored notes."""
    if isinstance(value, list):
        return [edit(one) for one in value]
    if not isinstance(value, dict):
        return value
    changed = {}
    for key, one in value.items():
        if key in _TEXT_KEYS and isinstance(one, str):
            changed[key] = one + " edited"
        else:
            changed[key] = one if key in ("metadata", "extra") else edit(one)
    return changed


each_stored = each_case(
    ("form", "row"),
    [
        pytest.param(path.stem, json.loads(line), id=f"{path.stem}-{number}")
        for path in sorted(FOLDER.glob("*.jsonl"))
        for number, line in enumerate(path.read_text("utf-8").splitlines(), 1)
    ],
)


@each_stored
def test_a_format_writes_the_bytes_that_it_wrote_before(form: str, row: dict[str, Any]) -> None:
    if "feature" in row:
        given: Sequence[Message] = with_path(SAMPLES[row["feature"]])
    else:
        given = FORMATS[row["from"]].parse(row["messages"], Options()).messages
    assert json.dumps(FORMATS[form].write(given, Options()).messages) == json.dumps(row["written"])


@each_stored
def test_a_format_reads_what_was_stored_before(form: str, row: dict[str, Any]) -> None:
    assert describe(FORMATS[form].parse(row["written"], Options()).messages) == row["read"]


@each_stored
def test_an_edited_stored_list_is_read_as_before(form: str, row: dict[str, Any]) -> None:
    assert describe(FORMATS[form].parse(edit(row["written"]), Options()).messages) == row["edited"]


@each_stored
def test_a_stored_list_goes_back_to_its_own_format_as_before(form: str, row: dict[str, Any]) -> None:
    if "from" not in row:
        return
    read = FORMATS[form].parse(row["written"], Options()).messages
    assert json.dumps(FORMATS[row["from"]].write(read, Options()).messages) == json.dumps(row["back"])


def test_every_format_that_keeps_notes_has_stored_ones() -> None:
    kept = {path.stem for path in FOLDER.glob("*.jsonl") if '"parley"' in path.read_text("utf-8")}
    assert kept == {"qwen", "autogen", "agentscope", "agentscope2"}
