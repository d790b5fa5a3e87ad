"""What was made of a conversation is found again by what it was made of."""

from collections.abc import Sequence
from typing import Any

from app.chat.known_conversation import MAX_KEPT, KnownConversation, add_up


def test_what_was_kept_is_found_by_all_that_begin_alike() -> None:
    known = KnownConversation()
    known.keep("what", (1, 2), "made")

    assert known.find("what", (1, 2)) == "made"
    assert known.find("what", (1, 2, 3)) == "made"
    assert known.find("what", (1, 3, 3)) is None
    assert known.find("what", (1,)) is None
    assert known.find("else", (1, 2)) is None


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
