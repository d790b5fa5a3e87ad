"""What the side-cars of all formats have in common."""

from typing import Any

import pytest
from app.chat.messages import Message, Text
from app.formats.qwen.sidecar import QwenSidecar
from app.formats.sidecar import count_unchanged, keep_original, read_notes, with_notes, without_notes
from msgspec.structs import replace

ORIGINAL = {"said": ["a", "b"]}
READ = [Message("user", (Text("a"),)), Message("user", (Text("b"),))]


def _read(kept: dict[str, Any]) -> list[Message]:
    return [Message("user", (Text(text),)) for text in kept["raw"]["said"]]


def _count(messages: list[Message]) -> int:
    return count_unchanged(messages, 0, "test", _read, lambda stored, present: stored.parts == present.parts)


def test_an_original_stands_for_the_messages_that_were_read_from_it() -> None:
    assert _count(keep_original(READ, "test", ORIGINAL)) == 2


def test_an_original_does_not_replace_messages_that_were_edited_or_removed() -> None:
    first, second = keep_original(READ, "test", ORIGINAL)
    assert _count([first, replace(second, parts=(Text("c"),))]) == 0
    assert _count([first]) == 0
    assert _count([second, second]) == 0


@pytest.mark.parametrize("mark", [None, 1, {}, {"k": 0}, {"k": 0, "raw": "a"}, {"k": 1, "raw": ORIGINAL}])
def test_a_mark_that_holds_no_original_counts_as_none(mark: Any) -> None:
    assert _count([replace(READ[0], extra={"test": mark}), READ[1]]) == 0


def test_notes_come_back_beside_what_else_is_there() -> None:
    holder = with_notes({"k": "v"}, {"media": [{"at": 1}]})
    notes = read_notes(holder, QwenSidecar.model_validate)
    assert notes is not None and notes.media[0].at == 1
    assert without_notes(holder) == {"k": "v"}


@pytest.mark.parametrize("holder", [None, {}, {"k": "v"}, {"parley": None}, {"parley": {"media": 1}}])
def test_notes_that_are_not_valid_count_as_none(holder: Any) -> None:
    assert read_notes(holder, QwenSidecar.model_validate) is None
