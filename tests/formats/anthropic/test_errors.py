"""Errors in the words of Anthropic's API."""

import re
from pathlib import Path
from typing import Any

from app.errors import CODES
from app.formats.anthropic.errors import WRITE_ERROR, write_error

from tests.each_case import each_case

DOCUMENT = (Path(__file__).parents[3] / "docs/reference/errors.md").read_text("utf-8")

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


def rows_of_document() -> dict[str, tuple[int, str]]:
    """The status and type of each code, as docs/reference/errors.md has them."""
    table = re.split(r"\n##+ ", DOCUMENT.split("### Anthropic's Messages")[1])[0]
    rows = re.findall(r"^\| (`.*?) \| (\d{3})[^|]* \| `(\w+)`", table, re.MULTILINE)
    return {
        code: (int(status), kind)
        for cell, status, kind in rows
        if "max_tokens" not in cell
        for code in re.findall(r"`(\w+)`", cell)
    }


@each_case(("code", "status", "kind"), [(code, *row) for code, row in rows_of_document().items()])
def test_a_code_has_the_status_and_the_type_of_the_document(code: str, status: int, kind: str) -> None:
    meaning = CODES[code].own or CODES[code].server
    assert meaning
    error = {"code": code, "message": "no", "param": None, "status": meaning.status, "retryable": False}
    body = WRITE_ERROR(error | {"request_id": "req-1"})
    assert (body["error"]["type"], body["error"]["code"]) == (kind, code)
    assert (WRITE_ERROR.code_statuses.get(code) or WRITE_ERROR.statuses.get(meaning.status, meaning.status)) == status


def test_the_document_names_every_code_that_has_a_type_of_its_own() -> None:
    assert {code for code, row in CODES.items() if row.anthropic_type} <= rows_of_document().keys()


@each_case("code", [code for code, row in CODES.items() if row.server and row.server.status == 502])
def test_a_failure_of_the_model_server_is_no_fault_of_the_callers_key(code: str) -> None:
    error = {"code": code, "message": "no", "param": None, "status": 502, "retryable": False, "request_id": "req-1"}
    assert WRITE_ERROR(error)["error"]["type"] == "api_error"


@each_case("message", ["prompt is too long: 7 tokens > 5 maximum", "7 tokens > 5 maximum"])
def test_a_prompt_that_is_too_long_is_told_once_in_anthropics_words(message: str) -> None:
    error = {"code": "context_length_exceeded", "message": message, "param": None, "status": 400, "retryable": False}
    written = write_error(error | {"request_id": "req-1"})["error"]["message"]
    assert written == "prompt is too long: 7 tokens > 5 maximum"
