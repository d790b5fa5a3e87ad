"""What one call used: reported once, with its cost, or estimated."""

from typing import Any

import pytest
from app.chat.events import Event, Failed, Fault, Finish, TextDelta
from app.chat.stream import AttemptLog
from app.chat.token_usage import CallUsage, TokenUsage, read_token_usage
from app.upstream.reply.usage import normalize_usage
from app.usage.meter import CallMeter, Price, find_highest, read_cost, with_cost
from msgspec.structs import replace

from tests.each_case import each_case

PRICE = Price(input=1.0, output=4.0, cached_input=1.0, cache_write=1.0)
REPORTED = {"prompt_tokens": 1000, "completion_tokens": 500, "total_tokens": 1500}
FAILED = Failed(Fault("timeout", "late", transient=True))
Told = dict[str, Any] | None


def ended(
    last: Event, count: int, price: Price | None = PRICE, *before: Event, reported: Told = None
) -> tuple[CallUsage | None, Any]:
    attempts = AttemptLog()
    events = CallMeter(attempts, price, 100).end([*before, last], count, reported)
    assert events[:-1] == [*before]
    return attempts.usage, events[-1]


def totals(prompt: int, completion: int) -> dict[str, int]:
    return {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion}


def test_reported_usage_gets_its_cost_and_is_recorded() -> None:
    usage, finish = ended(Finish("stop", REPORTED), 500)
    assert usage == CallUsage(TokenUsage(1000, 0, 0, 500, 0), 0.003)
    assert finish.usage == REPORTED | {"cost": 0.003}


def test_without_a_price_the_servers_cost_is_recorded_and_the_reply_is_unchanged() -> None:
    for reported, cost in ((REPORTED, None), (REPORTED | {"cost": 0.7}, 0.7)):
        usage, finish = ended(Finish("stop", reported), 500, None)
        assert usage is not None
        assert (usage.cost, finish.usage) == (cost, reported)


def test_without_usage_an_estimate_is_recorded_and_the_reply_has_none_but_the_estimate() -> None:
    usage, finish = ended(Finish("stop", None), 40)
    assert usage == CallUsage(TokenUsage(input=100, output=40), 0.00026, estimated=True)
    assert (finish.usage, finish.estimated_usage) == (None, totals(100, 40))
    whole, _ = ended(Finish("stop", None), 2, PRICE, TextDelta("é" * 100))
    assert whole is not None
    assert whole.tokens.output == 50


@each_case(
    ("reported", "count", "numbers"),
    [
        ({"prompt_tokens": 7}, 40, (7, 40)),
        ({"completion_tokens": 3}, 40, (100, 3)),
        ({"total_tokens": 60}, 40, (20, 40)),
        ({"total_tokens": 30}, 40, (100, 40)),
        (totals(0, 0), 40, (100, 40)),
        (totals(7, 0), 1, (7, 1)),
    ],
)
def test_numbers_that_the_server_did_not_send_are_estimated_and_the_usage_says_so(
    reported: dict[str, Any], count: int, numbers: tuple[int, int]
) -> None:
    usage, finish = ended(Finish("stop", reported | {"own": "x"}), count, None)
    assert usage == CallUsage(TokenUsage(numbers[0], output=numbers[1]), None, estimated=True)
    assert finish.usage == {"own": "x", **totals(*numbers), "estimated": True}


def test_a_reply_of_nothing_may_have_no_tokens() -> None:
    usage, finish = ended(Finish("stop", totals(7, 0)), 0, None)
    assert usage == CallUsage(TokenUsage(7, output=0))
    assert finish.usage == totals(7, 0)


def test_a_reply_that_is_cut_off_is_estimated_once_the_model_has_begun() -> None:
    usage, event = ended(FAILED, 3)
    assert usage == CallUsage(TokenUsage(input=100, output=3), 0.000112, estimated=True)
    assert event is FAILED
    assert ended(FAILED, 0)[0] is None
    attempts = AttemptLog()
    CallMeter(attempts, None, 100).stop(7)
    assert attempts.usage == CallUsage(TokenUsage(input=100, output=7), None, estimated=True)


@each_case(
    ("reported", "count", "numbers", "estimated"),
    [
        (totals(1000, 216), 8, (1000, 216), False),
        (totals(1000, 5), 8, (1000, 5), False),
        (totals(1000, 1), 216, (1000, 216), True),
        (totals(1000, 0), 3, (1000, 3), True),
        ({"prompt_tokens": 1000}, 3, (1000, 3), True),
        ({"prompt_tokens": 1000}, 0, (1000, 0), True),
        (totals(1000, 0), 0, (1000, 0), False),
    ],
)
def test_usage_that_the_server_reported_is_kept_when_the_reply_fails_or_is_closed(
    reported: dict[str, Any], count: int, numbers: tuple[int, int], estimated: bool
) -> None:
    expected = CallUsage(TokenUsage(numbers[0], output=numbers[1]), None, estimated)
    usage, event = ended(FAILED, count, None, reported=reported)
    assert usage == expected
    assert event.fault.usage == totals(*numbers) | ({"estimated": True} if estimated else {})
    attempts = AttemptLog()
    CallMeter(attempts, None, 100).stop(count, reported)
    assert attempts.usage == expected


def test_usage_of_a_reply_that_a_stop_word_ended_is_what_the_server_reported() -> None:
    usage, finish = ended(Finish("stop"), 8, PRICE, reported=totals(1000, 9))
    assert usage == CallUsage(TokenUsage(1000, output=9), 0.001036)
    assert finish.usage == totals(1000, 9) | {"cost": 0.001036}


