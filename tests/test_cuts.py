"""The cutting helpers lose no byte and make no empty read."""

import pytest

from tests.cuts import bytewise, distinct_cuts, every_cut, random_cuts, whole
from tests.effort import LONG

BODIES = [b"", b"a", b"data: {}\n\n", bytes(range(256))]


@pytest.mark.parametrize("data", BODIES, ids=len)
def test_the_parts_are_the_body(data: bytes) -> None:
    for parts in (whole(data), bytewise(data), *(random_cuts(data, seed, 7) for seed in range(20)), *every_cut(data)):
        assert b"".join(parts) == data
        assert all(parts)


@pytest.mark.parametrize("data", BODIES, ids=len)
def test_every_cut_is_made_once(data: bytes) -> None:
    cuts = [len(first) for first, _ in every_cut(data)]
    assert cuts == list(range(1, len(data)))


def test_random_cuts_follow_from_the_seed() -> None:
    data = bytes(range(256))
    assert random_cuts(data, 3, 5) == random_cuts(data, 3, 5)
    assert random_cuts(data, 3, 5) != random_cuts(data, 4, 5)
    assert len(random_cuts(data, 3, 5)) == 6


def test_more_cuts_than_places_cut_everywhere() -> None:
    assert random_cuts(b"abc", 1, 99) == bytewise(b"abc")


@pytest.mark.skipif(LONG, reason="all cuts are given then")
def test_cuts_are_distinct_by_what_the_reader_of_events_returns_for_them() -> None:
    """One before the end of the first event's line, one before that of the second, and one behind it."""
    first, second = b'data: {"id":"a"}\n\n', b'data: {"id":"b"}\n\n'
    whole_lines = [len(first) - 2, len(first + second) - 2]
    assert [len(parts[0]) for parts in distinct_cuts(first + second)] == [*whole_lines, len(first + second) - 1]
