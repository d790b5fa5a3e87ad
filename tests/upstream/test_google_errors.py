"""Errors of Google's APIs."""

import json
from datetime import UTC, datetime
from typing import Any

from app.chat.events import Fault
from app.upstream.faults import from_response

from tests.each_case import each_case

Json = dict[str, Any]
USUAL = "You exceeded your current quota, please check your plan and billing details."


def read(status: int, word: str, message: str = "m", *details: Json, **headers: str) -> Fault:
    error = {"error": {"code": status, "message": message, "status": word, "details": list(details)}}
    return from_response(status, headers, json.dumps(error).encode(), datetime.now(UTC))


def quota(*ids: str) -> Json:
    return {"@type": "type.googleapis.com/google.rpc.QuotaFailure", "violations": [{"quotaId": one} for one in ids]}


@each_case(
    ("status", "word", "message", "code"),
    [
        (400, "INVALID_ARGUMENT", "function 'rate_limit' is wrong", "invalid_request"),
        (400, "INVALID_ARGUMENT", "The input token count (9) exceeds the maximum", "context_length_exceeded"),
        (400, "INVALID_ARGUMENT", "API key expired. Please renew the API key.", "authentication"),
        (400, "FAILED_PRECONDITION", "User location is not supported for the API use.", "permission"),
        (400, "OUT_OF_RANGE", "m", "invalid_request"),
        (401, "UNAUTHENTICATED", "m", "authentication"),
        (403, "PERMISSION_DENIED", "The API requires a quota project", "permission"),
        (402, "FAILED_PRECONDITION", "m", "insufficient_quota"),
        (404, "NOT_FOUND", "models/x is not found", "not_found"),
        (413, "UNKNOWN", "m", "invalid_request"),
        (422, "INTERNAL", "m", "invalid_request"),
        (429, "UNKNOWN", "m", "rate_limit"),
        (429, "RESOURCE_EXHAUSTED", USUAL, "rate_limit"),
        (429, "RESOURCE_EXHAUSTED", "Your prepayment credits are depleted.", "insufficient_quota"),
        (429, "RESOURCE_EXHAUSTED", "Your project has exceeded its monthly spending cap.", "insufficient_quota"),
        (499, "CANCELLED", "m", "upstream_incomplete"),
        (500, "INTERNAL", "m", "server_error"),
        (503, "UNAVAILABLE", "m", "overloaded"),
        (504, "DEADLINE_EXCEEDED", "m", "timeout"),
    ],
)
def test_the_status_of_an_error_decides(status: int, word: str, message: str, code: str) -> None:
    assert read(status, word, message).code == code


@each_case(("status", "code"), [(402, "insufficient_quota"), (413, "invalid_request"), (500, "server_error")])
def test_an_error_within_a_reply_has_its_status_in_its_code(status: int, code: str) -> None:
    error = {"error": {"code": status, "message": "m", "status": "UNKNOWN"}}
    assert from_response(200, {}, json.dumps(error).encode(), datetime.now(UTC)).code == code


def test_an_invalid_key_is_not_an_invalid_request() -> None:
    details = {"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "API_KEY_INVALID"}
    assert read(400, "INVALID_ARGUMENT", "m", details).code == "authentication"


@each_case(
    ("ids", "code"),
    [
        (("RequestsPerMinutePerProject",), "rate_limit"),
        (("RequestsPerMinutePerProject", "RequestsPerDayPerProject"), "insufficient_quota"),
        ((), "rate_limit"),
    ],
)
def test_a_quota_by_day_is_used_up(ids: tuple[str, ...], code: str) -> None:
    assert read(429, "RESOURCE_EXHAUSTED", USUAL, quota(*ids), {"violations": [None, {}]}).code == code


def test_the_wait_is_that_of_the_header_or_of_the_details_or_of_the_text() -> None:
    delay = {"retryDelay": "34.4s"}
    assert read(429, "RESOURCE_EXHAUSTED", USUAL, delay).retry_after_seconds == 34.4
    assert read(429, "RESOURCE_EXHAUSTED", f"{USUAL} Please retry in 48.9s.").retry_after_seconds == 48.9
    assert read(429, "RESOURCE_EXHAUSTED", USUAL, delay, **{"retry-after": "3"}).retry_after_seconds == 3
    assert read(429, "RESOURCE_EXHAUSTED", USUAL, {"retryDelay": "9999s"}).retry_after_seconds == 120
    assert read(429, "RESOURCE_EXHAUSTED", USUAL, {"retryDelay": "0s"}).retry_after_seconds is None


def test_an_error_of_another_server_is_read_by_its_words() -> None:
    body = b'{"error": {"message": "You exceeded your current quota", "status": "failed"}}'
    assert from_response(429, {}, body, datetime.now(UTC)).code == "insufficient_quota"