def test_the_usage_of_a_failed_reply_has_its_cost() -> None:
    usage, event = ended(FAILED, 500, PRICE, reported=REPORTED)
    assert usage is not None
    assert (usage.cost, event.fault.usage) == (0.003, REPORTED | {"cost": 0.003})


def test_requests_for_one_reply_are_added_up() -> None:
    attempts = AttemptLog()
    late: list[CallUsage] = []
    attempts.on_late_usage = late.append
    CallMeter(attempts, PRICE, 100).end([FAILED], 0, totals(1000, 0))
    CallMeter(attempts, None, 100, "other").end([Finish("stop", REPORTED)], 1)
    assert attempts.usage == CallUsage(TokenUsage(2000, output=500), 0.001, False, "other")
    assert [usage.tokens.total for usage in late] == [1000, 1500]


def test_usage_that_comes_after_the_request_is_reported_late() -> None:
    late: list[CallUsage] = []
    attempts = AttemptLog()
    attempts.on_late_usage = late.append
    CallMeter(attempts, PRICE, 100).end([Finish("stop", REPORTED)], 1)
    assert [usage.cost for usage in late] == [0.003]


CACHE_PRICE = Price(input=2.0, output=10.0, cached_input=0.5, cache_write=2.5)


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
    assert CACHE_PRICE.compute_cost(tokens) == pytest.approx(0.5 * 2.0 + 0.4 * 0.5 + 0.1 * 2.5 + 0.2 * 10.0)


@each_case(
    ("prompt", "cost"),
    [
        (200, 200 * 1.0 + 10 * 4.0),
        (201, 201 * 2.0 + 10 * 6.0),
        (500, 500 * 2.0 + 10 * 6.0),
        (501, 501 * 3.0 + 10 * 6.0),
    ],
)
def test_a_long_prompt_has_the_prices_of_its_tier_for_all_its_tokens(prompt: int, cost: float) -> None:
    tiers = ((200, Price(2.0, 6.0, 2.0, 2.0)), (500, Price(3.0, 6.0, 3.0, 3.0)))
    price = Price(1.0, 4.0, 1.0, 1.0, tiers=tiers)
    assert price.compute_cost(TokenUsage(input=prompt, output=10)) == pytest.approx(cost / 1e6)


def test_reasoning_may_have_a_price_of_its_own() -> None:
    price = Price(1.0, 4.0, 1.0, 1.0, reasoning=10.0)
    tokens = TokenUsage(input=100, output=50, reasoning=20)
    assert price.compute_cost(tokens) == pytest.approx((100 * 1.0 + 30 * 4.0 + 20 * 10.0) / 1e6)


def test_the_highest_of_some_prices_is_so_in_each_tier() -> None:
    one = Price(1.0, 4.0, 1.0, 1.0, tiers=((200, Price(2.0, 6.0, 2.0, 2.0)),))
    other = Price(1.5, 3.0, 0.5, 1.0, reasoning=9.0, tiers=((300, Price(5.0, 3.0, 1.0, 1.0)),))
    assert find_highest([one, other]) == Price(
        1.5, 9.0, 1.0, 1.0, tiers=((200, Price(2.0, 9.0, 2.0, 2.0)), (300, Price(5.0, 6.0, 2.0, 2.0)))
    )


def test_a_price_is_free_if_all_its_numbers_are_zero() -> None:
    free = Price(0.0, 0.0, 0.0, 0.0)
    assert free.is_free and replace(free, reasoning=0.0, tiers=((200, free),)).is_free
    for name in ("input", "output", "cached_input", "cache_write", "reasoning"):
        costly = replace(free, **{name: 0.1})
        assert not costly.is_free and not replace(free, tiers=((200, costly),)).is_free


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


CALLS = [
    {"type": "compaction", "input_tokens": 1000, "output_tokens": 100, "cache_read_input_tokens": 10},
    {"type": "message", "input_tokens": 1000, "output_tokens": 500, "cache_creation_input_tokens": 20},
]


def test_all_calls_that_a_server_made_for_a_reply_are_billed() -> None:
    price = Price(input=1.0, output=4.0, cached_input=0.5, cache_write=2.0)
    usage, finish = ended(Finish("stop", REPORTED | {"iterations": CALLS}), 500, price)
    cost = (2000 * 1.0 + 10 * 0.5 + 20 * 2.0 + 600 * 4.0) / 1e6
    assert usage is not None
    assert usage.tokens == TokenUsage(1000, 0, 0, 500, 0)
    assert usage.cost == pytest.approx(cost)
    assert finish.usage == REPORTED | {"iterations": CALLS, "cost": pytest.approx(cost)}


@pytest.mark.parametrize("calls", [None, [], 3, ["x"], [*CALLS, {"input_tokens": -1}], [{"output_tokens": "five"}]])
def test_calls_that_cannot_be_read_are_billed_as_the_totals(calls: Any) -> None:
    usage, _ = ended(Finish("stop", REPORTED | {"iterations": calls}), 500)
    assert usage == CallUsage(TokenUsage(1000, 0, 0, 500, 0), 0.003)


def test_no_tokens_of_a_reply_that_has_nothing_are_none() -> None:
    usage, finish = ended(Finish("stop", totals(7, 0)), 0, None)
    assert usage == CallUsage(TokenUsage(7))
    assert finish.usage == totals(7, 0)
    _, with_text = ended(Finish("stop", totals(7, 0)), 0, None, TextDelta("a" * 40))
    assert with_text.usage["completion_tokens"] == 10
