"""Errors in the words of Anthropic's API."""

from typing import Any

from app.formats.anthropic.errors import write_error

from tests.each_case import each_case

LIMIT = "input length and `max_tokens` exceed context limit: 7 + 5 > 10,"


@each_case(
    ("upstream", "start"),
    [
        ({"detail": {"input_tokens": 7, "max_tokens": 5, "context_tokens": 10}}, LIMIT),
        ({"detail": {"input_tokens": 7, "max_tokens": 5}}, "too many"),
        ({"detail": {"input_tokens": 7, "context_tokens": 10}}, "too many"),
        ({"detail": {"max_tokens": 5, "context_tokens": 10}}, "too many"),
        ({"detail": "10 tokens"}, "too many"),
        (None, "too many"),
    ],
)
def test_a_limit_of_output_tokens_is_named_where_all_its_numbers_are_known(upstream: Any, start: str) -> None:
    error = {
        "code": "invalid_request",
        "message": "too many",
        "param": "max_tokens",
        "status": 400,
        "retryable": False,
        "request_id": "req-1",
        "upstream": upstream,
    }
    assert write_error(error)["error"]["message"].startswith(start)
