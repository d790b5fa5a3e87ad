"""The corpus itself: every case is well formed, and none is missing."""

import json
import re

import pytest

from tests.conformance.cases import CASES, Json, body_chunks, compare, load_cases
from tests.conformance.schema import VALIDATOR
from tests.each_case import each_case

QUIRKS_IN_RANGES = ((1, 29), (38, 97), (100, 196))
"""Quirks of the catalogue that have wire bytes; the rest describe requests, timing and clients."""
FIRST_REPORTED = 300
"""From this number on, cases are built after public bug reports."""

EMPTY_BODIES = {"Q-147", "Q-186"}

ALL = load_cases()

every_case = each_case("case", ALL, ids=lambda case: case["id"])


@every_case
def test_a_case_has_the_shape_that_the_readme_describes(case: Json) -> None:
    assert [error.message for error in VALIDATOR.iter_errors(case)] == []


def test_a_file_is_named_after_its_case_and_ids_are_unique() -> None:
    names = [path.stem for path in sorted(CASES.iterdir())]
    assert names == [case["id"] for case in ALL]


def test_every_quirk_with_wire_bytes_has_its_case() -> None:
    numbers = [number for first, last in QUIRKS_IN_RANGES for number in range(first, last + 1)]
    wanted = {f"Q-{number:03d}" for number in numbers}
    found = {case["id"] for case in ALL if case["id"].startswith("Q")}
    assert {id_ for id_ in found if int(id_[2:]) < FIRST_REPORTED} == wanted


@every_case
def test_the_body_can_be_read_and_is_empty_only_on_purpose(case: Json) -> None:
    assert sum(map(len, body_chunks(case))) > 0 or case["id"] in EMPTY_BODIES


@every_case
def test_finish_reason_is_error_exactly_when_an_error_is_expected(case: Json) -> None:
    assert (case["expect"]["finish_reason"] == "error") == (case["expect"]["error"] is not None)


@every_case
def test_a_retry_is_safe_exactly_when_it_may_help_and_nothing_was_emitted(case: Json) -> None:
    error = case["expect"]["error"]
    if error is not None:
        assert error["retry_safe"] == (error["transient"] and not case["expect"]["messages"])


@every_case
def test_an_http_error_delivers_no_message(case: Json) -> None:
    if case["upstream_kind"] == "error":
        assert case["upstream_status"] >= 400
        assert case["expect"]["messages"] == []
        assert case["expect"]["error"]["status"] == case["upstream_status"]


@every_case
def test_arguments_are_json_unless_they_are_marked(case: Json) -> None:
    if case["expect"]["error"] is not None:
        return  # its calls were never completed
    for message in case["expect"]["messages"]:
        if "function_call" in message and message["extra"].get("arguments_valid") is not False:
            assert isinstance(json.loads(message["function_call"]["arguments"]), dict)


@every_case
def test_tool_calls_is_expected_only_beside_a_call(case: Json) -> None:
    calls = [message for message in case["expect"]["messages"] if "function_call" in message]
    if case["expect"]["finish_reason"] == "tool_calls":
        assert calls
    if calls:
        assert case["expect"]["finish_reason"] != "stop"


@every_case
def test_our_own_cases_say_which_rule_they_stand_on(case: Json) -> None:
    if case["id"].startswith("X"):
        assert case["derived"]
        assert re.match(r"(Rules? \d|Table \d|Parser checklist|Q-\d)", case["note"])


@every_case
def test_the_expectation_agrees_with_itself(case: Json) -> None:
    expect = case["expect"]
    error = expect["error"] and {**expect["error"], "message": expect["error"].get("message_contains", "")}
    assert compare(case, {**expect, "messages": _with_real_ids(expect["messages"]), "error": error}) == []


def _with_real_ids(messages: list[Json]) -> list[Json]:
    def real(place: int, message: Json) -> Json:
        if message.get("extra", {}).get("function_id") != "<generated>":
            return message
        return {**message, "extra": {**message["extra"], "function_id": f"own-{place}"}}

    return [real(place, message) for place, message in enumerate(messages)]


CASE_OF_TWO_CALLS = next(case for case in ALL if case["id"] == "Q-041")


@pytest.mark.parametrize(
    ("change", "difference"),
    [
        ({"messages": []}, "message count"),
        ({"finish_reason": "stop"}, "finish_reason"),
        ({"usage": None}, "usage.prompt_tokens"),
        ({"error": {"kind": "timeout"}}, "error"),
    ],
)
def test_compare_names_what_differs(change: Json, difference: str) -> None:
    found = compare(CASE_OF_TWO_CALLS, {**CASE_OF_TWO_CALLS["expect"], **change})
    assert found
    assert found[0].startswith(difference)


def test_compare_sees_two_calls_with_one_id() -> None:
    first, second = CASE_OF_TWO_CALLS["expect"]["messages"]
    twin = {**second, "extra": first["extra"]}
    found = compare(CASE_OF_TWO_CALLS, {**CASE_OF_TWO_CALLS["expect"], "messages": [first, twin]})
    assert "duplicate function_id 'gA1'" in found
