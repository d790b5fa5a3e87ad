"""What was made of a conversation is found again by what it was made of."""

from app.chat.known_conversation import MAX_KEPT, KnownConversation


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
