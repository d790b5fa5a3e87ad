"""How long to wait, in the forms in which servers say it."""

from datetime import UTC, datetime

from app.errors import UpstreamFailed
from app.upstream.faults import find_wait, from_response, parse_limit_reset, parse_retry_after

from tests.each_case import each_case
from tests.linear_time import linear

NOW = datetime(2026, 11, 26, tzinfo=UTC)


@each_case(
    ("text", "seconds"),
    [
        ("30", 30.0),
        ("30s", 30.0),
        (" 1m30s ", 90.0),
        ("1h0m0s", 120.0),
        ("250ms", 0.25),
        ("1.5s", 1.5),
        ("", None),
        ("soon", None),
        ("0s", None),
        ("m", None),
        ("1.2.3ms", None),
    ],
)
def test_retry_after_may_have_units(text: str, seconds: float | None) -> None:
    assert parse_retry_after({"retry-after": text}, NOW) == seconds


@each_case(
    ("headers", "seconds"),
    [
        ({"reset-requests": "20s", "remaining-requests": "0", "reset-tokens": "1s", "remaining-tokens": "7"}, 20.0),
        ({"reset-requests": "20s", "remaining-requests": "3", "reset-tokens": "6m0s", "remaining-tokens": "0"}, 120.0),
        ({"reset-requests": "20s", "reset-tokens": "7.66s"}, 7.66),
        ({"reset-tokens": "12"}, 12.0),
        ({"reset-tokens": "1795651200000"}, None),
        ({}, None),
    ],
)
def test_the_limit_of_which_nothing_remains_says_when_it_is_renewed(
    headers: dict[str, str], seconds: float | None
) -> None:
    named = {f"x-ratelimit-{name}": value for name, value in headers.items()}
    assert parse_limit_reset(named) == seconds
    assert from_response(429, named, b"{}", NOW).retry_after_seconds == seconds
    assert from_response(500, named, b"{}", NOW).retry_after_seconds is None


def test_headers_that_say_whether_a_limit_is_used_up_reach_the_client() -> None:
    told = {"anthropic-ratelimit-unified-status": "rejected", "anthropic-ratelimit-unified-reset": "1795651200"}
    given = {**told, "retry-after": "30", "anthropic-ratelimit-requests-limit": "50", "server": "x"}
    failed = UpstreamFailed(from_response(429, given, b"{}", NOW))
    assert failed.headers == {**told, "retry-after": "30", "retry-after-ms": "30000"}
    assert UpstreamFailed(from_response(500, given, b"{}", NOW)).headers.keys() == {"retry-after", "retry-after-ms"}


@each_case(
    ("message", "seconds"),
    [
        ("Rate limit reached. Please try again in 7.66s. Visit ...", 7.66),
        ("Please try again in 1m12.5s.", 72.5),
        ("Please try again in 250ms.", 0.25),
        ("Please retry after 26 seconds.", 26.0),
        ("Please retry after 1 minute.", 60.0),
        ("All accounts limited. Wait 29s.", 29.0),
        ("Please retry in 54.72s", 54.72),
        ("try again in 6h", 120.0),
        ("try again in 500 milliseconds", 0.5),
        ("retry 3 times", None),
        ("try again in 2 days", None),
        ("wait, 3.5 models are busy", None),
        ("try again later", None),
        ("you have 30s", None),
        ("", None),
    ],
)
def test_a_wait_may_be_named_in_words(message: str, seconds: float | None) -> None:
    assert find_wait(message) == seconds


def test_a_wait_in_words_counts_where_the_limit_passes_and_no_header_has_one() -> None:
    body = b'{"error": {"message": "Slow down. Please try again in 20s."}}'
    assert from_response(429, {}, body, NOW).retry_after_seconds == 20.0
    assert from_response(529, {}, body, NOW).retry_after_seconds == 20.0
    assert from_response(429, {"retry-after": "3"}, body, NOW).retry_after_seconds == 3.0
    assert from_response(400, {}, body, NOW).retry_after_seconds is None


@each_case("word", ["try again ", "wait 1h", "retry in 1", "wait 9s9"])
def test_a_long_message_is_searched_in_linear_time(word: str) -> None:
    assert linear(lambda size: find_wait(word * size), 500)
