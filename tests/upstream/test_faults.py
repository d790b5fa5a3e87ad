"""What a model server's error means, and what of it may be shown."""

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import pytest
from app.chat.events import Fault
from app.errors import CODES
from app.upstream import faults
from app.upstream.reply.chunk import MAX_NESTING, is_too_deep

from tests.each_case import each_case
from tests.linear_time import linear

NOW = datetime(2026, 3, 1, 12, 0, 0, tzinfo=UTC)
MESSAGE = "the adapter is broken"


def fault(body: Any, status: int = 500, headers: dict[str, str] | None = None) -> Fault:
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    return faults.from_response(status, headers or {}, raw, NOW)


@each_case(
    "body",
    [
        {"error": {"message": MESSAGE, "type": "server_error", "param": None, "code": "broken"}},
        {"error": {"message": MESSAGE, "code": 500}},
        {"error": {"message": MESSAGE, "code": None}},
        {"error": MESSAGE, "error_type": "generation"},
        {"object": "error", "message": MESSAGE, "type": "InternalServerError", "param": None, "code": 500},
        [{"error": {"code": 500, "message": MESSAGE, "status": "INTERNAL"}}],
        {"detail": MESSAGE},
        {"code": 20000, "message": MESSAGE, "data": None},
        {"base_resp": {"status_code": 1000, "status_msg": MESSAGE}},
        MESSAGE,
        MESSAGE.encode(),
        {"message": MESSAGE},
        {"msg": MESSAGE},
        {"error_description": MESSAGE},
        {"title": MESSAGE},
        {"error": {"message": {"message": MESSAGE}}},
        {"error": json.dumps({"error": {"message": MESSAGE}})},
        {"fault": {"faultstring": MESSAGE}},
        {"Response": {"Error": {"Code": "x", "Message": MESSAGE}, "RequestId": "r"}},
        {"internalServerException": {"message": MESSAGE}},
        {"ErrorMsg": {"Msg": MESSAGE, "Code": 5}},
        {"reason": MESSAGE},
    ],
)
def test_the_message_is_found_in_every_shape(body: Any) -> None:
    assert fault(body) == Fault("server_error", MESSAGE, True, 500)


@each_case(
    ("value", "failed"),
    [
        ({"errors": ["no"]}, True),
        ({"error_code": 336003, "error_msg": "no"}, True),
        ({"errMsg": "no"}, True),
        ({"message": "Internal server error"}, True),
        ({"message": "Endpoint request timed out"}, True),
        ({"message": "starting"}, False),
        ({"message": "no error so far", "progress": 3}, False),
        ({"fault": {"faultstring": "no"}}, True),
        ({"Response": {"Error": {"Message": "no"}}}, True),
        ({"result": {"errors": []}}, False),
        ({"choices": [], "prompt_filter_results": {"error": {"message": "not filtered"}}}, False),
        ({"throttlingException": {"message": "no"}}, True),
        ({"__type": "InternalFailure"}, True),
        ({"type": "response.failed"}, True),
        ({"event": "error"}, True),
        ({"code": 404}, True),
        ({"error_code": 0, "error_msg": "", "errors": []}, False),
        ({"code": 0, "message": "ok"}, False),
        ({"code": 200, "msg": "success", "data": {}}, False),
        ({"code": 20000, "message": "success"}, False),
        ({"message": "queued"}, False),
        ({"status": "processing", "type": "ping", "object": "chat.completion.chunk"}, False),
        ({"status": "in_progress", "success": True}, False),
        ({"type": "terror", "event": "unfailing"}, False),
    ],
)
def test_an_object_reports_a_failure_or_does_not(value: dict[str, Any], failed: bool) -> None:
    assert faults.reports_failure(value) is failed


@pytest.mark.parametrize("body", [b"", b" \n", b"{}", b"[]", b"null", b'{"error":{}}', b'{"error":null}', b'""'])
def test_an_error_without_words_is_judged_by_its_status(body: bytes) -> None:
    assert fault(body, 503).code == "overloaded"


@pytest.mark.parametrize("body", [b"", b"{}", b"[]", b'{"error":{"message":""}}', b'""'])
def test_an_error_without_words_says_so(body: bytes) -> None:
    assert fault(body).message == "the model server gave no reason"


