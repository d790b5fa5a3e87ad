from typing import Any

from app.chat.events import AnswerPart, Event, Failed, Finish
from app.chat.stream import AttemptLog
from app.endpoints.meter import AnswerMeter, Estimate
from app.upstream.faults import make_fault
from app.usage.meter import Price

from tests.each_case import each_case

PRICE = Price(1, 2, 1, 1, per_search=1000, per_minute=60, per_image=7, per_character=1_000_000)
NO_UNITS = Price(1_000_000, 2_000_000, 1, 1)


def end(
    usage: dict[str, Any] | None,
    estimate: Estimate,
    price: Price | None = None,
    count: int = 1,
    data: bytes = b"12345678",
) -> tuple[AttemptLog, dict[str, Any]]:
    attempts = AttemptLog()
    events: list[Event] = [AnswerPart(data), Finish("stop", usage)]
    finish = AnswerMeter(attempts, price, estimate).end(events, count)[-1]
    assert type(finish) is Finish
    assert finish.usage is not None
    return attempts, finish.usage


def test_a_usage_that_the_server_told_is_billed() -> None:
    told = {"prompt_tokens": 3, "completion_tokens": 0, "total_tokens": 3}
    attempts, usage = end(told, Estimate(9), NO_UNITS)
    assert usage == {**told, "cost": 3.0}
    assert attempts.usage is not None
    assert (attempts.usage.tokens.input, attempts.usage.cost, attempts.usage.estimated) == (3, 3.0, False)


def test_an_estimate_takes_its_place_and_says_so() -> None:
    attempts, usage = end(None, Estimate(9))
    assert usage == {"prompt_tokens": 9, "completion_tokens": 0, "total_tokens": 9, "estimated": True}
    assert attempts.usage is not None
    assert attempts.usage.estimated


@each_case(("count", "tokens"), [(1, 2), (5, 5)])
def test_a_completion_is_estimated_by_its_events_or_its_bytes(count: int, tokens: int) -> None:
    assert end(None, Estimate(9, generates=True), count=count)[1]["completion_tokens"] == tokens


def test_what_is_free_is_not_billed() -> None:
    attempts, usage = end(None, Estimate(is_free=True), PRICE)
    assert usage["prompt_tokens"] == 0
    assert "estimated" not in usage
    assert attempts.usage is not None
    assert attempts.usage.cost is None


@each_case(
    ("usage", "estimate", "cost"),
    [
        ({"searches": 2, "seconds": 0, "images": 0}, Estimate(), 2.0),
        ({"searches": 0, "seconds": 30, "images": 0}, Estimate(), 30.0),
        ({"searches": 0, "seconds": 0, "images": 3}, Estimate(), 21.0),
        ({"searches": 0, "seconds": 0, "images": 0}, Estimate(characters=5), 5.0),
        ({}, Estimate(), 0.0),
        ({}, Estimate(unknown=("seconds", 60)), 60.0),
        ({"seconds": 30}, Estimate(unknown=("seconds", 60)), 30.0),
    ],
)
def test_units_are_billed_and_an_unknown_number_is_one(usage: dict[str, Any], estimate: Estimate, cost: float) -> None:
    attempts, _ = end({"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0, **usage}, estimate, PRICE)
    assert attempts.usage is not None
    assert attempts.usage.cost == cost


@each_case(("count", "reported"), [(0, False), (1, True)])
def test_an_answer_that_failed_has_a_usage_if_it_had_begun(count: int, reported: bool) -> None:
    attempts = AttemptLog()
    failed: list[Event] = [Failed(make_fault("timeout", "late"))]
    assert AnswerMeter(attempts, None, Estimate(4)).end(failed, count) is failed
    assert (attempts.usage is not None) is reported


def test_no_events_have_no_usage() -> None:
    assert AnswerMeter(AttemptLog(), None, Estimate(4)).end([], 0) == []
