"""The tree of errors, and that the document has all of it."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import app.errors
import pytest
from app.chat.events import Fault
from app.errors import (
    CODES,
    BodyTimeout,
    Busy,
    ContextTooLong,
    InvalidApiKey,
    InvalidInput,
    MethodNotAllowed,
    ParleyError,
    RateLimited,
    StoreDown,
    UnsupportedEncoding,
    UpstreamFailed,
    Violation,
    find_responsible,
)

from tests.each_case import each_case

ROOT = Path(__file__).parent.parent
DOCUMENT = (ROOT / "docs/reference/errors.md").read_text()


def classes(base: type[ParleyError] = ParleyError) -> Iterator[type[ParleyError]]:
    for child in base.__subclasses__():
        yield child
        yield from classes(child)


def documented() -> dict[tuple[str, int], bool]:
    """The document's table: (code, status) and whether it works later."""
    rows = re.findall(r"^\| `(\w+)` \| (\d{3}) \| (yes|no) \| \S.*\|$", DOCUMENT, re.MULTILINE)
    assert len(rows) == len({row[:2] for row in rows}), "a row stands twice"
    return {(code, int(status)): retryable == "yes" for code, status, retryable in rows}


def known() -> dict[tuple[str, int], bool]:
    """Every code that the application has, from its classes and its kinds of faults."""
    ours = {(row.code, row.status): row.retryable for row in classes() if not issubclass(row, UpstreamFailed)}
    return ours | {(code, row.server.status): row.retryable for code, row in CODES.items() if row.server}


def test_the_document_lists_every_code_with_its_status_and_nothing_else() -> None:
    assert documented() == known()


def test_the_tree_at_the_top_of_the_module_is_true() -> None:
    drawn = re.findall(r"^(?:│   )?[├└]── (\w+) +(\w+) +(\d{3}) +(yes|no)", app.errors.__doc__ or "", re.MULTILINE)
    assert {(name, code, int(status), later == "yes") for name, code, status, later in drawn} == {
        (row.__name__, row.code, row.status, row.retryable) for row in classes() if not issubclass(row, UpstreamFailed)
    }


def test_every_code_that_the_gateway_finds_has_a_class() -> None:
    assert {row.code for row in classes()} | {"caller_gone"} == {code for code, row in CODES.items() if row.own}


@each_case("code", sorted(CODES))
def test_exactly_the_retryable_codes_have_a_word_for_agents(code: str) -> None:
    row = CODES[code]
    assert (row.retry_word is not None) == row.retryable
    assert row.own or row.server


@each_case(
    ("code", "from_upstream", "responsible"),
    [
        ("overloaded", False, "gateway"),
        ("overloaded", True, "upstream"),
        ("content_filter", True, "policy"),
        ("draining", True, "gateway"),
        ("rate_limit", False, "policy"),
        ("odd", False, "gateway"),
        ("odd", True, "upstream"),
        ("timeout", False, "gateway"),
        ("internal_error", True, "upstream"),
    ],
)
def test_an_error_is_the_fault_of_one_side(code: str, from_upstream: bool, responsible: str) -> None:
    assert find_responsible(code, from_upstream=from_upstream) == responsible


@each_case(
    ("code", "cause", "is_servers"),
    [
        ("server_error", None, True),
        ("authentication", None, True),
        ("odd", None, True),
        ("not_found", None, False),
        ("not_found", "wrong_base_url", True),
        ("invalid_request", None, False),
        ("content_filter", None, False),
        ("cancelled", None, False),
    ],
)
def test_the_operator_learns_of_what_is_no_fault_of_the_request(code: str, cause: str | None, is_servers: bool) -> None:
    assert UpstreamFailed(Fault(code, "no", False, cause=cause)).is_server_fault is is_servers


def test_no_name_of_another_api_means_two_codes() -> None:
    names = [name for row in CODES.values() for name in row.openai_names]
    assert len(names) == len(set(names))
    assert not set(names) & set(CODES)


@each_case("kind", sorted(code for code, row in CODES.items() if row.server))
def test_a_fault_has_our_status_and_the_servers_own(kind: str) -> None:
    row = CODES[kind]
    assert row.server
    error = UpstreamFailed(Fault(kind, "no", row.retryable, 418, 1.5, {"failed_generation": "x"}))
    assert error.to_dict("req-1") == {
        "code": kind,
        "message": f"no ({row.retry_word.word})" if row.retry_word else "no",
        "param": None,
        "status": row.server.status,
        "retryable": row.retryable,
        "request_id": "req-1",
        "upstream": {"status": 418, "message": "no", "detail": {"failed_generation": "x"}},
        "retry_after_seconds": 1.5,
    }
    assert error.headers == {"retry-after": "2", "retry-after-ms": "1500"}


def find_words(row: re.Match[str]) -> list[str]:
    return re.findall(r"`([^`]+)`", row["words"])


