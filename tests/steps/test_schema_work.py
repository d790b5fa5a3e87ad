"""The work of a check, and what a message quotes of a large value."""

from collections.abc import Iterator
from typing import Any

import pytest
from app.steps import schema_work
from app.steps.schema_work import MAX_WORDS, Stop, Unchecked, charge, charge_reference, get_size, measure, shorten

from tests.each_case import each_case


@pytest.fixture(autouse=True)
def _forget() -> Iterator[None]:
    schema_work.begin(10_000, 0)
    yield
    schema_work.end()


def test_work_may_take_all_units_and_no_more() -> None:
    schema_work.begin(5, 0)
    charge(5)
    with pytest.raises(Unchecked, match="too much work"):
        charge(1)


def test_a_check_that_was_stopped_does_no_more_work() -> None:
    stop = Stop()
    schema_work.begin(5, 0, stop)
    charge(1)
    stop.wanted = True
    with pytest.raises(Unchecked, match="stopped"):
        charge(1)


@each_case(
    ("reference", "units"), [("#", 2), ("#/a/b/c/d", 3), ("#" + "/" + "a" * 400, 3), ("#x", 102), ("other", 102)]
)
def test_a_reference_that_is_no_path_costs_a_search_of_the_schema(reference: str, units: int) -> None:
    schema_work.begin(units, 2500)
    charge_reference(reference)
    with pytest.raises(Unchecked):
        charge(1)


@each_case(
    ("value", "size"),
    [("four", 4), (0, 10), (8**9, 19), (True, 10), (None, 10), (1.5, 10), ([1], 20), ({"a": "b"}, 24), ([["a"]], 23)],
)
def test_the_size_of_a_value_is_about_that_of_its_text(value: Any, size: int) -> None:
    assert get_size(measure(value)) == size


def test_the_sizes_of_a_value_are_forgotten_at_the_end() -> None:
    value = measure(["abc"] * 9)
    assert get_size(value) > 10
    schema_work.end()
    assert get_size(value) == 10


@each_case("value", ["text", ["a", 1, None, 2.5, False], {"a": {"b": [1]}}])
def test_a_small_value_is_quoted_whole(value: Any) -> None:
    assert repr(measure(value)) == repr(value)


@each_case(
    ("value", "text"),
    [
        (list(range(200)), "[0, 1, 2, … (200 in all)]"),
        ([[0] * 200, {"a": "x" * 1100}], "[…, …, … (2 in all)]"),
        ({f"n{n}": n for n in range(200)}, "{'n0', 'n1', 'n2', … (200 in all)}"),
        ("x" * 1001, "'" + "x" * 148 + " … " + "x" * 148 + "'"),
    ],
)
def test_a_large_value_is_quoted_in_part_and_stays_equal(value: Any, text: str) -> None:
    measured = measure(value)
    assert measured == value
    assert len(repr(measured)) <= MAX_WORDS + 2
    assert repr(measured) == text


def test_a_long_name_of_a_large_object_is_quoted_in_part() -> None:
    assert len(repr(measure({"x" * 5000: 1}))) <= MAX_WORDS + 2


def test_a_text_is_shortened_in_its_middle() -> None:
    assert shorten("x" * MAX_WORDS) == "x" * MAX_WORDS
    short = shorten("a" * 200 + "b" * 200)
    assert (short[:3], short[-3:], len(short) <= MAX_WORDS) == ("aaa", "bbb", True)
