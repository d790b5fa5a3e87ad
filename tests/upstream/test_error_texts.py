"""The text of an error whose field `error` is a text, too."""

import json
from typing import Any

from app.upstream.faults import from_body

from tests.each_case import each_case

TEXT = "missing required top_n number field"


@each_case(
    ("body", "message", "code"),
    [
        # volcengine/OpenViking issue 4027 (Scaleway); the form is that of Spring Boot's errors
        ({"status": 400, "error": "BAD REQUEST", "message": TEXT}, TEXT, "invalid_request"),
        ({"error": "invalid_request", "detail": TEXT}, TEXT, "invalid_request"),
        (
            {"error": "invalid_client", "error_description": "The secret is wrong"},
            "The secret is wrong",
            "authentication",
        ),
        ({"error": TEXT, "message": "Failed"}, TEXT, "invalid_request"),
        ({"error": TEXT}, TEXT, "invalid_request"),
        ({"error": "", "message": TEXT}, TEXT, "invalid_request"),
        (
            {"error": "Too Many Requests", "message": "Wait for some seconds, please"},
            "Wait for some seconds, please",
            "rate_limit",
        ),
    ],
)
def test_the_text_that_says_more_is_the_message(body: Any, message: str, code: str) -> None:
    status = {"authentication": 401, "rate_limit": 429}.get(code, 400)
    fault = from_body(json.dumps(body).encode(), status)
    assert (fault.message, fault.code) == (message, code)


def test_the_word_of_an_error_counts_beside_its_text() -> None:
    body = {"error": "context_length_exceeded", "message": "Your prompt cannot be taken: make it shorter"}
    assert from_body(json.dumps(body).encode(), 400).code == "context_length_exceeded"