def test_a_list_of_violations_becomes_a_message_with_their_paths() -> None:
    detail = [
        {"loc": ["body", "messages", 0, "role"], "msg": "field required", "type": "missing"},
        {"msg": "and another"},
        "and a word",
        {"loc": 5, "msg": "odd"},
    ]
    found = fault({"detail": detail}, 422)
    assert (found.code, found.message) == (
        "invalid_request",
        "body.messages.0.role: field required; and another; and a word; odd",
    )


def test_violations_in_a_message_or_its_text_have_their_paths() -> None:
    lost = [{"type": "extra_forbidden", "loc": ["body", "store"], "msg": "Extra inputs are not permitted"}]
    words = "body.store: Extra inputs are not permitted"
    assert fault({"object": "error", "message": {"detail": lost}}, 422).message == words
    assert fault({"error": {"message": json.dumps(lost)}}).message == words


@pytest.mark.parametrize(
    "raw",
    [
        json.dumps({"error": {"message": MESSAGE, "code": 500}}),
        {"error": {"message": MESSAGE}},
        {"error": MESSAGE},
        [{"error": {"message": MESSAGE}}],
        {"message": MESSAGE},
        MESSAGE,
    ],
)
def test_the_providers_message_is_used_instead_of_the_relays(raw: Any) -> None:
    body = {"error": {"message": "Provider returned error", "code": 500, "metadata": {"raw": raw, "provider": "P"}}}
    assert fault(body).message == MESSAGE


def test_json_inside_a_message_is_unfolded() -> None:
    assert fault({"error": {"message": json.dumps({"error": {"message": MESSAGE}})}}).message == MESSAGE


# -- kinds ------------------------------------------------------------------------------


@each_case(
    ("status", "words", "kind"),
    [
        (500, "jinja2.exceptions.TemplateError: Conversation roles must alternate user/assistant", "invalid_request"),
        (429, "You exceeded your current quota, please check your plan", "insufficient_quota"),
        (403, "You have reached your specified API usage limits", "insufficient_quota"),
        (403, "Your quota does not allow this", "insufficient_quota"),
        (402, "Insufficient Balance", "insufficient_quota"),
        (429, "The engine is currently overloaded, please try again later", "overloaded"),
        (400, "This model's maximum context length is 8192 tokens", "context_length_exceeded"),
        (500, "the request exceeds the available context size, try increasing it", "context_length_exceeded"),
        (413, "Request too large: prompt is too long", "context_length_exceeded"),
        (400, "Output data may contain inappropriate content. (data_inspection_failed)", "content_filter"),
        (400, "tool_use_failed", "tool_use_failed"),
        (400, "1 validation error for AnthropicContentBlock\ninput\n  Input should be a dictionary", "tool_use_failed"),
        (500, "The model produced output that does not match the expected peg-native format", "tool_use_failed"),
        (503, "Loading model", "overloaded"),
        (500, "Rate limit reached for requests", "rate_limit"),
        (400, "Incorrect API key provided", "authentication"),
        (400, "model `x` does not exist", "not_found"),
        (500, "image input is not supported - hint: you may need to provide the mmproj", "invalid_request"),
        (500, "audio input is not supported", "invalid_request"),
        (500, "2 validation errors for ChatCompletionRequestAssistantMessage", "invalid_request"),
        (500, "1 validation error for Request", "invalid_request"),
        (500, "This model does not support images", "invalid_request"),
        (500, "tools param requires --jinja flag", "invalid_request"),
        (500, "While executing FilterExpression at line 120, column 73 in source", "invalid_request"),
        (500, "Failed to parse tool call arguments as JSON: syntax error", "invalid_request"),
        (500, "Failed to load image or audio file", "invalid_request"),
        (500, "Unknown reasoning format: zz", "invalid_request"),
        (500, "Cannot use both json_schema and grammar", "invalid_request"),
        (500, "1 validation errors:\n  {'loc': ('response',)}", "server_error"),
        # Accounts and models that a server refuses with 400, as if the request were wrong: maximhq/bifrost#7211,
        # songquanpeng/one-api#271, anthropics/claude-code#58393, egoist/whispo#10, decolua/9router#1187.
        (400, "API key expired. Please renew the API key.", "authentication"),
        (400, "API key not valid. Please pass a valid API key.", "authentication"),
        (403, "The security token included in the request is expired", "authentication"),
        (400, "This organization has been disabled.", "permission"),
        (400, "Organization has been restricted. Please reach out to support", "permission"),
        (400, "This key is associated with a deactivated account.", "permission"),
        (400, "Country, region, or territory not supported", "permission"),
        (400, "Budget has been exceeded! Current cost: 2.3, Max budget: 2.0", "insufficient_quota"),
        (400, "ExceededBudget: User=a over budget. Spend=0.06, Budget=0.05", "insufficient_quota"),
        (400, "The model `llama-3.1-70b-versatile` has been decommissioned and is no longer supported.", "not_found"),
        (400, "The model `claude-2.1` has been retired.", "not_found"),
        (400, "The provided model identifier is invalid.", "not_found"),
        (400, "Invalid model. Please select a different model to continue.", "not_found"),
        (400, "Model Not Exist", "not_found"),
        (400, "qwen/nothing is not a valid model ID", "not_found"),
        (400, "Invalid model: mistral-old", "not_found"),
        (400, "thinking.budget_tokens: the thinking budget has to be below max_tokens", "invalid_request"),
        (400, "`temperature` is deprecated for this model.", "invalid_request"),
        (400, "the parameter top_k has been removed from this model", "invalid_request"),
        (400, "Invalid model parameters: temperature", "invalid_request"),
    ],
)
def test_words_decide_before_the_status(status: int, words: str, kind: str) -> None:
    found = fault({"error": {"message": words}}, status)
    assert (found.code, found.status, found.transient) == (kind, status, CODES[kind].retryable)


