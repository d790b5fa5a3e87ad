"""What one call used: reported once, with its cost, or estimated."""

import base64
from typing import Any

from app.chat.events import Event, Failed, Fault, Finish, TextDelta
from app.chat.stream import AttemptLog
from app.chat.token_usage import CallUsage, TokenUsage
from app.usage.meter import CallMeter, count_text_bytes
from app.usage.pricing import Price

PRICE = Price(input=1.0, output=4.0, cached_input=1.0, cache_write=1.0)
BODY = b'{"messages":[{"role":"user","content":"%b"}]}' % (b"x" * 357)
REPORTED = {"prompt_tokens": 1000, "completion_tokens": 500, "total_tokens": 1500}


def ended(last: Event, count: int, price: Price | None = PRICE, *before: Event) -> tuple[CallUsage | None, Any]:
    attempts = AttemptLog()
    events = CallMeter(attempts, price, BODY).end([*before, last], count)
    assert events[:-1] == [*before]
    return attempts.usage, events[-1]


def test_reported_usage_gets_its_cost_and_is_recorded() -> None:
    usage, finish = ended(Finish("stop", REPORTED), 500)
    assert usage == CallUsage(TokenUsage(1000, 0, 0, 500, 0), 0.003)
    assert finish.usage == REPORTED | {"cost": 0.003}


def test_without_a_price_the_servers_cost_is_recorded_and_the_reply_is_unchanged() -> None:
    for reported, cost in ((REPORTED, None), (REPORTED | {"cost": 0.7}, 0.7)):
        usage, finish = ended(Finish("stop", reported), 500, None)
        assert usage is not None
        assert (usage.cost, finish.usage) == (cost, reported)


def test_without_usage_an_estimate_is_recorded_and_the_reply_has_none() -> None:
    usage, finish = ended(Finish("stop", None), 40)
    assert usage == CallUsage(TokenUsage(input=100, output=40), 0.00026, estimated=True)
    assert finish.usage is None
    whole, _ = ended(Finish("stop", None), 2, PRICE, TextDelta("é" * 100))
    assert whole is not None
    assert whole.tokens.output == 50


def test_a_reply_that_is_cut_off_is_estimated_once_the_model_has_begun() -> None:
    failed = Failed(Fault("timeout", "late", transient=True))
    usage, event = ended(failed, 3)
    assert usage == CallUsage(TokenUsage(input=100, output=3), 0.000112, estimated=True)
    assert event is failed
    assert ended(failed, 0)[0] is None
    attempts = AttemptLog()
    CallMeter(attempts, None, BODY).stop(7)
    assert attempts.usage == CallUsage(TokenUsage(input=100, output=7), None, estimated=True)


def test_usage_that_comes_after_the_request_is_given_to_whoever_waits_for_it() -> None:
    late: list[CallUsage] = []
    attempts = AttemptLog()
    attempts.on_late_usage = late.append
    CallMeter(attempts, PRICE, BODY).end([Finish("stop", REPORTED)], 1)
    assert [usage.cost for usage in late] == [0.003]


def test_the_data_of_media_is_not_text() -> None:
    image = b"data:image/png;base64," + base64.b64encode(bytes(3000))
    text = b'{"content":[{"url":"%b"},{"url":"%b"},{"text":"hello"}]}'
    assert count_text_bytes(text % (image, image)) == len(text % (b"data:image/png", b"data:image/png"))
    assert count_text_bytes(b"") == 0
    assert count_text_bytes(b"x;base64,cut") == 1
