"""A schema of OpenAPI becomes a JSON schema, and one of these stays as it is."""

from typing import Any

from app.formats.gemini.json_schema import read_schema

from tests.each_case import each_case

JSON_SCHEMA = {"type": ["string", "null"], "$defs": {"A": {"type": "object"}}, "additionalProperties": False}
CASES: list[tuple[Any, Any]] = [
    ({"type": "STRING"}, {"type": "string"}),
    ({"type": "Integer"}, {"type": "integer"}),
    ({"type": 5, "items": {"type": 1}}, {"type": "array", "items": {"type": "string"}}),
    ({"type": ["STRING", "NULL"]}, {"type": ["string", "null"]}),
    ({"type": "odd"}, {"type": "odd"}),
    ({"type": True}, {"type": True}),
    ({"type": "TYPE_UNSPECIFIED"}, {}),
    ({"type": "STRING", "nullable": True}, {"type": ["string", "null"]}),
    ({"type": "NULL", "nullable": True}, {"type": "null"}),
    ({"anyOf": [{"type": "STRING"}], "nullable": True}, {"anyOf": [{"type": "string"}, {"type": "null"}]}),
    ({"type": "STRING", "enum": ["a"], "nullable": True}, {"type": ["string", "null"], "enum": ["a", None]}),
    ({"type": "STRING", "nullable": False}, {"type": "string"}),
    (
        {"min_items": "1", "maximum": "1.5", "minimum": "x", "maxLength": 3},
        {"minItems": 1, "maximum": 1.5, "minimum": "x", "maxLength": 3},
    ),
    ({"maximum": "inf"}, {"maximum": "inf"}),
    (
        {"properties": {"b": {"type": "STRING"}, "a": {}}, "propertyOrdering": ["a", "z"]},
        {"properties": {"a": {}, "b": {"type": "string"}}},
    ),
    ({"format": "int32", "example": 3}, {}),
    ({"format": "date-time", "description": None}, {"format": "date-time"}),
    ({"any_of": [{"type": "NUMBER"}], "prefixItems": 3}, {"anyOf": [{"type": "number"}], "prefixItems": 3}),
    (
        {"items": [{"type": "NUMBER"}], "additional_properties": {"type": "STRING"}},
        {"items": [{"type": "number"}], "additionalProperties": {"type": "string"}},
    ),
    ({"properties": {"any_of": {"type": "STRING"}}}, {"properties": {"any_of": {"type": "string"}}}),
    (JSON_SCHEMA, JSON_SCHEMA),
    (True, True),
]


@each_case(("given", "read"), CASES)
def test_a_schema_is_read(given: Any, read: Any) -> None:
    assert read_schema(given) == read


def test_the_order_of_properties_is_that_of_the_caller() -> None:
    given = {"properties": {"b": {}, "a": {}}, "property_ordering": ["a", "b"]}
    assert [*read_schema(given)["properties"]] == ["a", "b"]
