"""What a request reserves, how a refusal reads, and what is given back."""

import asyncio
from typing import Any

import pytest
from app.access import ANONYMOUS, Caller
from app.chat.messages import ChatRequest, Media, Message, Text, Tool, ToolCall, ToolResult
from app.chat.token_estimate import estimate_prompt_tokens
from app.chat.token_usage import TokenUsage
from app.errors import QuotaExceeded, RateLimited
from app.limits import Limiter, Limits, Reservation
from app.limits.stores import MemoryLimitStore
from app.limits.values import Team
from app.observe.request_record import RequestRecord

START = 1_800_000_000.0


class Gateway:
    """The limits of a gateway, and a clock."""

    def __init__(self, limits: Limits | None = None, **models: Limits) -> None:
        self.time = START
        self.limiter = Limiter(limits or Limits(), models, memory=MemoryLimitStore(lambda: self.time))

    def reserve(
        self, caller: Caller = ANONYMOUS, model: str = "m", prompt: int = 10, max_tokens: int | None = 90
    ) -> Reservation | None:
        return asyncio.run(self.limiter.reserve(caller, model, lambda: prompt, max_tokens, 1000))

    def refusal(self, caller: Caller = ANONYMOUS, model: str = "m", **more: Any) -> RateLimited:
        with pytest.raises(RateLimited) as caught:
            self.reserve(caller, model, **more)
        return caught.value


def alice(**limits: Any) -> Caller:
    return Caller("alice", "alice", limits=Limits(**limits))


def shown(reservation: Reservation) -> dict[str, str]:
    return {name.decode(): value.decode() for name, value in reservation.headers}


def test_without_a_limit_nothing_is_reserved() -> None:
    assert Gateway(other=Limits(requests_per_minute=1)).reserve() is None


def test_each_owner_has_limits_of_its_own() -> None:
    one = Limits(requests_per_minute=1)
    for gateway, caller, words in [
        (Gateway(one), ANONYMOUS, "the gateway"),
        (Gateway(m=one), ANONYMOUS, "the model 'm'"),
        (Gateway(), alice(requests_per_minute=1), "the API key 'alice'"),
    ]:
        assert gateway.reserve(caller) is not None
        error = gateway.refusal(caller)
        assert f"the limit of 1 requests per minute of {words} is reached. Try again in 120 s" == error.message
        assert (error.code, error.status, error.retryable) == ("rate_limit", 429, True)
        gateway.time += 120
        assert gateway.reserve(caller) is not None
    gateway = Gateway(m=one)
    assert gateway.reserve(model="m") and gateway.reserve(model="n") is None
    caller = alice(requests_per_minute=1)
    assert Gateway().reserve(caller) and Gateway().reserve(Caller("bob", "bob")) is None


def test_new_limits_of_a_caller_hold_at_once_and_what_was_used_goes_on_to_count() -> None:
    gateway = Gateway()
    assert gateway.reserve(alice(requests_per_minute=2)) and gateway.reserve(alice(requests_per_minute=2))
    assert "the limit of 1 requests" in gateway.refusal(alice(requests_per_minute=1)).message
    assert gateway.reserve(alice(requests_per_minute=3))
    assert gateway.reserve(Caller("alice", "alice")) is None


def test_the_team_of_a_caller_may_change_with_each_request() -> None:
    gateway, limits = Gateway(), Limits(requests_per_minute=9)
    first, second = (Team(name, Limits(requests_per_minute=1)) for name in ("first", "second"))
    for team in (first, second):
        assert gateway.reserve(Caller("kc:a", "kc:a", limits=limits, team=team)) is not None
    for team in (first, second):
        error = gateway.refusal(Caller("kc:a", "kc:a", limits=limits, team=team))
        assert f"of the team {team.name!r} is reached" in error.message


def test_the_rules_of_any_number_of_callers_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.limits.limiter.MAX_RULE_SETS", 10)
    gateway, limits = Gateway(), Limits(requests_per_minute=1)
    for number in range(100):
        name = f"kc:{number}"
        assert gateway.reserve(Caller(name, name, limits=limits)) is not None
        assert len(gateway.limiter._rule_sets) <= 10
    assert "the JWT caller 'kc:0'" in gateway.refusal(Caller("kc:0", "kc:0", limits=limits)).message


