"""Reading a configuration key by key notes what it cannot use."""

from app.importers.draft import Draft
from app.importers.source import Source


def test_what_has_another_type_is_noted_and_left_out() -> None:
    draft = Draft()
    source = Source({"a": True, "b": -1, "c": "x", "d": None}, "t", draft)
    assert source.take_text("a") == source.take_text("d") == ""
    assert source.take_number("b") is source.take_number("d") is None
    assert (source.take_list("c"), source.take_list("d")) == ([], [])
    assert draft.notes == ["t.a: is not a text", "t.b: is not a number above 0", "t.c: is not a list"]


def test_a_note_is_made_once() -> None:
    draft = Draft()
    Source(3, "t", draft)
    Source(3, "t", draft)
    assert draft.notes == ["t: is not a table"]
