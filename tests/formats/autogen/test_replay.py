"""An item is written again as it was, if its message still says the same."""

import pytest
from app.chat.messages import Message, Text
from msgspec.structs import replace

from tests.formats.autogen.recorded_cases import calls, read, results, text, thought, written
from tests.formats.autogen.sample_messages import kinds, make_message


@pytest.mark.parametrize(("turn", "notes"), [(None, set()), ("t", {"parley"})])
def test_an_edited_item_is_written_as_edited(turn: str | None, notes: set[str]) -> None:
    (item,) = written((make_message("user", Text("q"), turn=turn),))
    assert set(item["metadata"]) == notes
    assert (read([item])[0].name, read([item])[0].turn) == (None, turn)
    (message,) = read([item | {"content": "edited"}])
    assert (message.name, message.turn, message.parts) == ("user", None, (Text("edited"),))


def test_an_item_with_another_source_is_of_that_source() -> None:
    (item,) = written((make_message("user", Text("q")),))
    assert read([item | {"source": "Bob"}])[0].name == "Bob"


def test_an_item_that_autogen_stored_again_keeps_what_it_carries() -> None:
    (item,) = written((make_message("user", Text("q"), turn="t"),))
    stored = item | {"created_at": "2026-01-01T00:00:00Z"}
    (message,) = read([stored])
    assert (message.name, message.turn) == (None, "t")
    assert written((message,)) == [stored]


def edited(message: Message, new: str) -> Message:
    return replace(message, parts=(Text(new),))


def test_an_edited_message_is_written_as_edited() -> None:
    asides = [{"type": "SelectorEvent", "source": "m", "content": "x"}]
    items = [text("user", "q", id="m1"), *asides, thought("a", "now"), calls("a", "1"), results("a", "1"), *asides]
    messages = read(items)
    changed = written((messages[0], edited(messages[1], "then"), *messages[2:]))
    assert kinds(changed) == kinds(items)
    assert (changed[2]["content"], changed[2]["metadata"]) == ("then", {"kind": "content"})
    assert [*changed[:2], *changed[3:]] == [*items[:2], *items[3:]]


def test_a_message_that_is_gone_takes_its_item_with_it() -> None:
    messages = read([text("user", "q"), calls("a", "1", "2"), results("a", "1", "2")])
    items = written((messages[0], *messages[2:4]))
    assert [len(one["content"]) for one in items[1:]] == [1, 1]
    assert [one["id"] for one in items[1]["content"]] == ["2"]