def test_success_and_refusal_have_openais_headers_of_the_tightest_limit() -> None:
    gateway = Gateway(Limits(requests_per_minute=100, tokens_per_minute=10_000), m=Limits(tokens_per_minute=250))
    gateway.time += 15
    reservation = gateway.reserve(alice(requests_per_minute=3))
    assert reservation is not None and shown(reservation) == {
        "x-ratelimit-limit-requests": "3",
        "x-ratelimit-remaining-requests": "2",
        "x-ratelimit-reset-requests": "1m45s",
        "x-ratelimit-limit-tokens": "250",
        "x-ratelimit-remaining-tokens": "150",
        "x-ratelimit-reset-tokens": "1m45s",
    }
    gateway.reserve(alice(requests_per_minute=3))
    error = gateway.refusal(alice(requests_per_minute=3))
    assert "250 tokens per minute of the model 'm' is reached; the request needs about 100 tokens, and 50 are left" in (
        error.message
    )
    headers = error.headers
    assert headers["x-ratelimit-remaining-tokens"] == "50" and headers["x-ratelimit-remaining-requests"] == "1"
    assert 45 < int(headers["retry-after"]) <= 105
    assert error.to_dict("r")["retry_after_seconds"] <= int(headers["retry-after"])
    gateway.time += error.to_dict("r")["retry_after_seconds"] + 0.001
    assert gateway.reserve(alice(requests_per_minute=3)) is not None


def test_a_request_that_is_larger_than_a_limit_is_refused_for_good() -> None:
    gateway = Gateway(Limits(tokens_per_minute=100))
    error = gateway.refusal(max_tokens=91)
    assert "needs about 101 tokens for the prompt and the reply, more than the limit of 100 tokens per minute" in (
        error.message
    )
    assert not error.retryable and "retry-after" not in error.headers and "retry_after_seconds" not in error.to_dict("")
    assert gateway.refusal(prompt=101, max_tokens=None).retryable is False
    assert gateway.reserve(prompt=90, max_tokens=None) is not None, "a default for the reply never makes it too large"


def test_a_request_without_a_limit_takes_what_is_left_of_the_tokens() -> None:
    gateway = Gateway(Limits(tokens_per_minute=500))
    for _ in range(3):  # each takes all that is left, and uses 20
        reservation = gateway.reserve(prompt=10, max_tokens=None)
        assert reservation is not None and shown(reservation)["x-ratelimit-remaining-tokens"] == "0"
        assert not gateway.refusal(prompt=10, max_tokens=None).message.startswith("the request")
        gateway.limiter.settle(reservation, 20, None)
    assert "needs about 500 tokens, and 440 are left" in gateway.refusal(prompt=10, max_tokens=490).message
    assert "needs about 441 tokens, and 440 are left" in gateway.refusal(prompt=441, max_tokens=None).message
    assert gateway.reserve(prompt=440, max_tokens=None) is not None
    busy = Gateway(Limits(tokens_per_minute=500, requests_per_minute=1))
    assert busy.reserve(prompt=10, max_tokens=None) is not None
    assert "requests per minute" in busy.refusal(prompt=1, max_tokens=None).message


def test_of_several_limits_the_longest_wait_counts() -> None:
    gateway = Gateway(Limits(requests_per_minute=1, concurrent_streams=1))
    gateway.reserve()
    assert "requests per minute" in gateway.refusal().message


def test_spending_is_an_exhausted_quota_with_the_time_of_its_end() -> None:
    gateway = Gateway(Limits(spend_per_day=0.5))
    reservation = gateway.reserve()
    assert reservation is not None
    gateway.limiter.settle(reservation, 100, 0.5)
    gateway.limiter.settle(reservation, 100, 0.5)  # a second call does nothing
    error = gateway.refusal()
    assert isinstance(error, QuotaExceeded) and (error.code, error.status) == ("insufficient_quota", 402)
    assert error.message == "the gateway has spent its limit of 0.5 per day. Try again from 2027-01-16T00:00:00Z on"
    assert int(error.headers["retry-after"]) == 16 * 3600
    error = Gateway(Limits(spend_per_month=0)).refusal()
    assert error.message == "the gateway may spend nothing: its spend_per_month is 0"
    assert "retry-after" not in error.headers


