"""Tools, choices, response formats and fields in the form of another API: the model server is sent the same."""

import json
from typing import Any

from tests.api.mistaken_requests import BODIES, FUNCTION, PATHS, SCHEMA, TOOLS
from tests.each_case import each_case
from tests.in_process_gateway import ModelServer, Running

Json = dict[str, Any]
TOOL = TOOLS["completions"]
SCHEMA_FORMAT = {"type": "json_schema", "json_schema": {"name": "r", "schema": SCHEMA}}


def sent(endpoint: str, **fields: Any) -> Json:
    """What the model server is sent for these fields; the parameters of `/v1/chat` are in `generate_cfg`."""
    server = ModelServer()
    nested = {"tool_choice", "response_format", "max_tokens", "stop"} if endpoint == "chat" else set()
    params = {"generate_cfg": {key: fields[key] for key in fields if key in nested}} if nested & fields.keys() else {}
    beside = {key: value for key, value in fields.items() if key not in nested}
    with Running(server=server) as gateway:
        answer = gateway.post(PATHS[endpoint], {**BODIES[endpoint], **beside, **params})
    assert answer.status == 200, answer.body
    body: Json = json.loads(server.requests[0].content)
    return body


@each_case("endpoint", list(PATHS))
@each_case(
    "tool",
    [
        TOOLS["completions"],
        TOOLS["responses"],
        TOOLS["messages"],
        FUNCTION,
        {"name": "f", "description": "d", "inputSchema": FUNCTION["parameters"]},
        {"type": "custom", "name": "f", "description": "d", "input_schema": FUNCTION["parameters"]},
    ],
)
def test_a_tool_of_any_api_is_the_same_function(endpoint: str, tool: Json) -> None:
    assert sent(endpoint, tools=[tool])["tools"] == [TOOL]


@each_case("endpoint", list(PATHS))
@each_case(
    ("choice", "expected"),
    [
        ({"type": "function", "function": {"name": "f"}}, {"type": "function", "function": {"name": "f"}}),
        ({"type": "function", "name": "f"}, {"type": "function", "function": {"name": "f"}}),
        ({"type": "tool", "name": "f"}, {"type": "function", "function": {"name": "f"}}),
        ("f", {"type": "function", "function": {"name": "f"}}),
        ({"type": "any"}, "required"),
        ("any", "required"),
        ("required", "required"),
        ({"type": "none"}, "none"),
        ("none", "none"),
    ],
)
def test_a_choice_of_any_api_is_the_same(endpoint: str, choice: Any, expected: Any) -> None:
    assert sent(endpoint, tools=[TOOLS[endpoint]], tool_choice=choice)["tool_choice"] == expected


@each_case("endpoint", list(PATHS))
@each_case(
    ("given", "expected"),
    [
        (SCHEMA_FORMAT, SCHEMA_FORMAT),
        ({"type": "json_schema", "name": "r", "schema": SCHEMA}, SCHEMA_FORMAT),
        (
            {"type": "json_schema", "schema": SCHEMA},
            {"type": "json_schema", "json_schema": {"name": "response", "schema": SCHEMA}},
        ),
        (
            {"type": "json_schema", "json_schema": {"schema": SCHEMA, "strict": True}},
            {"type": "json_schema", "json_schema": {"name": "response", "schema": SCHEMA, "strict": True}},
        ),
        ({"type": "json_object"}, {"type": "json_object"}),
    ],
)
def test_a_response_format_of_any_api_is_the_same(endpoint: str, given: Json, expected: Json) -> None:
    assert sent(endpoint, response_format=given)["response_format"] == expected


def test_a_response_format_that_only_some_servers_know_is_sent_as_it_is() -> None:
    for given in ({"type": "regex", "value": "a+"}, {"type": "json", "value": SCHEMA}):
        assert sent("completions", response_format=given)["response_format"] == given
    llama = {"type": "json_object", "schema": SCHEMA}
    assert sent("chat", response_format=llama)["response_format"] == llama


@each_case(
    ("endpoint", "given", "expected"),
    [
        ("completions", {"max_output_tokens": 7}, {"max_tokens": 7}),
        ("completions", {"stop_sequences": ["x"]}, {"stop": ["x"]}),
        ("responses", {"max_tokens": 7}, {"max_tokens": 7}),
        ("responses", {"max_completion_tokens": 7}, {"max_tokens": 7}),
        ("responses", {"max_output_tokens": 7, "max_tokens": 9}, {"max_tokens": 7}),
        ("responses", {"functions": [FUNCTION]}, {"tools": [TOOL]}),
        ("messages", {"stop": "x"}, {"stop": ["x"]}),
        ("messages", {"max_tokens": None, "max_completion_tokens": 7}, {"max_tokens": 7}),
        ("messages", {"functions": [FUNCTION]}, {"tools": [TOOL]}),
    ],
)
def test_a_field_with_the_name_of_another_api_counts(endpoint: str, given: Json, expected: Json) -> None:
    body = sent(endpoint, **given)
    assert {key: body[key] for key in expected} == expected


def test_a_system_prompt_with_the_name_of_another_api_counts() -> None:
    expected = {"role": "system", "content": "Be brief."}
    assert sent("responses", system="Be brief.")["messages"][0] == expected
    assert sent("messages", instructions="Be brief.")["messages"][0] == expected


def test_a_renamed_field_that_is_mistaken_is_named_as_the_caller_names_it() -> None:
    cases: list[tuple[str, Json]] = [
        ("completions", {"max_output_tokens": 0}),
        ("responses", {"max_tokens": 0}),
        ("messages", {"max_tokens": None, "max_completion_tokens": 0}),
    ]
    with Running() as gateway:
        for endpoint, given in cases:
            error = gateway.post(PATHS[endpoint], {**BODIES[endpoint], **given}).json["error"]
            name = next(key for key, value in given.items() if value == 0)
            assert (error["param"], error["message"]) == (name, f"{name}: must be at least 1, not 0")
