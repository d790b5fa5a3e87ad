"""A tree of settings, written as TOML, is the same when it is read."""

import tomllib
from typing import Any

import pytest
from app.importers.toml_text import write_toml, write_value
from hypothesis import given
from hypothesis import strategies as st

KEYS = st.text(st.characters(codec="utf-8"), min_size=1, max_size=8)
VALUES = st.recursive(
    st.booleans() | st.integers(-(2**62), 2**62) | st.floats(allow_nan=False) | KEYS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(KEYS, VALUES, max_size=4))
def test_what_was_written_is_read_again(tree: dict[str, Any]) -> None:
    assert tomllib.loads(write_toml(tree)) == tree


def test_rows_are_tables_and_long_lists_have_a_line_for_each_entry() -> None:
    assert write_toml({"a": 1, "models": {"x/y": {"use": "b", "rules": [{"c": 1}, {"d": "\x7f\n"}]}}}) == (
        'a = 1\n\n[models."x/y"]\nuse = "b"\nrules = [\n  { c = 1 },\n  { d = "\\u007f\\n" },\n]\n'
    )


def test_a_lone_surrogate_is_replaced() -> None:
    assert write_value("a\ud800") == '"a?"'


def test_what_toml_has_not_is_refused() -> None:
    with pytest.raises(ValueError, match="no value of the type NoneType"):
        write_value(None)