@pytest.mark.parametrize("field", ["code", "type"])
def test_the_servers_own_code_counts_as_a_word(field: str) -> None:
    assert fault({"error": {"message": "no", field: "context_length_exceeded"}}, 400).code == "context_length_exceeded"
    assert fault({"error": {"message": "no", "innererror": {"code": "ResponsibleAIPolicyViolation"}}}, 400).code == (
        "content_filter"
    )


@each_case(
    ("status", "kind"),
    [
        *((400, "invalid_request"), (401, "authentication"), (402, "insufficient_quota"), (403, "permission")),
        *((404, "not_found"), (408, "timeout"), (418, "invalid_request"), (422, "invalid_request")),
        *((424, "server_error"), (425, "overloaded"), (429, "rate_limit"), (500, "server_error")),
        *((502, "server_error"), (503, "overloaded"), (504, "timeout"), (524, "timeout"), (529, "overloaded")),
        (599, "server_error"),
    ],
)
def test_where_the_words_say_nothing_the_status_decides(status: int, kind: str) -> None:
    assert fault({"error": {"message": "no"}}, status).code == kind


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        ({"message": "no", "code": 429}, "rate_limit"),
        ({"message": "no", "code": "503"}, "overloaded"),
        ({"message": "no", "status": 404}, "not_found"),
        ({"message": "no", "status_code": 401}, "authentication"),
        ({"message": "no", "type": "BadRequestError"}, "invalid_request"),
        ({"message": "no", "code": True}, "server_error"),
        ({"message": "no", "code": "9" * 5000}, "server_error"),
        ({"message": "no"}, "server_error"),
    ],
)
def test_inside_a_reply_of_200_the_code_is_the_status(error: dict[str, Any], kind: str) -> None:
    assert faults.from_object({"error": error}, None).code == kind


@pytest.mark.parametrize(
    ("code", "kind"),
    [(1002, "rate_limit"), (1004, "authentication"), (1008, "insufficient_quota"), (1026, "content_filter")]
    + [(2013, "invalid_request"), (1000, "server_error"), ([1], "server_error"), ("x", "server_error")],
)
def test_minimax_says_its_kinds_in_numbers(code: Any, kind: str) -> None:
    found = faults.from_object({"base_resp": {"status_code": code, "status_msg": "no"}}, None)
    assert (found.code, found.message) == (kind, "no")


def test_what_the_model_had_written_comes_with_a_failed_call() -> None:
    error = {"message": "no", "code": "tool_use_failed", "failed_generation": "<function=f>{\ud800"}
    assert faults.from_object({"error": error}, 400).detail == {"failed_generation": "<function=f>{\ufffd"}


