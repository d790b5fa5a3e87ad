"""What was made of a conversation is found again by what it was made of."""

import copy
from collections.abc import Sequence
from typing import Any

import pytest
from app.chat.known_conversation import (
    CHANGED_MESSAGES,
    MAX_KEPT,
    KnownConversation,
    add_up,
    begins_with,
    find_end,
    gather,
    is_same,
    make_once,
)
from app.chat.messages import Message, Reasoning, Text, Tool, ToolCall

from tests.each_case import each_case

CALL = ToolCall("f", "{}", "c", path="a")
DIFFERENT: list[Any] = [
    *(1, 1.0, True, "1", b"1", 0, 0.0, -0.0, False, None, "", b"", (), [], {}),
    *([1], [1.0], [True], (1,), [1, 2], [[1]], [[True]], [{"a": 0.0}], [{"a": -0.0}]),
    *({"a": 1}, {"a": True}, {"a": 1, "b": 2}, {"b": 2, "a": 1}, {"a": {"b": 1, "c": 2}}, {"a": {"c": 2, "b": 1}}),
    *(Text("a"), Reasoning("a"), Message("user", (Text("a"),)), Message("user", (Reasoning("a"),))),
    *(CALL, ToolCall("f", "{}", "c", path="b"), ToolCall("f", "{}", "c", path="a", awaits_approval=True)),
    *(Tool("f", {"x": 1}), Tool("f", {"x": True}), Tool("f", {"x": 1}, custom=True)),
    *(object(), float("inf"), 2**70),
]
"""Many of them are equal for Python."""


def test_what_was_kept_is_found_by_all_that_begin_alike() -> None:
    known = KnownConversation()
    known.keep("what", (1, 2), "made")

    assert known.find("what", (1, 2)) == "made"
    assert known.find("what", (1, 2, 3)) == "made"
    assert known.find("what", (1, 3, 3)) is None
    assert known.find("what", (1,)) is None
    assert known.find("else", (1, 2)) is None


@each_case("place", range(len(DIFFERENT)), ids=lambda place: repr(DIFFERENT[place]))
def test_only_the_same_value_is_the_same(place: int) -> None:
    assert [is_same(DIFFERENT[place], other) for other in DIFFERENT] == [
        other == place for other in range(len(DIFFERENT))
    ]


def test_a_copy_is_the_same() -> None:
    for value in DIFFERENT:
        if type(value) is not object:
            assert is_same(copy.deepcopy(value), value)
    assert not is_same(object(), object())


@each_case(
    ("given", "beginning", "begins"),
    [
        ((1, 2), (), True),
        ((), (1,), False),
        ((1, 2), (1, 2, 3), False),
        ((1, 2, 3), (1, 2), True),
        ((1, True, 3), (1, 1), False),
        ((1, [2]), (1, [2]), True),
        ((True, 2), (1, 2), False),
        (b"ab", b"a", True),
        (b"ab", b"b", False),
        ((97, 98), b"a", False),
        (b"ab", (97,), False),
    ],
)
def test_a_list_begins_with_another_one_if_its_first_entries_are_the_same(
    given: Sequence[Any], beginning: Sequence[Any], begins: bool
) -> None:
    assert begins_with(given, beginning) is begins


@pytest.mark.parametrize("changed", [{"x": True}, {"x": 1.0}, {"x": 1, "y": 2}])
def test_what_was_made_of_an_equal_list_is_made_again(changed: dict[str, Any]) -> None:
    known, given = KnownConversation(), [{"x": 1}] if len(changed) == 1 else [{"y": 2, "x": 1}]
    assert make_once("what", lambda: "first", given, known) == "first"
    assert make_once("what", lambda: "again", copy.deepcopy(given), known) == "first"
    assert make_once("what", lambda: "second", [changed], known) == "second"
    assert known.find_whole("what", [changed, 1]) is None


def test_what_is_common_ends_at_the_first_that_is_not_the_same() -> None:
    known, messages = KnownConversation(), [Message("user", (Text(str(number)),)) for number in range(4)]
    assert known.find_common("what", messages) == (None, 0)
    known.keep("what", messages, "made")
    copied = copy.deepcopy(messages)
    changed = [*copied[:2], Message("user", (Text("2"),), path="a"), copied[3]]

    assert known.find_common("what", [*copied, messages[0]]) == ("made", 4)
    assert known.find_common("what", copied[:3]) == ("made", 3)
    assert known.find_common("what", changed) == ("made", 2)
    assert known.find_common("what", []) == ("made", 0)
    assert known.find_common("other", messages) == (None, 0)


def test_the_last_of_a_kind_is_kept() -> None:
    known = KnownConversation()
    known.keep("what", (1,), "first")
    known.keep("what", (1, 2), "second")

    assert known.find("what", (1, 2)) == "second"
    assert known.find("what", (1,)) is None


def test_only_some_kinds_are_kept() -> None:
    known = KnownConversation()
    for number in range(3 * MAX_KEPT):
        known.keep(number, (1,), number)

    assert sum(known.find(number, (1,)) is not None for number in range(3 * MAX_KEPT)) <= MAX_KEPT
    assert known.find(3 * MAX_KEPT - 1, (1,)) == 3 * MAX_KEPT - 1


def test_only_what_is_new_is_counted_again() -> None:
    known, counted = KnownConversation(), list[int]()

    def count(given: Sequence[Any]) -> int:
        counted.append(len(given))
        return sum(given)

    for size in (30, 32, 34, 34, 5):
        given = tuple(range(size))
        assert add_up(count, given, known) == sum(given) == add_up(sum, given, None)
    assert counted == [22, 8, 2, 8, 2, 8, 8, 5]


def test_a_part_that_is_kept_ends_only_where_the_list_may_be_divided() -> None:
    given = [object() for _ in range(20)]
    assert find_end(0, 20) == 20 - CHANGED_MESSAGES
    assert find_end(0, 20, lambda place: place == 5) == 5
    assert find_end(7, 20, lambda place: place == 5) == 7, "not before what is known"
    assert find_end(0, 3) == 0
    known, parts = KnownConversation(), list[tuple[int, int]]()

    def read(start: int, end: int) -> tuple[int, ...]:
        parts.append((start, end))
        return tuple(range(start, end))

    for length in (15, 20):
        found = gather("parts", read, given[:length], known, (), lambda place: place % 5 == 0)
        assert found == tuple(range(length))
    assert parts == [(0, 5), (5, 15), (5, 10), (10, 20)]