def test_the_cost_of_a_fallback_counts_for_its_limit_also_if_nothing_else_is_limited() -> None:
    gateway = Gateway(fallback=Limits(spend_per_day=1.0))
    for fallback_model, cache in [(None, "miss"), ("fallback", "shared"), ("fallback", "miss")]:
        assert gateway.reserve(model="fallback") is not None
        reservation = gateway.reserve(model="m")
        assert reservation is not None and not reservation.headers
        record = RequestRecord("r", "chat", reservation=reservation, cache=cache, cost=1.0)
        record.fallback_model = fallback_model
        gateway.limiter.settle_record(record)
    assert "the model 'fallback' has spent its limit of 1 per day" in gateway.refusal(model="fallback").message
    assert gateway.reserve(model="m") is not None, "the other model is not limited"


def settled(**fields: Any) -> int:
    """Tokens that are left of 1000, after a reservation of 100."""
    gateway = Gateway(Limits(tokens_per_minute=1000, concurrent_streams=1, spend_per_day=100.0))
    record = RequestRecord("r", "chat")
    record.reservation = gateway.reserve()
    for name, value in fields.items():
        setattr(record, name, value)
    gateway.limiter.settle_record(record)
    again = gateway.reserve(prompt=0, max_tokens=1)
    assert again is not None, "the reply is no longer in progress"
    return int(shown(again)["x-ratelimit-remaining-tokens"]) + 1


def test_a_request_that_ended_leaves_what_is_billed() -> None:
    tokens, usage = TokenUsage(20, 10, 0, 30, 15), {"prompt_tokens": 20, "completion_tokens": 30, "total_tokens": 1}
    cases: list[tuple[dict[str, Any], int]] = [
        ({"cache": "miss", "first_token_at": 1.0, "tokens": tokens, "usage": usage}, 950),
        ({"cache": "miss", "first_token_at": 1.0, "tokens": tokens, "tokens_estimated": True}, 950),
        ({"cache": "miss", "first_token_at": 1.0, "tokens": tokens, "disconnected": True}, 950),
        ({"cache": "miss", "first_token_at": 1.0, "tokens": TokenUsage(20, output=280)}, 700),
        ({"cache": "hit", "first_token_at": 1.0, "tokens": tokens, "usage": usage}, 1000),
        ({"cache": "shared", "first_token_at": 1.0, "tokens": tokens, "usage": usage}, 1000),
        ({"cache": "miss", "first_token_at": 1.0, "disconnected": True}, 900),
        ({"cache": "miss", "first_token_at": None, "error": "server_error"}, 1000),
        ({"error": "invalid_request"}, 1000),
    ]
    for fields, left in cases:
        assert settled(**fields) == left, fields


def test_a_cost_is_that_of_the_record_or_of_the_usage_and_nothing_for_a_stored_reply() -> None:
    for fields, refused in [
        ({"cache": "miss", "cost": 1.0}, True),
        ({"cache": "miss", "usage": {"cost": 1.0}}, True),
        ({"cache": "hit", "usage": {"cost": 1.0}}, False),
        ({"cache": "miss", "usage": {"cost": "x"}}, False),
    ]:
        gateway = Gateway(Limits(spend_per_day=1.0))
        record = RequestRecord("r", "chat", reservation=gateway.reserve(), **fields)  # type: ignore[arg-type]
        gateway.limiter.settle_record(record)
        if refused:
            gateway.refusal()
        else:
            gateway.reserve()


def test_a_prompt_is_estimated_by_its_texts_and_pictures() -> None:
    picture = Media("image", ("data:image/png;base64," + "A" * 100_000,))
    request = ChatRequest(
        "m",
        (
            Message("user", (Text("x" * 400), picture)),
            Message("assistant", (ToolCall("f", "y" * 39),)),
            Message("tool", (ToolResult((Text("\u00e9" * 20),)),)),
        ),
        tools=(Tool("f", {"name": "f"}),),
    )
    assert estimate_prompt_tokens(request) == (400 + 4000 + 40 + 40 + len('{"name":"f"}')) // 4 + 12
