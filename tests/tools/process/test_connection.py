from typing import Any

import msgspec
import pytest
from app.tools.process.connection import read_tool

from tests.each_case import each_case


@each_case(
    ("schema", "reason"),
    [
        (None, "'t' has no inputSchema"),
        ([], "'t' has no inputSchema"),
        ({"type": "string"}, "the inputSchema of 't' is not that of an object"),
        ({"type": "object", "properties": {"n": {"type": "int"}}}, "'int' is not valid under any"),
        ({"type": "object", "properties": {"required": ["coin"]}}, "is not of type 'object', 'boolean'"),
        ({"type": "object", "description": "x" * 100_000}, "has more than 100000 bytes"),
        ({"type": "object", "default": float("nan")}, "is not JSON"),
        ({"type": "object", "properties": {"n": {"maximum": float("inf")}}}, "is not JSON"),
        ({"type": "object", "default": 10**5000}, "is not JSON"),
        ({"type": "object", "anyOf": [{"anyOf": [{}] * 2500}] * 9}, "takes too much work"),
    ],
)
def test_a_tool_whose_schema_would_fail_the_request_is_left_out(schema: Any, reason: str) -> None:
    with pytest.raises(ValueError, match="inputSchema") as refused:
        read_tool({"name": "t", "inputSchema": schema})
    assert reason in str(refused.value)


def test_a_name_that_is_too_long_is_none() -> None:
    with pytest.raises(ValueError, match="has more than 256 characters"):
        read_tool({"name": "n" * 257, "inputSchema": {}})


@each_case("annotations", [{"title": float("nan")}, {"title": 10**5000}, {"title": "x" * 100_000}])
def test_annotations_that_are_not_json_or_too_large_are_left_out(annotations: dict[str, Any]) -> None:
    tool = read_tool({"name": "t", "inputSchema": {}, "annotations": {"readOnlyHint": True, **annotations}})
    assert (tool.annotations, tool.read_only) == (None, True)


def test_a_long_description_is_cut() -> None:
    tool = read_tool({"name": "t", "inputSchema": {}, "description": "x" * 200_000})
    assert tool.description == "x" * 100_000


@each_case("row", [None, 7, {}, {"name": ""}, {"name": 1, "inputSchema": {}}])
def test_a_tool_without_a_name_is_left_out(row: Any) -> None:
    with pytest.raises(ValueError, match="it has no name"):
        read_tool(row)


@each_case(
    "schema",
    [
        {},
        {"$ref": "#/$defs/a", "$defs": {"a": {"type": "object"}}},
        {"type": ["object", "null"]},
        {"type": "object", "properties": {"ü": {"type": "string", "format": "x", "x-order": 1}}},
        {"type": "object", "properties": {"n": {"type": "number", "minimum": 0, "exclusiveMinimum": True}}},
        {"$schema": "http://json-schema.org/draft-07/schema#", "type": "object", "definitions": {"a": {}}},
    ],
)
def test_other_schemas_go_on_unchanged(schema: dict[str, Any]) -> None:
    tool = read_tool({"name": "t", "inputSchema": schema, "annotations": {"readOnlyHint": True}, "description": 5})
    assert msgspec.json.decode(tool.schema) == schema
    assert (tool.read_only, tool.description) == (True, None)


def test_a_keyword_that_is_null_says_nothing() -> None:
    tool = read_tool(
        {"name": "t", "inputSchema": {"type": "object", "properties": {"a": {"default": None}}, "required": None}}
    )
    assert msgspec.json.decode(tool.schema) == {"type": "object", "properties": {"a": {"default": None}}}
