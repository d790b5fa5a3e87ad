"""The Response object and what an HTTP error has in its place."""

from typing import Any

from app.formats.base import Options, ReplyInfo, ResponsesOptions
from app.formats.responses.response import (
    choose_end_type,
    describe_unstored,
    error_body,
    find_response_id,
    make_item_id,
    make_response,
    write_usage,
)

from tests.each_case import each_case

ID = "resp_" + "0" * 31 + "a"


def test_the_id_of_an_item_leads_to_its_response() -> None:
    assert find_response_id(make_item_id(ID, 3, "msg")) == ID
    assert find_response_id("msg_" + "0" * 31 + "a_i12") == ID
    for other in ("msg_123", ID, "", f"{make_item_id(ID, 3, 'msg')} "):
        assert find_response_id(other) is None


@each_case(
    ("error", "type_", "code"),
    [
        ({"code": "not_found", "status": 404}, "invalid_request_error", "not_found"),
        ({"code": "not_found", "status": 404, "upstream": "a"}, "invalid_request_error", "model_not_found"),
        ({"code": "timeout", "status": 504}, "server_error", "timeout"),
    ],
)
def test_an_error_has_the_type_and_the_code_of_openai(error: dict[str, Any], type_: str, code: str) -> None:
    body = error_body({**error, "message": "No."})
    assert body == {"error": {**error, "message": "No.", "type": type_, "code": code}}


@each_case(
    ("usage", "counts"),
    [
        (
            {
                "prompt_tokens": 5,
                "completion_tokens": 2,
                "total_tokens": 8,
                "prompt_tokens_details": {"cached_tokens": 4, "cache_write_tokens": 1},
                "completion_tokens_details": {"reasoning_tokens": 1},
            },
            (5, 4, 1, 2, 1, 8),
        ),
        ({"prompt_tokens": 5, "prompt_tokens_details": {"cached_tokens": None}}, (5, 0, 0, 0, 0, 5)),
    ],
)
def test_usage_has_all_numbers(usage: dict[str, Any], counts: tuple[int, ...]) -> None:
    written = write_usage(usage)
    assert written is not None
    inputs, outputs = written["input_tokens_details"], written["output_tokens_details"]
    cached = inputs["cached_tokens"], inputs["cache_write_tokens"]
    totals = written["output_tokens"], outputs["reasoning_tokens"], written["total_tokens"]
    assert (written["input_tokens"], *cached, *totals) == counts
    assert write_usage(None) is None


def test_a_response_repeats_the_fields_of_its_request() -> None:
    options = Options(responses=ResponsesOptions(fields={"temperature": 0.5, "store": True}))
    made = make_response(ReplyInfo(ID, "req-1", "m", 7, options=options), "queued", background=True)
    assert (made["id"], made["status"], made["created_at"], made["output"]) == (ID, "queued", 7, ())
    assert (made["temperature"], made["store"], made["background"], made["truncation"]) == (0.5, True, True, "disabled")


@each_case(
    ("status", "kind"),
    [("completed", "completed"), ("incomplete", "incomplete"), ("cancelled", "failed"), ("x", "failed")],
)
def test_the_last_event_is_named_after_the_status(status: str, kind: str) -> None:
    assert choose_end_type({"status": status}) == f"response.{kind}"


def test_a_response_that_is_not_stored_says_why() -> None:
    first = describe_unstored({"store": True}, "no room")
    assert first == {"store": False, "parley": {"warnings": ["store: no room, so store is false"]}}
    assert len(describe_unstored(first, "again")["parley"]["warnings"]) == 2