# -- what may be shown --------------------------------------------------------------------


@each_case(
    "secret",
    [
        "sk-proj-abc_DEF-123",
        "gsk_abcdef",
        "hf_abcdef",
        "Bearer abc.def/ghi==",
        "nvapi-123456",
        "AIzaSyD-1234",
        "sk-****abcd",
    ],
)
@each_case("shape", ["Incorrect API key provided: {}.", "no {} here", '{{"error": "bad {}"}}'])
def test_what_looks_like_a_key_is_never_shown(secret: str, shape: str) -> None:
    text = shape.format(secret)
    for body in (text.encode(), {"error": {"message": text}}, {"base_resp": {"status_code": 1, "status_msg": text}}):
        shown = fault(body, 401).message
        assert secret not in shown
        assert "[redacted]" in shown


@pytest.mark.parametrize(
    "page",
    [
        "<!DOCTYPE html><html><head><title> 502 Bad Gateway </title></head><body>secret</body></html>",
        "\n <html><title>502 Bad Gateway</title><p>secret",
        "<center><h1>secret</h1></center><title>502 Bad Gateway</title>",
        '<?xml version="1.0"?><title>502 Bad Gateway</title>secret',
    ],
)
def test_only_the_title_of_a_web_page_is_in_the_message(page: str) -> None:
    found = fault(page.encode(), 502)
    assert found.message == "the model server answered with a web page (502 Bad Gateway)"
    assert found.code == "server_error"


def test_a_web_pages_words_do_not_decide() -> None:
    assert fault(b"<html>rate limit, invalid api key</html>", 502).code == "server_error"


def test_a_reply_of_200_that_is_a_web_page_asks_for_the_address() -> None:
    found = faults.make_protocol_fault(b"<html><title>Hello</title>")
    assert (found.code, found.status) == ("upstream_protocol", 200)
    assert found.message == "the model server sent a web page (Hello); is its base_url right?"


def test_garbage_in_a_reply_is_not_shown() -> None:
    assert "xyz" not in faults.make_protocol_fault(b"xyz").message


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("rate limit {}", "rate_limit"),
        ("{} rate limit", "rate_limit"),
        ("{} rate limit {}", "server_error"),
    ],
)
def test_of_a_very_long_message_the_beginning_and_the_end_decide(text: str, kind: str) -> None:
    long = text.replace("{}", "x" * 10_000)
    assert fault({"error": {"message": long}}).code == fault(long.encode()).code == kind


@pytest.mark.parametrize(
    "work",
    [
        lambda n: fault(b"<html>" + b"<title" * n),
        lambda n: is_too_deep(b"[]" * 300 + b'"' + b'\\"' * n),
    ],
    ids=["titles", "quotes"],
)
def test_a_flood_takes_linear_time(work: Callable[[int], object]) -> None:
    assert linear(work, 4000)


def test_a_message_is_bounded_and_printable() -> None:
    shown = fault({"error": {"message": "a\x00\x1b[31m\ud800\n" + "x" * 10_000}}).message
    assert shown.startswith("a\ufffd\ufffd[31m\ufffd\nxxx")
    assert len(shown) == faults.MAX_MESSAGE


# -- when to come back ----------------------------------------------------------------------


@each_case(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"retry-after": "2"}, 2.0),
        ({"retry-after": "0.25"}, 0.25),
        ({"retry-after": format_datetime(NOW + timedelta(seconds=30), usegmt=True)}, 30.0),
        ({"retry-after": "Sun, 01 Mar 2026 12:00:30 -0000"}, 30.0),
        ({"retry-after": format_datetime(NOW - timedelta(seconds=30), usegmt=True)}, None),
        ({"retry-after-ms": "1500", "retry-after": "9"}, 1.5),
        ({"retry-after-ms": "soon", "retry-after": "9"}, 9.0),
        ({"retry-after": "86400"}, 120.0),
        ({"retry-after": "inf"}, 120.0),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "-1"}, None),
        ({"retry-after": "0"}, None),
        ({"retry-after": "later"}, None),
        ({"retry-after": "Sun, 99 Mar 2026 12:00:30 GMT"}, None),
        ({"retry-after": ""}, None),
    ],
)
def test_retry_after_is_read_as_milliseconds_seconds_or_a_date(headers: dict[str, str], seconds: float | None) -> None:
    assert fault(b"slow down", 429, headers).retry_after_seconds == seconds


