"""The parameters of a function as servers demand them."""

from typing import Any

from app.chat.messages import Tool
from app.openai_messages.tool_schemas import (
    complete_function,
    find_definition,
    has_alternatives,
    map_schemas,
    merge_alternatives,
)

from tests.each_case import each_case

NOTHING = {"type": "object", "properties": {}}
CITY = {"type": "string", "description": "where"}


@each_case(
    ("parameters", "want"),
    [
        ({}, NOTHING),
        (None, NOTHING),
        ([], NOTHING),
        ({"type": None}, NOTHING),
        ({"type": "object"}, NOTHING),
        ({"type": "object", "properties": None}, NOTHING),
        ({"type": ["object", "null"]}, NOTHING),
        ({"properties": {"a": CITY}}, {"type": "object", "properties": {"a": CITY}}),
        ({"$ref": "#/$defs/A", "$defs": {"A": {}}}, {"$ref": "#/$defs/A", "$defs": {"A": {}}, **NOTHING}),
        ({"anyOf": [{"required": ["a"]}]}, {"anyOf": [{"required": ["a"]}], **NOTHING}),
        ({"type": "object", "properties": {"a": {}}, "x": 1}, {"type": "object", "properties": {"a": {}}, "x": 1}),
        ({"type": "string"}, NOTHING),
        ({"type": "array", "items": {"type": "string"}}, NOTHING),
        ({"type": "string", "properties": {"a": CITY}}, {"type": "object", "properties": {"a": CITY}}),
    ],
)
def test_parameters_become_an_object_with_properties(parameters: Any, want: Any) -> None:
    function = {"name": "f", "description": "d", "parameters": parameters}
    assert complete_function(function) == {**function, "parameters": want}


def test_a_function_without_parameters_has_none() -> None:
    assert complete_function({"name": "f"}) == {"name": "f", "parameters": NOTHING}


@each_case(
    ("items", "properties", "required"),
    [
        ([{"name": "city", **CITY, "required": True}], {"city": CITY}, ["city"]),
        (
            [{"name": "city", **CITY, "required": False}, {"name": "n", "type": "int"}],
            {"city": CITY, "n": {"type": "integer"}},
            None,
        ),
        ([{"name": "x", "type": "list", "items": CITY}], {"x": {"type": "array", "items": CITY}}, None),
        (
            [{"name": "o", "type": "dict", "properties": {"a": CITY}, "required": ["a"]}],
            {"o": {"type": "object", "properties": {"a": CITY}, "required": ["a"]}},
            None,
        ),
        ([{"name": "e", "enum": ["a"], "required": True}], {"e": {"enum": ["a"]}}, ["e"]),
        ([{"name": "u", "type": ["string", "null"]}], {"u": {"type": ["string", "null"]}}, None),
    ],
)
def test_qwen_agents_list_becomes_a_schema(items: Any, properties: Any, required: Any) -> None:
    want = {"type": "object", "properties": properties} | ({"required": required} if required else {})
    assert complete_function({"name": "f", "parameters": items})["parameters"] == want


A, B = {"type": "string", "const": "a"}, {"type": "string", "const": "b"}