@each_case("code", sorted({code for (code, _), retryable in documented().items() if retryable}))
def test_an_error_that_may_be_sent_again_has_a_word_by_which_agents_know_it(code: str) -> None:
    row = re.search(rf"^\| `{code}`.*\| (?P<words>`[^|]*) \|$", DOCUMENT.split("## Words")[1], re.MULTILINE)
    assert row
    word, *others = find_words(row)
    for text in ("no", word.upper(), *others):
        message = UpstreamFailed(Fault(code, text, True)).to_dict("r")["message"]
        assert message == (f"no ({word})" if text == "no" else text)
        assert UpstreamFailed(Fault(code, text, False)).to_dict("r")["message"] == text


@each_case(
    ("error", "message"),
    [
        (Fault("server_error", "no", True, cause="connection_refused"), "no (connection error)"),
        (Fault("server_error", "connection refused", True, cause="connection_refused"), "connection refused"),
        (Fault("server_error", "no", True, 500, cause="error_status"), "no (server error)"),
        (Fault("upstream_incomplete", "no", True, cause="reply_not_finished"), "no (connection lost)"),
        (Fault("upstream_incomplete", "no", True, cause="connection_reset"), "no (connection lost)"),
        (Fault("upstream_incomplete", "no", True, cause="empty_reply"), "no (server error)"),
        (Fault("upstream_incomplete", "no", True, cause="not_a_reply"), "no (server error)"),
        (Fault("rate_limit", "server error", True, 429), "server error (rate limit)"),
        (Fault("timeout", "it timed out", True), "it timed out"),
        (Busy("full"), "full (service unavailable)"),
        (RateLimited("too many", 1.0, {}), "too many (rate limit)"),
        (RateLimited("larger than the limit", None, {}), "larger than the limit"),
        (BodyTimeout("slow"), "slow (timeout)"),
    ],
)
def test_the_word_is_that_of_the_cause(error: Fault | ParleyError, message: str) -> None:
    error = UpstreamFailed(error) if isinstance(error, Fault) else error
    assert error.to_dict("r")["message"] == message


def test_a_fault_of_unknown_kind_is_a_bad_gateway() -> None:
    assert UpstreamFailed(Fault("odd", "no", False)).status == 502


@pytest.mark.parametrize(("wait", "whole"), [(0.2, "1"), (1.0, "1"), (1.01, "2"), (120.0, "120")])
def test_retry_after_is_whole_seconds_and_never_too_short(wait: float, whole: str) -> None:
    assert UpstreamFailed(Fault("rate_limit", "no", True, 429, wait)).headers["retry-after"] == whole


def test_the_message_names_the_first_of_all_violations() -> None:
    error = InvalidInput([Violation("messages[0].role", "is required"), Violation("", "must be an object")])
    body = error.to_dict("req-1")
    assert (body["param"], body["message"]) == ("messages[0].role", "messages[0].role: is required (and 1 more)")
    assert body["violations"] == [
        {"param": "messages[0].role", "message": "is required"},
        {"param": None, "message": "must be an object"},
    ]


def test_a_conversation_that_is_too_long_says_by_how_much() -> None:
    body = ContextTooLong("too long", "messages", 9000, 8000).to_dict("req-1")
    assert (body["param"], body["input_tokens"], body["max_input_tokens"]) == ("messages", 9000, 8000)


@each_case(
    ("error", "headers"),
    [
        (BodyTimeout("too slow"), {"connection": "close"}),
        (Busy("full"), {"retry-after": "1"}),
        (InvalidApiKey("no key"), {"www-authenticate": 'Bearer realm="parley"'}),
        (
            InvalidApiKey("unknown key", invalid=True),
            {"www-authenticate": 'Bearer realm="parley", error="invalid_token"'},
        ),
        (
            RateLimited("too many", 1.2, {"x-limit": "5"}),
            {"x-limit": "5", "retry-after": "2", "retry-after-ms": "1200"},
        ),
        (RateLimited("larger than the limit", None, {"x-limit": "5"}), {"x-limit": "5"}),
    ],
)
def test_an_error_says_in_headers_what_clients_obey(error: ParleyError, headers: dict[str, str]) -> None:
    assert error.headers == headers


@each_case(("wait", "retryable"), [(1.23456, True), (None, False)])
def test_a_limit_says_when_to_try_again_if_ever(wait: float | None, retryable: bool) -> None:
    body = RateLimited("too many", wait, {}).to_dict("req-1")
    assert body["retryable"] is retryable
    assert body.get("retry_after_seconds") == (wait and 1.235)


def test_a_refused_method_says_which_are_allowed() -> None:
    assert MethodNotAllowed("x takes POST", "POST").headers == {"allow": "POST"}


def test_the_documents_example_is_what_is_sent() -> None:
    example = re.search(r"```json\n(.*?)```", DOCUMENT, re.DOTALL)
    assert example
    shown = json.loads(example.group(1))["error"]
    violations = [Violation(item["param"], item["message"]) for item in shown["violations"]]
    assert InvalidInput(violations).to_dict("req-5a0c") == shown


def test_a_response_says_which_encodings_are_read_and_when_to_try_again() -> None:
    assert UnsupportedEncoding("x", ["gzip", "zstd"]).headers == {"accept-encoding": "gzip, zstd"}
    assert StoreDown("x").headers == {"retry-after": "1"}
