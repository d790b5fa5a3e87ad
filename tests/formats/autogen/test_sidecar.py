"""Notes in the metadata of an item, on what AutoGen has no field for."""

import json
from typing import Any

from app.chat.messages import Text
from msgspec.structs import replace

from tests.each_case import each_case
from tests.formats.autogen.recorded_cases import calls, read, results, text, thought, written
from tests.formats.autogen.sample_messages import make_message


def test_metadata_hold_json_that_other_readers_can_read() -> None:
    (item,) = written((make_message("user", Text("q"), extra={"k": "é"}),))
    assert json.loads(item["metadata"]["parley"])["messages"] == [{"extra": {"k": "é"}}]


QUERY = text("user", "q")


UNTRUSTED: list[tuple[Any, str]] = [
    (None, "no bag"),
    ({"k": 0, "as": "user"}, "nothing kept"),
    ({"raw": {"type": "Nonsense"}, "k": 0, "as": "user"}, "no item of AutoGen"),
    ({"raw": QUERY, "k": 1, "as": "user"}, "another piece"),
    ({"raw": QUERY, "k": 0, "as": "guess"}, "no verdict"),
    ({"raw": QUERY, "k": 0, "as": 5}, "no word"),
    ({"raw": QUERY, "k": 0, "as": "own"}, "another side"),
    ({"raw": QUERY, "k": 0, "as": "calls"}, "a verdict of other items"),
    ({"raw": QUERY, "k": 0, "as": "core"}, "a verdict of the core's messages"),
    ({"raw": QUERY, "k": 0, "as": "kept"}, "metadata that hold nothing"),
    ({"raw": thought("user", "q"), "k": 0, "as": "user"}, "a verdict that no thought has"),
    ({"raw": text("user", "p"), "k": 0, "as": "user"}, "another text"),
]


@each_case(("kept", "why"), UNTRUSTED, ids=[why for _, why in UNTRUSTED])
def test_what_was_kept_counts_only_where_it_says_the_same(kept: Any, why: str) -> None:
    trusted = {"raw": QUERY, "k": 0, "as": "user"}
    assert written((make_message("user", Text("q"), name="user", extra={"autogen": trusted}),)) == [QUERY]
    (item,) = written((make_message("user", Text("q"), name="user", extra={"autogen": kept}),))
    assert (item["content"], item["id"][:7]) == ("q", "parley-")


def test_a_result_that_lost_its_content_is_not_what_was_kept() -> None:
    messages = read([calls("a", "1"), results("a", "1")])
    items = written((messages[0], replace(messages[1], parts=())))
    assert items[0] == calls("a", "1")
    assert items[1] != results("a", "1")


@each_case("notes", ["no JSON", '{"seal": 1}', '{"seal": "another", "messages": []}'])
def test_notes_that_are_not_valid_are_ignored(notes: Any) -> None:
    [message] = read([text("user", "q") | {"metadata": {"parley": notes}}])
    assert message.parts == (Text("q"),)
