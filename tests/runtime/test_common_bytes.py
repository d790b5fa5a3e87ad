"""How many bytes two texts have in common."""

from app.runtime.common_bytes import count_common_end, count_common_start
from hypothesis import given
from hypothesis import strategies as st

from tests.each_case import each_case

PLACES = [0, 1, 15, 16, 17, 255, 256, 4096, 65535, 65536, 70000, 140000]


@each_case("place", PLACES)
def test_the_common_beginning_ends_at_the_first_byte_that_differs(place: int) -> None:
    first = bytes(range(256)) * 600
    second = bytearray(first)
    assert count_common_start(first, bytes(second)) == len(first)
    assert count_common_start(first, bytes(second) + b"more") == len(first)
    second[place] ^= 1
    for likely in (0, 1, place, place + 1, len(first) + 1):
        assert count_common_start(first, bytes(second), likely) == place


@each_case("place", PLACES)
def test_the_common_end_begins_behind_the_last_byte_that_differs(place: int) -> None:
    first = bytes(range(256)) * 600
    second = bytearray(first)
    assert count_common_end(first, b"more" + bytes(second), 0) == len(first)
    second[-1 - place] ^= 1
    assert count_common_end(first, bytes(second), 0) == place
    for likely in (0, 1, place, place + 1, len(first) + 1):
        assert count_common_end(first, b"more" + bytes(second), 0, likely) == place


@given(st.binary(max_size=9), st.binary(max_size=400), st.binary(max_size=9), st.data())
def test_what_counts_at_the_beginning_does_not_count_at_the_end(
    old: bytes, common: bytes, new: bytes, data: st.DataObject
) -> None:
    first, second = common + old + common, common + new + common
    start = data.draw(st.integers(0, count_common_start(first, second)))
    end = count_common_end(first, second, start)
    assert start + end <= min(len(first), len(second))
    assert first[len(first) - end :] == second[len(second) - end :]
    assert first[:start] == second[:start]
    longest = start + end == min(len(first), len(second))
    assert longest or first[len(first) - end - 1] != second[len(second) - end - 1]