@each_case(
    ("schema", "merged"),
    [
        (
            {"anyOf": [{"required": ["route"]}, {"required": ["file"]}], "properties": {"route": {}, "file": {}}},
            {"properties": {"route": {}, "file": {}}, "type": "object"},
        ),
        (
            {
                "$schema": "x",
                "oneOf": [
                    {"properties": {"do": A, "x": {}}, "required": ["do", "x"]},
                    {"properties": {"do": B, "y": {}}, "required": ["y", "do"]},
                    {"properties": {"do": A}, "required": ["do", 5]},
                ],
            },
            {
                "$schema": "x",
                "type": "object",
                "properties": {"do": {"anyOf": [A, B]}, "x": {}, "y": {}},
                "required": ["do"],
            },
        ),
        (
            {"allOf": [{"properties": {"a": A}, "required": ["a"]}, {"required": ["b"]}], "required": ["b", "c"]},
            {"type": "object", "properties": {"a": A}, "required": ["b", "c", "a"]},
        ),
        (
            {
                "anyOf": [{"$ref": "#/$defs/A"}, {"$ref": "#/$defs/B/no"}, 5],
                "$defs": {"A": {"properties": {"a": A}}, "B": 5},
            },
            {"$defs": {"A": {"properties": {"a": A}}, "B": 5}, "type": "object", "properties": {"a": A}},
        ),
        (
            {
                "anyOf": [{"$ref": "#"}, {"$ref": "#/$defs/S"}],
                "$defs": {"S": {"anyOf": [{"$ref": "#/$defs/S"}], "properties": {"s": A}}},
            },
            {
                "$defs": {"S": {"anyOf": [{"$ref": "#/$defs/S"}], "properties": {"s": A}}},
                "type": "object",
                "properties": {"s": A},
            },
        ),
        ({"anyOf": []}, {"type": "object", "properties": {}}),
    ],
)
def test_alternatives_become_one_object_with_the_properties_of_all(schema: Any, merged: Any) -> None:
    assert has_alternatives(schema)
    assert merge_alternatives(schema) == merged


@each_case("schema", [None, {}, {"type": "object", "properties": {"a": {"anyOf": []}}}, {"anyOf": 5}])
def test_other_schemas_have_no_alternatives(schema: Any) -> None:
    assert not has_alternatives(schema)


def test_nulls_say_nothing() -> None:
    inner = {"type": "string", "default": None, "enum": ["a", None], "const": None, "description": None, "format": None}
    parameters = {"type": "object", "properties": {"required": inner, "b": {"enum": None}}, "required": None}
    function = {"name": "f", "description": None, "strict": None, "parameters": parameters}
    kept = {"type": "string", "default": None, "enum": ["a", None], "const": None}
    want = {"type": "object", "properties": {"required": kept, "b": {}}}
    assert complete_function(function) == {"name": "f", "parameters": want}
    listed = {"name": "f", "parameters": {"type": "object", "properties": {}, "anyOf": [{"required": None}]}}
    assert complete_function(listed)["parameters"]["anyOf"] == [{}]
    assert complete_function({"name": "f", "parameters": None})["parameters"] == {"type": "object", "properties": {}}
    said = {"name": "f", "description": "null", "parameters": {"type": "object", "properties": {}}}
    assert complete_function(said) == said


def test_nulls_are_found_in_json_that_is_known() -> None:
    function = {"name": "f", "strict": None, "parameters": {"type": "object", "properties": {}}}
    assert complete_function(function, Tool("f", function).encoded) == complete_function(function)
    assert complete_function(function, b"{}") == function


def test_schemas_are_changed_from_within() -> None:
    def mark(schema: Any) -> Any:
        return {**schema, "seen": sorted(schema)}

    given = {"properties": {"type": {"items": {"a": 1}}}, "anyOf": [{}, 5], "default": {"a": 1}}
    seen = ["anyOf", "default", "properties"]
    assert map_schemas(given, mark) == {
        "properties": {"type": {"items": {"a": 1, "seen": ["a"]}, "seen": ["items"]}},
        "anyOf": [{"seen": []}, 5],
        "default": {"a": 1},
        "seen": seen,
    }
    assert map_schemas(True, mark) is True


@each_case(
    ("reference", "found"),
    [
        ("#/$defs/a~1b", {"x": 1}),
        ("#/$defs/n~0", {"y": 1}),
        ("#/$defs/none", None),
        ("#/$defs/list/0", None),
        ("other.json#/$defs/n~0", None),
        ("", None),
    ],
)
def test_a_reference_within_a_document_is_found(reference: str, found: Any) -> None:
    root = {"$defs": {"a/b": {"x": 1}, "n~": {"y": 1}, "list": [{}]}}
    assert find_definition(root, reference) == found
    assert find_definition(root, "#") == root
