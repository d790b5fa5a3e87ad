"""What a reply costs, from its normalized usage and the price of its model."""

from typing import Any

import pytest
from app.chat.token_usage import TokenUsage, read_token_usage
from app.upstream.reply.usage import normalize_usage
from app.usage.meter import Price, read_cost, with_cost

PRICE = Price(input=2.0, output=10.0, cached_input=0.5, cache_write=2.5)


@pytest.mark.parametrize(
    ("usage", "want"),
    [
        ({"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}, TokenUsage(10, 0, 0, 5, 0)),
        ({"prompt_tokens": 10, "completion_tokens": 5, "cached_tokens": 4}, TokenUsage(10, 4, 0, 5, 0)),
        # Anthropic's names: the prompt is the sum of the three.
        (
            {"input_tokens": 3, "cache_read_input_tokens": 40, "cache_creation_input_tokens": 7, "output_tokens": 5},
            TokenUsage(50, 40, 7, 5, 0),
        ),
        # xAI and Gemini: reasoning is only in the total.
        (
            {
                "prompt_tokens": 468,
                "completion_tokens": 77,
                "total_tokens": 1127,
                "completion_tokens_details": {"reasoning_tokens": 582},
            },
            TokenUsage(468, 0, 0, 659, 582),
        ),
        (
            {"promptTokenCount": 223, "candidatesTokenCount": 25, "thoughtsTokenCount": 266, "totalTokenCount": 514},
            TokenUsage(223, 0, 0, 291, 266),
        ),
        # Mistral: the tokens of audio are only in the total.
        (
            {
                "prompt_tokens": 9,
                "completion_tokens": 201,
                "total_tokens": 585,
                "prompt_tokens_details": {"audio_tokens": 375},
            },
            TokenUsage(384, 0, 0, 201, 0),
        ),
        # Reasoning that is part of the completion is not added.
        (
            {"prompt_tokens": 20, "completion_tokens": 30, "total_tokens": 50, "reasoning_tokens": 22},
            TokenUsage(20, 0, 0, 30, 22),
        ),
        # More cached tokens than the prompt has: servers count them in blocks.
        ({"prompt_tokens": 10, "completion_tokens": 142, "num_cached_tokens": 64}, TokenUsage(10, 10, 0, 142, 0)),
        ({"prompt_tokens": -3, "completion_tokens": 5}, TokenUsage(0, 0, 0, 5, 0)),
        ({"total_tokens": 5}, None),
        ({}, None),
        (None, None),
    ],
)
def test_billed_tokens_are_read_from_every_shape(usage: dict[str, Any] | None, want: TokenUsage | None) -> None:
    assert read_token_usage(normalize_usage(usage)) == want


def test_each_kind_of_token_has_its_price() -> None:
    tokens = TokenUsage(input=1_000_000, cached_input=400_000, cache_write=100_000, output=200_000, reasoning=50_000)
    assert PRICE.compute_cost(tokens) == pytest.approx(0.5 * 2.0 + 0.4 * 0.5 + 0.1 * 2.5 + 0.2 * 10.0)


def test_the_price_wins_over_the_reported_cost_and_both_are_kept() -> None:
    usage = {"prompt_tokens": 1000, "completion_tokens": 100, "total_tokens": 1100}
    assert with_cost(usage, 0.003) == usage | {"cost": 0.003}
    assert with_cost(usage | {"cost": 0.7}, 0.003) == usage | {"cost": 0.003, "upstream_cost": 0.7}


def test_a_cost_that_is_no_usable_number_is_unknown() -> None:
    for cost in (None, "1", True, -1, float("nan"), float("inf"), {"usd": 1}, 1_000_000.1, 1e300, 10**400):
        assert read_cost({"cost": cost}) is None
    assert read_cost(None) is None
    for cost in (0, 1_000_000):
        assert read_cost({"cost": cost}) == cost
