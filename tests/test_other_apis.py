"""Tools, choices and response formats as other APIs write them."""

from typing import Any

import pytest
from app.other_apis import read_choice, read_function_tool, read_response_format, read_schema_tool

from tests.each_case import each_case

SCHEMA = {"type": "object", "properties": {}}


@each_case(
    ("tool", "expected"),
    [
        ({"name": "f", "input_schema": SCHEMA}, {"name": "f", "parameters": SCHEMA}),
        ({"type": "custom", "name": "f", "inputSchema": SCHEMA}, {"name": "f", "parameters": SCHEMA}),
        ({"name": "f"}, {"name": "f"}),
        ({"name": 1, "input_schema": SCHEMA}, {"name": 1, "input_schema": SCHEMA}),
        ("f", "f"),
    ],
)
def test_a_tool_with_its_own_schema_is_read_as_a_function(tool: Any, expected: Any) -> None:
    assert read_schema_tool(tool) == expected


@each_case(
    ("tool", "expected"),
    [
        ({"type": "function", "function": {"name": "f", "strict": True}}, {"name": "f", "strict": True}),
        ({"type": "function", "function": {"name": "f"}, "strict": True}, {"name": "f", "strict": True}),
        ({"name": "f", "parameters": SCHEMA}, {"name": "f", "parameters": SCHEMA}),
        ({"name": "f", "inputSchema": SCHEMA}, {"name": "f", "parameters": SCHEMA}),
        ({"name": "f"}, None),
        ({"type": "function", "function": {"name": 1}}, None),
        ({"name": "f", "input_schema": SCHEMA}, None),
        ({"type": "web_search"}, None),
        ("f", None),
    ],
)
def test_a_function_is_read_from_each_form_of_a_tool(tool: Any, expected: Any) -> None:
    assert read_function_tool(tool) == expected


@each_case(
    ("choice", "expected"),
    [
        ("any", "required"),
        ("f", "f"),
        ({"type": "any"}, "required"),
        ({"type": "tool", "name": "f"}, {"function": {"name": "f"}}),
        ({"function": {"name": "f"}}, {"function": {"name": "f"}}),
        ({"type": "auto", "name": "f"}, None),
        ({"type": 1}, None),
        (1, None),
    ],
)
def test_a_choice_is_read_from_each_form(choice: Any, expected: Any) -> None:
    assert read_choice(choice) == expected


@each_case(
    ("value", "message"),
    [
        ({}, "must have a type"),
        ({"type": "object", "properties": {}}, "is a JSON schema"),
        ({"type": "json"}, 'must have one of the types text, json_object, json_schema, not "json"'),
        ({"type": "json_schema"}, "has no schema"),
        ({"type": "json_schema", "json_schema": "x"}, "has a json_schema that is not an object"),
        ({"type": "json_schema", "json_schema": SCHEMA}, "has the schema itself as json_schema"),
        ({"type": "json_schema", "json_schema": {"schema": "{}"}}, "has a schema that is a string"),
        ({"type": "json_schema", "json_schema": {"name": "n"}}, "has a json_schema without the key schema"),
        ({"type": "json_schema", "json_schema": {"name": 1, "schema": SCHEMA}}, "has a name that is not a string"),
    ],
)
def test_a_wrong_response_format_is_refused_with_what_is_wrong(value: Any, message: str) -> None:
    with pytest.raises(ValueError) as caught:
        read_response_format(value)
    assert str(caught.value).startswith(message)


@each_case(
    ("value", "expected"),
    [
        (None, None),
        ({"type": "text"}, {"type": "text"}),
        (
            {"type": "json_schema", "schema": SCHEMA, "strict": True},
            {"type": "json_schema", "json_schema": {"name": "response", "schema": SCHEMA, "strict": True}},
        ),
        (
            {"type": "json_schema", "json_schema": {"name": "n", "schema": SCHEMA}},
            {"type": "json_schema", "json_schema": {"name": "n", "schema": SCHEMA}},
        ),
    ],
)
def test_a_response_format_is_read_from_each_form(value: Any, expected: Any) -> None:
    assert read_response_format(value) == expected
