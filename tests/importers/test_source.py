"""Reading a configuration key by key notes what it cannot use."""

from app.importers.draft import Draft
from app.importers.source import Source


def test_what_has_another_type_is_noted_and_left_out() -> None:
    draft = Draft()
    source = Source({"a": True, "b": -1, "c": "x", "d": None, "e": "2", "f": 0, "g": "0", "h": True}, "t", draft)
    assert source.take_text("a") == source.take_text("d") == ""
    assert source.take_number("b") is source.take_number("d") is None
    assert (source.take_list("c"), source.take_list("d")) == ([], [])
    assert (source.take_count("g"), source.take_count("d"), source.take_number("e")) == (0.0, None, 2.0)
    assert source.take_number("f") is source.take_count("h") is None
    assert draft.notes == [
        "t.a: is not a text",
        "t.b: is not a number above 0",
        "t.c: is not a list",
        "t.f: is not a number above 0",
        "t.h: is not a number from 0",
    ]


def test_a_note_is_made_once() -> None:
    draft = Draft()
    Source(3, "t", draft)
    Source(3, "t", draft)
    assert draft.notes == ["t: is not a table"]
