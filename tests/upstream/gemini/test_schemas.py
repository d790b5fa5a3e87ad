"""JSON schemas in the form of OpenAPI that older models of the Gemini API take."""

from typing import Any

from app.upstream.gemini.schemas import write_openapi

from tests.each_case import each_case

Json = dict[str, Any]
NAMED = {"type": "object", "properties": {"a": {"$ref": "#/$defs/A"}}}
ANY: Json = {
    "anyOf": [
        *({"type": name} for name in ("STRING", "NUMBER", "BOOLEAN", "OBJECT")),
        {"type": "ARRAY", "items": {"type": "STRING"}},
    ]
}
TREE = {"type": "object", "properties": {"next": {"$ref": "#"}}}


@each_case(
    ("given", "written"),
    [
        ({"type": ["string", "null"]}, {"type": "STRING", "nullable": True}),
        (
            {"type": ["string", "integer"]},
            {"anyOf": [{"type": "STRING"}, {"type": "INTEGER"}]},
        ),
        ({"anyOf": [{"type": "null"}, {"type": "integer"}]}, {"type": "INTEGER", "nullable": True}),
        ({"type": "STRING", "nullable": True}, {"type": "STRING", "nullable": True}),
        (
            {"oneOf": [{"const": 1}, {"enum": ["a", None]}], "description": "d"},
            {
                "anyOf": [
                    {"description": "d", "type": "INTEGER"},
                    {"description": "d", "type": "STRING", "enum": ["a"], "nullable": True},
                ],
            },
        ),
        ({"enum": [1, 2]}, {"type": "INTEGER"}),
        ({"type": "string", "enum": ["a", 1]}, {"type": "STRING"}),
        (
            {"type": "integer", "exclusiveMinimum": 1, "exclusiveMaximum": 9},
            {"type": "INTEGER", "minimum": 2, "maximum": 8},
        ),
        ({"type": "number", "exclusiveMinimum": 1, "multipleOf": 2}, {"type": "NUMBER"}),
        ({"type": "array", "items": True}, {"type": "ARRAY", "items": ANY}),
        ({"type": "array", "items": {}}, {"type": "ARRAY", "items": {"type": "STRING"}}),
        ({"items": {"type": "integer"}, "minItems": 1}, {"type": "ARRAY", "minItems": 1, "items": {"type": "INTEGER"}}),
        ({"properties": {"a": True}}, {"type": "OBJECT", "properties": {"a": ANY}}),
        (
            {"type": "object", "properties": {"a": {}}, "required": ["a", "b"]},
            {"type": "OBJECT", "properties": {"a": ANY}, "required": ["a"]},
        ),
        ({"type": "object", "required": ["b"]}, {"type": "OBJECT"}),
        ({"type": "object", "required": "b"}, {"type": "OBJECT"}),
        (
            {**NAMED, "$defs": {"A": {"type": "string", "description": "old"}}},
            {"type": "OBJECT", "properties": {"a": {"type": "STRING", "description": "old"}}},
        ),
        (NAMED, {"type": "OBJECT", "properties": {"a": {"type": "OBJECT"}}}),
        ({"$ref": "other.json#/a"}, {"type": "OBJECT"}),
        (
            TREE,
            {"type": "OBJECT", "properties": {"next": {"type": "OBJECT", "properties": {"next": {"type": "OBJECT"}}}}},
        ),
        (
            {
                "allOf": [
                    {"$ref": "#/$defs/A"},
                    {"properties": {"b": {"type": "integer"}}, "required": ["b"]},
                    True,
                ],
                "$defs": {"A": {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}},
            },
            {
                "type": "OBJECT",
                "required": ["a", "b"],
                "properties": {"a": {"type": "STRING"}, "b": {"type": "INTEGER"}},
            },
        ),
        ({"type": "string", "format": "uri"}, {"type": "STRING"}),
        ({"type": "string", "format": "date-time"}, {"type": "STRING", "format": "date-time"}),
    ],
)
def test_a_schema_says_what_openapi_can_say(given: Json, written: Json) -> None:
    assert write_openapi(given) == written


def test_a_schema_of_any_depth_ends() -> None:
    schema: Json = {"type": "string"}
    for _ in range(500):
        schema = {"type": "object", "properties": {"a": schema}}
    depth, inner = 0, write_openapi(schema)
    while "properties" in inner:
        depth, inner = depth + 1, inner["properties"]["a"]
    assert depth == 64 and inner == {"type": "OBJECT"}


def test_definitions_that_double_each_other_end() -> None:
    names = {f"d{number}": {"anyOf": [{"$ref": f"#/$defs/d{number + 1}"}] * 2} for number in range(40)}
    written = write_openapi({"$ref": "#/$defs/d0", "$defs": {**names, "d40": {"type": "string"}}})
    assert len(str(written)) < 2_000_000
