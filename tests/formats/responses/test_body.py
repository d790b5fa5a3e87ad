"""Places of the caller's own body in what is said of a request of `POST /v1/responses`."""

import json
from typing import Any

from app.errors import InvalidInput
from app.formats.body import NOTHING_STORED, ParsedRequest, RejectedRequest, StoredItems, UnresolvedRequest
from app.formats.request_limits import RequestLimits
from app.formats.responses.body import parse_responses_body

from tests.each_case import each_case

Json = dict[str, Any]
LIMITS = RequestLimits(max_messages=5, max_content_items=20, max_functions=1, max_nesting=9)
QUESTION: Json = {"role": "user", "content": "Hi"}
CALL: Json = {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"}
FUNCTION: Json = {"type": "function", "name": "f"}
IMAGE: Json = {"role": "user", "content": [{"type": "input_image", "image_url": "/home/me/a.png"}]}


def parse(body: Json, stored: StoredItems = NOTHING_STORED) -> ParsedRequest | RejectedRequest:
    parsed = parse_responses_body(json.dumps({"model": "m", **body}).encode(), LIMITS)
    return parsed.resolve(stored) if isinstance(parsed, UnresolvedRequest) else parsed


def accept(body: Json, stored: StoredItems = NOTHING_STORED) -> ParsedRequest:
    parsed = parse(body, stored)
    assert isinstance(parsed, ParsedRequest)
    return parsed


def refuse(body: Json) -> list[str]:
    rejected = parse(body)
    assert isinstance(rejected, RejectedRequest) and isinstance(rejected.error, InvalidInput)
    return [violation.path for violation in rejected.error.violations]


def test_messages_have_the_places_of_their_items() -> None:
    stored = StoredItems({"resp_1": [QUESTION, {"role": "assistant", "content": "Yes?"}]})
    body = {"instructions": "Be brief.", "previous_response_id": "resp_1", "input": [QUESTION, QUESTION]}
    places = ["instructions", "previous_response_id[0]", "previous_response_id[1]", "input[0]", "input[1]"]
    assert [message.path for message in accept(body, stored).request.messages] == places


def test_old_media_of_a_stored_response_become_words() -> None:
    stored = StoredItems({"resp_1": [IMAGE, {"role": "assistant", "content": "Nice."}]})
    parsed = accept({"previous_response_id": "resp_1", "input": "And now?"}, stored)
    [warning] = parsed.warnings
    assert warning.startswith("previous_response_id[0].content[0].image_url was not sent: ")
    assert refuse({"input": [IMAGE]}) == ["input[0].content[0].image_url"]


@each_case(
    ("fields", "name", "path"),
    [
        ({}, "max_tokens", "max_output_tokens"),
        ({"max_output_tokens": 5}, "max_tokens", "max_output_tokens"),
        ({"max_tokens": 5}, "max_tokens", "max_tokens"),
        ({"reasoning": {"effort": "low"}}, "reasoning_effort", "reasoning.effort"),
        ({"reasoning_effort": "low"}, "reasoning_effort", "reasoning_effort"),
        ({"reasoning": {"effort": "none"}}, "enable_thinking", "reasoning.effort"),
        ({"enable_thinking": False}, "enable_thinking", "enable_thinking"),
        ({"text": {"format": {"type": "json_object"}}}, "response_format", "text.format"),
        ({"response_format": {"type": "json_object"}}, "response_format", "response_format"),
        ({"truncation": "disabled"}, "max_input_tokens", "truncation"),
        ({"temperature": 1}, "temperature", "temperature"),
        ({"tools": [FUNCTION], "tool_choice": "auto"}, "function_choice", "tool_choice"),
    ],
)
def test_a_parameter_has_the_name_under_which_the_caller_gave_it(fields: Json, name: str, path: str) -> None:
    request = accept({"input": "Hi", **fields}).request
    assert request.paths.param(name) == path
    assert request.paths.extra("chat_template_kwargs") == "chat_template_kwargs"


def test_settings_of_an_item_have_its_place() -> None:
    update = {"type": "configuration_update", "reasoning": {"effort": "low"}}
    assert accept({"input": [QUESTION, update]}).request.paths.param("reasoning_effort") == "input[1].reasoning.effort"


@each_case(
    ("body", "places"),
    [
        ({"input": "Hi", "max_tokens": 0}, ["max_tokens"]),
        ({"input": "Hi", "max_output_tokens": 0}, ["max_output_tokens"]),
        ({"input": "Hi", "temperature": "hot", "stream": 5}, ["stream", "temperature"]),
        ({"input": [QUESTION] * 6}, ["input"]),
        ({"input": "Hi", "tools": [FUNCTION, FUNCTION | {"name": "g"}]}, ["tools"]),
        ({"input": [QUESTION, CALL], "tools": [FUNCTION], "truncation": "x"}, ["truncation", "input[1]"]),
        ({"input": [QUESTION | {"content": 5}], "metadata": {"a": 5}}, ["metadata.a", "input[0].content"]),
        ({"input": "Hi", "text": {"format": {"type": "json_schema", "schema": [[[[[[[[[[1]]]]]]]]]]}}}, None),
        ({"input": ""}, ["input"]),
        ({"input": []}, ["input"]),
    ],
)
def test_violations_have_the_places_of_the_callers_body(body: Json, places: list[str] | None) -> None:
    found = refuse(body)
    assert found == places if places is not None else all(place.startswith("text.format") for place in found)
