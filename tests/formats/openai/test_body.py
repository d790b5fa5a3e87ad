"""The body of `POST /v1/chat/completions`: parameters at its top level, fields that are refused or passed on."""

import json
from typing import Any

from app.errors import InvalidInput
from app.formats.body import ParsedRequest, RejectedRequest
from app.formats.openai import OPENAI
from app.formats.openai.body import parse_completions_body
from app.formats.request_limits import RequestLimits

from tests.each_case import each_case

Json = dict[str, Any]
LIMITS = RequestLimits(max_messages=5, max_content_items=20, max_functions=3, max_nesting=9)
USER: Json = {"role": "user", "content": "Hi"}
TOOL: Json = {"type": "function", "function": {"name": "f"}}


def parse(**fields: Any) -> ParsedRequest | RejectedRequest:
    return parse_completions_body(json.dumps({"model": "m", "messages": [USER], **fields}).encode(), LIMITS)


def accept(**fields: Any) -> ParsedRequest:
    parsed = parse(**fields)
    assert isinstance(parsed, ParsedRequest)
    return parsed


def refuse(**fields: Any) -> list[tuple[str, str]]:
    rejected = parse(**fields)
    assert isinstance(rejected, RejectedRequest)
    assert isinstance(rejected.error, InvalidInput)
    assert rejected.write_error is OPENAI.error
    return [(one.path, one.message) for one in rejected.error.violations]


@each_case(
    ("fields", "mode", "usage"),
    [
        ({}, "whole", False),
        ({"stream": True}, "delta", False),
        ({"stream": True, "stream_options": {"include_usage": True}}, "delta", True),
        ({"stream": True, "stream_options": {"include_usage": None}}, "delta", False),
    ],
)
def test_a_reply_is_whole_unless_a_stream_is_requested(fields: Json, mode: str, usage: bool) -> None:
    settings = accept(**fields).settings
    assert (settings.mode, settings.include_usage) == (mode, usage)


@each_case(
    ("fields", "params"),
    [
        ({"temperature": 0.5, "top_p": None}, {"temperature": 0.5}),
        ({"own_option": 1}, {"extra_body": {"own_option": 1}}),
        ({"max_completion_tokens": 5}, {"max_completion_tokens": 5}),
        ({"tools": [TOOL], "tool_choice": "auto"}, {"tool_choice": "auto"}),
        ({"functions": [{"name": "f"}], "function_call": "auto"}, {"function_choice": "auto"}),
        (
            {"functions": [{"name": "f"}], "function_call": {"name": "f"}},
            {"function_choice": {"type": "function", "function": {"name": "f"}}},
        ),
    ],
)
def test_parameters_are_at_the_top_level_and_others_are_passed_on(fields: Json, params: Json) -> None:
    given = {name: value for name, value in accept(**fields).request.params.items() if value is not None}
    assert given == params


@each_case(
    ("fields", "path", "text"),
    [
        ({"n": 2}, "n", ""),
        ({"temprature": 1}, "temprature", "did you mean `temperature`?"),
        ({"generate_cfg": {}}, "generate_cfg", "is a field of POST /v1/chat"),
        ({"stream_options": 1}, "stream_options", "must be an object"),
        ({"stream_options": {"odd": 1}}, "stream_options.odd", "is not a known option"),
        ({"stream_options": {"include_usage": 1}}, "stream_options.include_usage", "must be true or false"),
        ({"function_call": 1}, "function_call", "must be a string or an object"),
        ({"function_call": {"name": 1}}, "function_call.name", "must be a string"),
        ({"function_call": {}}, "function_call.name", "is required"),
        ({"messages": [{"role": "user"}]}, "messages[0].content", ""),
    ],
)
def test_a_field_that_cannot_be_obeyed_is_refused_at_its_place(fields: Json, path: str, text: str) -> None:
    found = refuse(**fields)
    assert [place for place, _ in found] == [path]
    assert text in found[0][1]


def test_violations_of_the_body_and_of_its_lists_are_reported_together() -> None:
    assert [path for path, _ in refuse(temperature="hot", messages=[{"role": "user"}])] == [
        "temperature",
        "messages[0].content",
    ]


def test_a_field_with_the_name_of_another_api_is_read_with_a_warning() -> None:
    parsed = accept(max_output_tokens=5)
    assert parsed.request.params == {"max_tokens": 5}
    assert parsed.warnings == ("max_output_tokens was read as max_tokens, its name here",)


def test_a_system_prompt_in_a_field_of_another_api_gives_a_warning() -> None:
    [warning] = accept(instructions="Be kind.").warnings
    assert warning.startswith("instructions was passed on as it is: here a system prompt is a message")


def test_a_body_that_is_not_json_is_an_error_in_openais_format() -> None:
    rejected = parse_completions_body(b"{", LIMITS)
    assert isinstance(rejected, RejectedRequest)
    assert (rejected.error.status, rejected.write_error) == (400, OPENAI.error)
