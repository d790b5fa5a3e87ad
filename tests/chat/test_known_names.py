"""What is kept of names that clients send."""

import tracemalloc
from collections.abc import Callable

from app.chat.fetched_urls import find_addresses
from app.chat.known_names import MAX_CHARACTERS, recall_names
from app.params import chooses_route, find_routing_params

from tests.each_case import each_case


def test_a_short_name_is_looked_at_once_and_a_long_one_each_time() -> None:
    seen: list[int] = []

    def measure(name: str) -> int:
        seen.append(len(name))
        return len(name)

    recall = recall_names(measure)
    for _ in range(2):
        assert recall("a" * MAX_CHARACTERS) == MAX_CHARACTERS
        assert recall("a" * (MAX_CHARACTERS + 1)) == MAX_CHARACTERS + 1
    assert seen == [MAX_CHARACTERS, MAX_CHARACTERS + 1, MAX_CHARACTERS + 1]


@each_case("find", [lambda name: find_routing_params({name: 1}), lambda name: find_addresses({name: "https://a.b"})])
def test_long_names_do_not_stay_in_memory(find: Callable[[str], object]) -> None:
    find("a")
    tracemalloc.start()
    for number in range(20):
        find(f"{number} " + "x" * 100_000)
    held = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert held < 500_000


def test_a_long_name_is_understood_as_a_short_one_is() -> None:
    assert chooses_route("fallback_" + "x" * 1000)
    assert not chooses_route("x" * 1000)
