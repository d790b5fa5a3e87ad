"""The tokens of a reply from what its server reported."""

from typing import Any

from app.chat.token_usage import MAX_COUNT, CallUsage, TokenUsage, add_usage, as_free, read_count, read_token_usage

from tests.each_case import each_case


@each_case(
    ("usage", "tokens"),
    [
        (None, None),
        ({"total_tokens": 5}, None),
        ({"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5}, TokenUsage(3, 0, 0, 2)),
        ({"prompt_tokens": 3, "completion_tokens": -2}, TokenUsage(3)),
        ({"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 2**64}, TokenUsage(3, output=2)),
        ({"prompt_tokens": 2**64 - 1, "completion_tokens": 2, "total_tokens": 2**64 + 1}, TokenUsage(output=2)),
        ({"prompt_tokens": 2, "completion_tokens": 2**63, "total_tokens": 2**63 + 2}, TokenUsage(2)),
        ({"prompt_tokens": 2**63, "completion_tokens": -1}, None),
        ({"prompt_tokens": 3.0, "completion_tokens": 2.0, "total_tokens": 5.0}, TokenUsage(3, output=2)),
        ({"prompt_tokens": 3.5, "completion_tokens": float("inf")}, None),
        ({"prompt_tokens": MAX_COUNT, "completion_tokens": MAX_COUNT}, TokenUsage(MAX_COUNT, output=MAX_COUNT)),
        ({"prompt_tokens": MAX_COUNT + 1}, None),
        ({"completion_tokens": 2, "reasoning_tokens": 9}, TokenUsage(output=2, reasoning=2)),
        # what only the total has
        (
            {"prompt_tokens": 3, "completion_tokens": 2, "reasoning_tokens": 4, "total_tokens": 9},
            TokenUsage(3, output=6, reasoning=4),
        ),
        (
            {
                "prompt_tokens": 3,
                "completion_tokens": 2,
                "total_tokens": 12,
                "prompt_tokens_details": {"audio_tokens": 7},
            },
            TokenUsage(10, output=2),
        ),
        (
            {
                "prompt_tokens": 3,
                "completion_tokens": 2,
                "reasoning_tokens": 4,
                "total_tokens": 16,
                "prompt_tokens_details": {"audio_tokens": 7},
            },
            TokenUsage(10, output=6, reasoning=4),
        ),
        ({"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 99}, TokenUsage(3, output=2)),
        # numbers that no server means
        ({"prompt_tokens": 10**9, "completion_tokens": 10**9 + 1, "total_tokens": 2 * 10**9 + 1}, TokenUsage(10**9)),
        ({"prompt_tokens": 10**400, "completion_tokens": 10**400, "total_tokens": 2 * 10**400}, None),
        ({"prompt_tokens": 3, "completion_tokens": 2, "cached_tokens": 10**400}, TokenUsage(3, output=2)),
        # parts are at most the whole
        ({"prompt_tokens": 3, "cached_tokens": 2, "cache_write_tokens": 9}, TokenUsage(3, 2, 1)),
    ],
)
def test_tokens_are_read_from_every_shape_of_usage(usage: dict[str, Any] | None, tokens: TokenUsage | None) -> None:
    assert read_token_usage(usage) == tokens


def test_the_total_is_that_of_prompt_and_reply() -> None:
    assert TokenUsage(3, 2, 1, 4, 3).total == 7


def test_a_reply_that_another_request_paid_for_is_free_and_has_no_parts_of_a_cost() -> None:
    usage = {"prompt_tokens": 3, "completion_tokens": 4}
    parts = {"cost_details": {"upstream_inference_cost": 0.7}, "upstream_cost": 0.7, "cost_in_usd_ticks": 7 * 10**9}
    assert as_free(usage | parts | {"cost": 0.003}) == usage | {"cost": 0.0}
    assert as_free(usage) == usage


@each_case(
    ("value", "count"),
    [(0, 0), (10, 10), (10.0, 10), (10.5, None), (-1, None), (MAX_COUNT, MAX_COUNT), (MAX_COUNT + 1, None)]
    + [(True, None), ("10", 10), ("1.5", None), ("٣", None), ("9" * 5000, None), (None, None), (float("inf"), None)],
)
def test_a_count_is_a_whole_number_up_to_a_limit(value: Any, count: int | None) -> None:
    assert read_count(value) == count


@each_case(
    ("earlier", "later", "cost", "estimated"),
    [
        ((None, False), (None, False), None, False),
        ((0.5, False), (None, True), 0.5, True),
        ((None, True), (0.25, False), 0.25, True),
        ((0.5, False), (0.25, False), 0.75, False),
    ],
)
def test_two_requests_for_one_reply_add_up_and_the_later_one_has_answered(
    earlier: tuple[float | None, bool], later: tuple[float | None, bool], cost: float | None, estimated: bool
) -> None:
    first = CallUsage(TokenUsage(10, 4, 3, 5, 2), *earlier, fallback_model="one")
    second = CallUsage(TokenUsage(1, 1, 0, 1, 0), *later, fallback_model="two")
    assert add_usage(first, second) == CallUsage(TokenUsage(11, 5, 3, 6, 2), cost, estimated, "two")
