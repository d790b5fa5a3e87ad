"""The record of the requests for a reply."""

from app.chat.stream import Attempt, AttemptLog
from app.chat.token_usage import CallUsage, TokenUsage


def test_the_usage_of_a_call_that_outlives_its_request_is_reported() -> None:
    log, late = AttemptLog(), list[CallUsage]()
    first, second = CallUsage(TokenUsage(1)), CallUsage(TokenUsage(2))
    log.report_usage(first)
    log.on_late_usage = late.append
    log.report_usage(second)
    assert (log.usage, late) == (CallUsage(TokenUsage(3)), [second])


def test_an_attempt_that_fails_after_its_request_is_reported() -> None:
    log, late = AttemptLog(), list[Attempt]()
    begun = Attempt("a", "http://a", 1.0)
    failed = Attempt("a", "http://a", 2.0, cause="reset", outcome="upstream_incomplete")
    log.add_attempt(begun)
    assert not log.shown
    log.on_late_failure = late.append
    log.replace_attempt(begun, failed)
    assert (log.attempts, late, log.shown) == ([failed], [failed], True)
