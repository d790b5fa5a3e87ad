"""How many bytes two texts have in common at their beginnings or ends.

Nothing is copied. Long parts of both are compared, shorter ones where they differ, and a short one as a number.
"""

from typing import Literal

_LONGEST = 4**8
_SHORTEST = 4**4


def count_common_start(first: bytes, second: bytes, likely: int = 0) -> int:
    """Return how many bytes at the beginning of both are the same. So many of them are likely to be."""
    end = min(len(first), len(second))
    given = memoryview(first)[:end]
    place = likely if likely <= end and second.startswith(given[:likely]) else 0
    # Many texts that are compared have less in common than the shortest part.
    size = _LONGEST if second.startswith(given[place : place + _SHORTEST], place) else 0
    while size >= _SHORTEST and place < end:
        while place < end and second.startswith(given[place : place + size], place):
            place += size
        size //= 4
    if place >= end:
        return end
    stop = min(place + _SHORTEST, end)
    return place + _count_equal(first[place:stop], second[place:stop], "little")


def count_common_end(first: bytes, second: bytes, start: int, likely: int = 0) -> int:
    """Return how many bytes at the end of both are the same; the first `start` ones do not count. So many of them are
    likely to be."""
    most, end = min(len(first), len(second)) - start, len(second)
    given = memoryview(first)[len(first) - most :]
    place = likely if likely <= most and second.startswith(given[most - likely :], end - likely) else 0
    size = _LONGEST
    while size >= _SHORTEST:
        while place + size <= most and second.startswith(given[most - place - size : most - place], end - place - size):
            place += size
        size //= 4
    stop = min(place + _SHORTEST, most)
    return place + _count_equal(bytes(given[most - stop : most - place]), second[end - stop : end - place], "big")


def _count_equal(first: bytes, second: bytes, order: Literal["little", "big"]) -> int:
    """Return how many bytes are the same at the beginning of both, or with the order `big` at the end. They are as
    long."""
    differing = int.from_bytes(first, order) ^ int.from_bytes(second, order)
    return ((differing & -differing).bit_length() - 1) // 8 if differing else len(first)
