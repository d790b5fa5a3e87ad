"""Errors have Google's form."""

from typing import Any

from app.errors import ContextTooLong, InvalidInput, QuotaExceeded, RateLimited, UnknownModel, Unsupported, Violation
from app.formats.base import choose_status
from app.formats.gemini.errors import WRITE_ERROR

from tests.each_case import each_case


def write(error: Any) -> Any:
    return WRITE_ERROR(error.to_dict("req-1"))["error"]


@each_case(
    ("error", "code", "status"),
    [
        (InvalidInput([Violation("contents", "is required")]), 400, "INVALID_ARGUMENT"),
        (Unsupported("no"), 400, "INVALID_ARGUMENT"),
        (UnknownModel("no"), 404, "NOT_FOUND"),
        (RateLimited("slow", 2.5, {}), 429, "RESOURCE_EXHAUSTED"),
        (QuotaExceeded("empty", None, {}), 402, "FAILED_PRECONDITION"),
    ],
)
def test_an_error_has_its_status_and_word(error: Any, code: int, status: str) -> None:
    written = write(error)
    assert (written["code"], written["status"]) == (code, status)
    assert choose_status(WRITE_ERROR, error) == code
    info = written["details"][0]
    assert info["reason"] == error.code.upper()
    assert info["metadata"]["request_id"] == "req-1"


def test_violations_and_waits_are_details() -> None:
    rows = write(InvalidInput([Violation("a", "is wrong"), Violation("", "is odd")]))["details"][1]["fieldViolations"]
    assert rows == [{"field": "a", "description": "is wrong"}, {"field": "", "description": "is odd"}]
    assert write(RateLimited("slow", 2.5, {}))["details"][1]["retryDelay"] == "2.5s"


def test_a_long_prompt_is_told_in_googles_words() -> None:
    message = write(ContextTooLong("long", "messages", 5, 4))["message"]
    assert message == "The input token count (5) exceeds the maximum number of tokens allowed (4)"
    base = UnknownModel("too long").to_dict("r") | {"code": "context_length_exceeded", "status": 400}
    assert WRITE_ERROR(base)["error"]["message"].startswith("The input token count exceeds the maximum")
    same = base | {"message": "The input token count (5) exceeds"}
    assert WRITE_ERROR(same)["error"]["message"] == same["message"]
