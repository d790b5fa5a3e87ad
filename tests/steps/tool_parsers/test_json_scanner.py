"""JSON as models write it becomes JSON."""

import pytest
from app.steps.tool_parsers.calls import NotACall
from app.steps.tool_parsers.json_scanner import loads, to_json_value, to_standard_json, write_json
from app.steps.tool_parsers.xml_calls import to_typed_json

from tests.each_case import each_case
from tests.linear_time import linear


@each_case(
    ("text", "want"),
    [
        ('{"a" : [1, 2.5e-3 , -0],\n "b": {}}', '{"a" : [1, 2.5e-3 , -0],\n "b": {}}'),
        ("{'a': 'it\\'s \"x\"'}", '{"a": "it\'s \\"x\\""}'),
        ("{a: 1, $b_2: 2,}", '{"a": 1, "$b_2": 2}'),
        ("[1, 2,\n]", "[1, 2\n]"),
        ("[True, False, None, true]", "[true, false, null, true]"),
        ("[0x1F, +0xf, +1, .5, 5., -.5e1]", "[31, 15, 1, 0.5, 5.0, -5.0]"),
        ("{/* one */ a: 1, // two\n b: 2}", '{ "a": 1,  "b": 2}'),
        ('"\\d+\\x41\\u00e9\\n\\\n"', '"\\\\d+\\u0041\\u00e9\\n"'),
        ('"a\tb\u0001"', '"a\\tb\\u0001"'),
        (" 12 ", "12"),
    ],
)
def test_a_value_is_written_as_json(text: str, want: str) -> None:
    assert to_standard_json(text) == want


@each_case(
    "text",
    ["", "{", "[1", "{a}", "{a 1}", "[1 2]", "[,]", "{,}", "nope", "NaN", "007", '"\\u12g4"', '"\\xg1"', "1 2", "/ 1"]
    + ["[1}", "]", "{1: 2}", '"a', "?", "[" * 5000 + "]" * 5000]
    + ["9" * 5000, "+" + "9" * 5000, "0x" + "f" * 5000, "+1e999", "-.1e999", "9" * 400 + ".", "+Infinity"],
)
def test_what_is_no_value_is_refused(text: str) -> None:
    with pytest.raises(NotACall):
        loads(text)


def test_surrogates_are_joined_and_a_single_one_is_replaced() -> None:
    assert to_typed_json('["\\ud83d", "\\ud83d\\ude00"]', frozenset()) == '["\ufffd", "😀"]'
    assert write_json(["\ud83d\ude00", "a\udc00"]) == '["😀", "a\ufffd"]'


@pytest.mark.many_cases
def test_a_long_word_that_is_no_number_takes_linear_time() -> None:
    def read(size: int) -> None:
        with pytest.raises(NotACall):
            to_json_value("9" * size + "x")

    assert linear(read, 10_000)
