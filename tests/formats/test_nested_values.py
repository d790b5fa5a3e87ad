"""Values of any depth."""

import math
from typing import Any

from app.formats.nested_values import are_valid, count_entries

from tests.each_case import each_case


@each_case(
    ("value", "nesting", "valid"),
    [
        ("a", 0, True),
        ([], 0, True),
        ({}, 0, True),
        ([None, True, "a", 1.5, -(2**63), 2**64 - 1], 1, True),
        ([[]], 1, True),
        ([["a"]], 1, False),
        ({"a": {"b": "c"}}, 1, False),
        ({"a": {"b": ["c"]}}, 3, True),
        (2**64, 0, False),
        ([-(2**63) - 1], 1, False),
        ({"a": math.inf}, 1, False),
        ({"a": [math.nan]}, 2, False),
    ],
)
def test_numbers_and_the_nesting_are_checked(value: Any, nesting: int, valid: bool) -> None:
    assert are_valid([value], nesting) is valid
    assert are_valid(["a", value, "b"], nesting) is valid


@each_case(
    ("value", "count"),
    [
        ("a", 0),
        ({"content": "a"}, 0),
        ({"content": ["a", {"b": 1}]}, 2),
        ({"content": [{"content": ["a", "b"]}, "c"], "more": [1]}, 5),
        ({"content": {"inner": ["a"]}}, 0),
    ],
)
def test_the_entries_of_lists_in_lists_are_counted(value: Any, count: int) -> None:
    assert count_entries([value]) == count
    assert count_entries([value, "a", value]) == 2 * count