# -- nesting --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "deep"),
    [
        ("[" * MAX_NESTING + "]" * MAX_NESTING, False),
        ("[" * (MAX_NESTING + 1) + "]" * (MAX_NESTING + 1), True),
        ('{"a":' * (MAX_NESTING + 1), True),
        ("[]" * 1000, False),
        ('["' + "[" * 1000 + '"]', False),
        ('["\\"' + "[" * 1000 + '"]', False),
        ('["\\\\"' + "[" * 1000, True),
    ],
)
def test_nesting_counts_what_is_open_outside_of_strings(text: str, deep: bool) -> None:
    assert is_too_deep(text.encode()) is deep


def test_an_error_that_is_nested_too_deeply_is_taken_for_text() -> None:
    assert fault(b'{"error":' * 500 + b"1" + b"}" * 500).message.startswith('{"error":{"error":')


@pytest.mark.parametrize("raw", ["5", 5, '["x", 5]'])
def test_the_error_of_the_provider_behind_a_relay_may_be_no_object(raw: Any) -> None:
    body = {"error": {"message": "Provider returned error", "code": 500, "metadata": {"raw": raw, "provider": "P"}}}
    assert fault(body).message


@each_case(
    ("data", "reason", "skippable"),
    [
        (b"ping", "", True),
        (b"keep-alive", "", True),
        (b"OK, processing...", "", True),
        (b"ping", "the server sent no gzip", False),
        (b"internal error", "", False),
        (b"service overloaded", "", False),
        (b'{"choices"', "", False),
        (b"<html>", "", False),
        (b"\xff", "", False),
        (b"a" * 70, "", False),
    ],
)
def test_only_a_few_words_that_name_no_failure_can_be_left_out(data: bytes, reason: str, skippable: bool) -> None:
    assert faults.is_skippable(data, reason) is skippable


@each_case(
    ("message", "code"),
    [
        ("Invalid prompt: your prompt was flagged as potentially violating our usage policy", "content_filter"),
        ("Invalid Responses API request", "invalid_request"),
    ],
)
def test_the_code_invalid_prompt_alone_names_no_filter(message: str, code: str) -> None:
    assert fault({"error": {"message": message, "code": "invalid_prompt"}}, 400).code == code


def test_a_model_that_is_not_found_is_told_as_that() -> None:
    assert fault({"code": "invalid-argument", "error": "Model not found: grok-9"}, 400).code == "not_found"


@each_case(
    "body",
    [
        {"error": {"message": "No endpoints found that support tool use.", "code": 404}},
        {"error": {"code": "1210", "message": "Invalid API parameter, please check the documentation."}},
        {"error": {"code": "1214", "message": "max_tokens参数非法。请检查文档。"}},
    ],
)
def test_a_refusal_in_words_is_one_whatever_the_status(body: Any) -> None:
    for status in (200, 404):
        found = faults.from_object(body, status)
        assert found.code == "invalid_request" and not found.transient


def test_what_zod_finds_has_its_place() -> None:
    # openai/codex#18307: OpenRouter's Responses API
    found = [
        {"code": "invalid_union", "errors": [[{"path": ["type"]}]], "path": ["tools", 1], "message": "Invalid input"}
    ]
    body = {
        "error": {"code": "invalid_prompt", "message": "Invalid Responses API request"},
        "metadata": {"raw": json.dumps(found)},
    }
    assert faults.from_object(body, 400).message == "tools.1: Invalid input"


def test_a_sentence_in_the_place_of_a_parameter_is_a_part_of_the_message() -> None:
    said = "The reasoning_content in the thinking mode must be passed back to the API."
    error = {"code": "400", "message": "Param Incorrect", "param": said, "type": ""}
    fault = faults.from_body(json.dumps({"error": error}).encode(), 400)
    assert (fault.code, fault.message, fault.server_param) == ("invalid_request", f"Param Incorrect: {said}", None)
    named = faults.from_body(json.dumps({"error": {**error, "param": "messages"}}).encode(), 400)
    assert (named.message, named.server_param) == ("Param Incorrect", "messages")
