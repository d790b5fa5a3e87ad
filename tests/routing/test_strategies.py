"""Which of several upstreams is chosen."""

from collections import Counter
from dataclasses import dataclass

from app.routing.strategies import choose_by_prefix, choose_least_busy, choose_weighted


@dataclass
class Server:
    name: str
    weight: float = 1.0
    outstanding: int = 0


ROLLS = [number / 1000 for number in range(1000)]
PREFIXES = [b"conversation %d" % number for number in range(1000)]


def counts(chosen: list[str]) -> dict[str, int]:
    return dict(Counter(chosen))


def test_the_least_busy_server_is_chosen_and_ties_are_broken_by_weight() -> None:
    servers = [Server("a", 1, 2), Server("b", 1, 1), Server("c", 3, 1)]
    assert counts([choose_least_busy(servers, b"", roll).name for roll in ROLLS]) == {"b": 250, "c": 750}
    servers[1].outstanding = 0
    assert {choose_least_busy(servers, b"", roll).name for roll in ROLLS} == {"b"}


def test_a_weight_is_a_share_of_the_requests() -> None:
    servers = [Server("a", 1, 9), Server("b", 4)]
    assert counts([choose_weighted(servers, b"", roll).name for roll in ROLLS]) == {"a": 200, "b": 800}
    assert choose_weighted(servers, b"", 0.9999999999999999).name == "b"


def test_a_rounding_error_of_the_weights_leaves_no_upstream_out() -> None:
    """The sum of these weights, taken away one by one, leaves more than nothing."""
    servers = [Server("a", 0.1), Server("b", 0.2), Server("c", 0.3)]
    assert choose_weighted(servers, b"", 1.0).name == "c"


def test_a_conversation_stays_with_its_server_and_shares_follow_the_weights() -> None:
    servers = [Server("a", 1), Server("b", 3)]
    chosen = [choose_by_prefix(servers, prefix, 0.5).name for prefix in PREFIXES]
    assert chosen == [choose_by_prefix(servers[::-1], prefix, 0.1).name for prefix in PREFIXES]
    assert 200 < counts(chosen)["a"] < 300


def test_without_a_server_only_its_own_conversations_move() -> None:
    servers = [Server(name) for name in "abcd"]
    before = [choose_by_prefix(servers, prefix, 0.0).name for prefix in PREFIXES]
    after = [choose_by_prefix(servers[:3], prefix, 0.0).name for prefix in PREFIXES]
    assert {one for one, other in zip(before, after, strict=True) if one != other} == {"d"}


def test_a_conversation_that_everybody_has_spills_over_to_other_servers() -> None:
    servers = [Server(name) for name in "abcd"]
    for _ in range(400):
        server = choose_by_prefix(servers, b"one prompt for all", 0.0)
        assert isinstance(server, Server)
        server.outstanding += 1
    loads = sorted(server.outstanding for server in servers)
    assert sum(loads) == 400
    assert loads[-1] <= 126
    assert loads[-1] > loads[0]
