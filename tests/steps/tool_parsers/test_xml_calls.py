"""Calls in XML, and the JSON of their values."""

import json

from app.steps.tool_parsers.xml_calls import to_typed_json

from tests.each_case import each_case


def test_a_text_stays_one_where_only_a_text_is_wanted() -> None:
    assert to_typed_json("5", frozenset({"string"})) == '"5"'
    assert to_typed_json("5", frozenset({"integer"})) == "5"


@each_case(
    "text",
    ["1e999", "NaN", "-Infinity", "[1e999]", "[1e999,]", "{'a': -1e999}", "9" * 5000, "[" * 5000, "[-" * 900]
    + ["[" * 3000 + "]" * 3000, "{1, 2}", "[b'a']", "[1j]", "(" * 150, "[...]", "[lambda: 1]"],
)
def test_a_value_that_is_no_json_stays_text(text: str) -> None:
    assert to_typed_json(text, frozenset()) == json.dumps(text)
    assert to_typed_json(text, frozenset({"array", "number"})) == json.dumps(text)
