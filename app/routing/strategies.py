"""Choose one of a model's upstreams. A strategy is one function in `STRATEGIES`."""

import hashlib
import math
from collections.abc import Callable, Sequence
from typing import Literal, Protocol, TypeAlias

Strategy: TypeAlias = Literal["least_busy", "weighted", "prefix", "session"]

LOAD_FACTOR = 1.25
"""With `prefix` and `session`, an upstream takes at most this multiple of its share of the outstanding requests."""


class Member(Protocol):
    """One upstream of a model."""

    @property
    def name(self) -> str: ...

    @property
    def weight(self) -> float: ...

    @property
    def outstanding(self) -> int:
        """How many requests it is answering."""


def choose_least_busy(members: Sequence[Member], prefix: bytes, roll: float) -> Member:
    """Return the member with the fewest outstanding requests; of several, one at random by weight."""
    fewest = min(member.outstanding for member in members)
    return choose_weighted([member for member in members if member.outstanding == fewest], prefix, roll)


def choose_weighted(members: Sequence[Member], prefix: bytes, roll: float) -> Member:
    """Return a member at random; one with twice the weight is chosen twice as often."""
    rest = roll * sum(member.weight for member in members)
    for member in members:
        rest -= member.weight
        if rest < 0:
            return member
    return members[-1]


def choose_by_prefix(members: Sequence[Member], prefix: bytes, roll: float) -> Member:
    """Return the same member for each conversation with this beginning, or of this session, so that the server's prefix
    cache holds it.

    It is weighted rendezvous hashing: when a member is added or removed, only its own conversations move. A member that
    has too much to do is left out ("consistent hashing with bounded loads", https://arxiv.org/abs/1608.01350)."""
    limit = LOAD_FACTOR * (1 + sum(member.outstanding for member in members)) / sum(member.weight for member in members)
    return min(
        (member for member in members if member.outstanding < math.ceil(limit * member.weight)),
        key=lambda member: _distance(member, prefix),
    )


def find_favourite(members: Sequence[Member], prefix: bytes) -> Member:
    """Return the member that has the conversation unless it is lost or has too much to do."""
    return min(members, key=lambda member: _distance(member, prefix))


def _distance(member: Member, prefix: bytes) -> float:
    digest = hashlib.blake2b(prefix + member.name.encode(), digest_size=8).digest()
    return -math.log((int.from_bytes(digest) + 1) / 2**64) / member.weight


STRATEGIES: dict[Strategy, Callable[[Sequence[Member], bytes, float], Member]] = {
    "least_busy": choose_least_busy,
    "weighted": choose_weighted,
    "prefix": choose_by_prefix,
    "session": choose_by_prefix,
}
"""Each takes the members that are available, the hash of the session or of the conversation's beginning, and a random
number below 1."""
