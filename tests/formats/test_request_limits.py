"""The limits of one request."""

from typing import Any

from app.formats.request_limits import (
    MAX_WARNINGS,
    RequestLimits,
    _find_invalid_values,
    find_invalid_values,
    find_long_lists,
    limit_warnings,
)
from hypothesis import given
from hypothesis import strategies as st

from tests.each_case import each_case

values: st.SearchStrategy[Any] = st.recursive(
    st.sampled_from(["a", None, True, 1, 1.5, 2**64 - 1, 2**64, -(2**63), -(2**63) - 1, float("inf"), [], {}]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["a", "b"]), inner, max_size=2),
    max_leaves=8,
)


@given(values, st.integers(0, 4))
def test_invalid_values_are_found_out_before_they_are_listed(value: Any, max_nesting: int) -> None:
    expected = list(_find_invalid_values(value, "v", max_nesting))
    assert list(find_invalid_values(value, "v", max_nesting)) == expected


LIMITS = RequestLimits(max_messages=2, max_content_items=3, max_functions=1, max_nesting=9)
MESSAGE = {"content": ["a", "b"]}


@each_case(
    ("body", "path", "message"),
    [
        ({"messages": [MESSAGE] * 3}, "messages", "more than 2 messages"),
        ({"messages": [MESSAGE] * 2}, "messages", "more than 3 content items"),
        ({"functions": [1, 2]}, "functions", "more than 1 functions"),
        ({"tools": [1, 2]}, "tools", "more than 1 functions"),
    ],
)
def test_a_list_with_too_many_entries_is_a_violation(body: Any, path: str, message: str) -> None:
    assert [(one.path, one.message) for one in find_long_lists(body, LIMITS)] == [(path, message)]


def test_lists_within_the_limits_and_values_that_are_no_lists_are_none() -> None:
    assert find_long_lists({"messages": [MESSAGE], "functions": [1], "tools": None}, LIMITS) == []
    assert find_long_lists({"messages": "x", "functions": 5}, LIMITS) == []


@each_case(
    ("value", "found"),
    [
        (float("inf"), [("v", "must be a finite number")]),
        (2**64, [("v", f"must be a number from {-(2**63)} to {2**64 - 1}")]),
        ({"a": [1, float("nan")]}, [("v.a[1]", "must be a finite number")]),
        ([[[[1]]]], [("v[0][0]", "is nested too deeply")]),
        ([0.5, {}, "x", float("-inf")], [("v[3]", "must be a finite number")]),
        ([[[]]], []),
        ("text", []),
        (None, []),
        ({"a": {"b": "text"}, "c": 2**64}, [("v.c", f"must be a number from {-(2**63)} to {2**64 - 1}")]),
        ({"a": {"b": 1}}, []),
    ],
)
def test_a_value_that_json_cannot_express_is_a_violation_at_its_place(value: Any, found: Any) -> None:
    assert [(one.path, one.message) for one in find_invalid_values(value, "v", 2)] == found


@each_case("value", [1, 0.5, "x", {}, [], True, None])
def test_a_valid_value_has_no_violation_to_be_listed(value: Any) -> None:
    assert list(_find_invalid_values(value, "v", 0)) == []


def test_warnings_beyond_the_limit_are_counted() -> None:
    assert limit_warnings(["a"]) == ("a",)
    many = limit_warnings(["a"] * (MAX_WARNINGS + 3))
    assert many == ("a",) * MAX_WARNINGS + ("3 more warnings were left out",)
