"""What a reply costs, from the price of its model. Pure."""

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from app.chat.token_usage import MAX_COST, TokenUsage

_TOKENS_PER_PRICE = 1_000_000
_DIGITS = 12
"""Costs are rounded to this many digits after the point: one token of the cheapest models costs about 1e-8."""


class Price(Struct, frozen=True):
    """Prices of a million tokens, all in one currency."""

    input: float
    output: float
    """Of generated tokens, reasoning included."""
    cached_input: float
    """Of tokens of the prompt that the server read from its own cache."""
    cache_write: float
    """Of tokens of the prompt that the server wrote to its own cache."""

    def compute_cost(self, tokens: TokenUsage) -> float:
        new = tokens.input - tokens.cached_input - tokens.cache_write
        total = new * self.input + tokens.cached_input * self.cached_input + tokens.cache_write * self.cache_write
        return round((total + tokens.output * self.output) / _TOKENS_PER_PRICE, _DIGITS)


def with_cost(usage: dict[str, Any], cost: float) -> dict[str, Any]:
    """Return a normalized usage with this cost. It takes precedence over the cost that the server reported, which then
    is `upstream_cost`."""
    reported = usage.get("cost")
    if reported is None:
        return {**usage, "cost": cost}
    return {**usage, "cost": cost, "upstream_cost": reported}


def read_cost(usage: Mapping[str, Any] | None) -> float | None:
    """Return the cost in a usage, at most MAX_COST; None if it is unknown."""
    cost = None if usage is None else usage.get("cost")
    if isinstance(cost, bool) or not isinstance(cost, int | float) or not 0 <= cost <= MAX_COST:
        return None
    return float(cost)
