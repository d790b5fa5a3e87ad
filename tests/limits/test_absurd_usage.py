"""What a model server says of its usage, however absurd, cannot let a caller spend more than its limit and one call."""

import asyncio
from typing import Any

from app.chat.events import Event, Finish, TextDelta
from app.chat.stream import AttemptLog
from app.errors import RateLimited
from app.limits import NO_LIMITS, Limiter, Limits
from app.limits.spending import Spending
from app.state.sqlite import SqliteDatabase
from app.upstream.reply.usage import normalize_usage
from app.usage.meter import CallMeter, Price
from hypothesis import given, settings
from hypothesis import strategies as st

TOKENS = 20
"""What each reply really has, an event each, and what its request reserves."""
PRICE = Price(0.0, 1_000_000 / TOKENS, 0.0, 0.0)
"""A reply costs 1."""
LIMIT = 5
STREAMS = 3
COUNTS: st.SearchStrategy[Any] = st.one_of(
    st.sampled_from([10**12, 2**64 - 1, -1, 0, None, "20", "many", True, 1.5, float(TOKENS), float("nan"), [], {}]),
    st.just(TOKENS),
)
USAGES: st.SearchStrategy[Any] = st.one_of(
    st.sampled_from([None, "usage", [1], 5]),
    st.dictionaries(
        st.sampled_from(
            ["prompt_tokens", "completion_tokens", "total_tokens", "cached_tokens", "cost", "reasoning_tokens"]
        ),
        COUNTS,
    ),
)


class Owner:
    name = "a"
    team = user = None
    user_limits = NO_LIMITS
    limits = Limits(spend_per_day=float(LIMIT))


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(USAGES, USAGES), min_size=LIMIT * 4, max_size=LIMIT * 4))
def test_no_usage_lets_a_caller_spend_more(reported: list[tuple[Any, Any]]) -> None:
    """Each reply costs 1, and tells one usage in the middle and one at its end."""

    async def scenario() -> int:
        spending = Spending(SqliteDatabase(""))
        limiter = Limiter(Limits(), {}, spending=spending, prices={"m": PRICE})
        spent = 0
        for begin in range(0, len(reported), STREAMS):
            reserved = []
            for usages in reported[begin : begin + STREAMS]:
                try:
                    reserved.append((await limiter.reserve(Owner(), "m", lambda: 0, TOKENS, TOKENS), usages))
                except RateLimited:
                    continue
            for reservation, (middle, last) in reserved:
                assert reservation is not None
                used = end_reply(normalize(middle), normalize(last))
                spent += 1
                limiter.settle(reservation, used.tokens.total, used.cost)
        await limiter.aclose()
        return spent

    assert asyncio.run(scenario()) <= LIMIT + STREAMS


def normalize(usage: Any) -> dict[str, Any] | None:
    return normalize_usage(usage) if isinstance(usage, dict) else None


def end_reply(told: dict[str, Any] | None, last: dict[str, Any] | None) -> Any:
    attempts = AttemptLog()
    events: list[Event] = [TextDelta("word "), Finish("stop", last)]
    CallMeter(attempts, PRICE, 10).end(events, TOKENS, told)
    assert attempts.usage is not None
    return attempts.usage
