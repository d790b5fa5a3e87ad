"""The keywords of JSON Schema that the gateway checks itself, in whole schemas."""

from typing import Any

import pytest
from app.steps.json_schema import Unchecked, validate

from tests.each_case import each_case

D2019 = "https://json-schema.org/draft/2019-09/schema"
D7 = "http://json-schema.org/draft-07/schema#"
IF = {"if": {"required": ["a"]}, "then": {"properties": {"b": {}}}, "else": {"properties": {"c": {}}}}
CLOSED, CLOSED_ITEMS = {"unevaluatedProperties": False}, {"unevaluatedItems": False}
TREE = {"$recursiveAnchor": True, "properties": {"a": {"$recursiveRef": "#"}}, "type": "object"}
NAMES = [str(number) for number in range(900)]
LIST: list[Any] = [1, "a"]


def is_valid(value: Any, schema: Any) -> bool:
    return validate(value, schema, 10_000) == []


@each_case("keyword", ["unevaluatedProperties", "unevaluatedItems", "patternProperties", "additionalProperties"])
def test_a_keyword_of_objects_or_arrays_takes_every_other_value(keyword: str) -> None:
    assert is_valid(1, {keyword: {"a": False} if keyword == "patternProperties" else False})


def test_a_pattern_takes_every_value_that_is_no_text() -> None:
    assert is_valid(1, {"pattern": "a"})
    assert not is_valid("b", {"pattern": "a"})


@each_case("pattern", ["(?=a)", "(", "a" * 2001, r"(\w{30}){9}"])
def test_a_pattern_that_is_not_supported_or_too_large_is_told(pattern: str) -> None:
    with pytest.raises(Unchecked, match="the pattern"):
        validate("a", {"pattern": pattern}, 10_000)


@each_case("pattern", ["^[a]{1,2}[.]?$", r"^(\w)+\.?$", "^a$", "^(?:a|b)$"])
def test_a_pattern_is_matched(pattern: str) -> None:
    assert is_valid("a", {"pattern": pattern})
    assert not is_valid("-", {"pattern": pattern})


@each_case(
    ("schema", "allowed", "refused"),
    [
        (True, {}, {"a": 1}),
        ({**IF, "required": []}, None, {"a": 1}),
        ({"additionalProperties": True}, {"z": 1}, None),
        ({"unevaluatedProperties": True}, {"z": 1}, None),
        ({"properties": {"a": {}}}, {"a": 1}, {"z": 1}),
        ({"patternProperties": {"^x": {}}}, {"x1": 1}, {"z": 1}),
        ({"properties": {"a": {}, "b": {}}, **IF}, {"a": 1, "b": 1}, {"a": 1, "c": 1}),
        (IF, {"c": 1}, {"b": 1}),
        ({"if": True}, {}, {"z": 1}),
        ({"if": {"properties": {"a": {}}}}, {"a": 1}, {"z": 1}),
        ({"if": False}, {}, {"z": 1}),
        ({"anyOf": [{"properties": {"a": {}}}, {"required": ["z"]}]}, {"a": 1}, {"b": 1}),
        ({"oneOf": [{"properties": {"a": {}}, "required": ["a"]}, {"required": ["z"]}]}, {"a": 1}, {"z": 1}),
        ({"dependentSchemas": {"a": {"properties": {"a": {}, "b": {}}}}}, {"a": 1, "b": 1}, {"b": 1}),
        ({"$ref": "#/$defs/a"}, {"a": 1}, {"b": 1}),
        ({"$dynamicRef": "#/$defs/a"}, {"a": 1}, {"b": 1}),
    ],
)
def test_a_property_that_no_keyword_has_looked_at_is_refused(schema: Any, allowed: Any, refused: Any) -> None:
    whole = {"allOf": [schema], **CLOSED, "$defs": {"a": {"properties": {"a": {}}}}}
    assert allowed is None or is_valid(allowed, whole)
    assert refused is None or not is_valid(refused, whole)


@each_case(
    ("schema", "allowed", "refused"),
    [
        ({"prefixItems": [{}, {}]}, LIST, [1, 2, 3]),
        ({"items": {}}, LIST, None),
        ({"unevaluatedItems": True}, LIST, None),
        ({"contains": {"type": "string"}}, ["a"], LIST),
        ({"prefixItems": [{}]}, [1], LIST),
        (True, [], LIST),
    ],
)
def test_an_item_that_no_keyword_has_looked_at_is_refused(schema: Any, allowed: Any, refused: Any) -> None:
    whole = {"allOf": [schema], **CLOSED_ITEMS}
    assert is_valid(allowed, whole)
    assert refused is None or not is_valid(refused, whole)


@each_case(
    ("schema", "refused"),
    [({"items": [{}]}, True), ({"items": [{}], "additionalItems": {}}, False), ({"items": {}}, False), ({}, True)],
)
def test_items_may_be_a_list_in_older_drafts(schema: Any, refused: bool) -> None:
    assert is_valid(LIST, {"$schema": D2019, **schema, **CLOSED_ITEMS}) is not refused


def test_a_recursive_reference_is_followed() -> None:
    schema = {"$schema": D2019, **TREE, **CLOSED}
    assert is_valid({"a": {"a": {}}}, schema)
    assert not is_valid({"a": {"z": {}}}, schema)
    inner = {"$schema": D2019, "properties": {"a": {"$recursiveRef": "#", **CLOSED}, "b": {}}}
    assert is_valid({"a": {"b": 1}}, inner)
    assert not is_valid({"a": {"z": 1}}, inner)


@each_case(
    ("value", "wanted", "valid"),
    [
        ([1, 1.0], True, False),
        ([1, True], True, True),
        ([[1], [1.0]], True, False),
        ([{"a": 1}, {"a": 2}], True, True),
        ([1, 1], False, True),
        ("aa", True, True),
        ([1.5, 1.5], True, False),
    ],
)
def test_items_are_unique_if_no_two_are_equal_json(value: Any, wanted: bool, valid: bool) -> None:
    assert is_valid(value, {"uniqueItems": wanted}) is valid


@each_case(
    ("schema", "problems"),
    [
        ({"anyOf": [False, {"type": "integer"}]}, []),
        ({"anyOf": [False]}, ["$: 1 is not valid under any of the given schemas"]),
        ({"oneOf": [False, True]}, []),
        ({"oneOf": [False]}, ["$: 1 is not valid under any of the given schemas"]),
        ({"oneOf": [True, False, {}]}, ["$: 1 is valid under more than one of the given schemas: 0, 2"]),
    ],
)
def test_alternatives_make_one_violation(schema: Any, problems: list[str]) -> None:
    assert validate(1, schema, 1000) == problems


def test_few_names_are_told_of_many_that_are_not_allowed() -> None:
    (problem,) = validate({f"n{n}": 1 for n in range(20)}, {"additionalProperties": False}, 1000)
    assert "'n9'" in problem and "'n10'" not in problem
    assert validate({"x": 1, "y": "b"}, {"additionalProperties": {"type": "string"}}, 1000) == [
        "$.x: 1 is not of type 'string'"
    ]


def test_patterns_of_names_choose_the_schema_of_a_member() -> None:
    schema = {"patternProperties": {"^x": {"type": "string"}}, "additionalProperties": False}
    assert is_valid({"x": "a"}, schema)
    assert not is_valid({"x": 1}, schema)
    assert not is_valid({"y": "a"}, schema)


@each_case(
    ("schema", "value"),
    [
        ({"items": {"enum": [["x"] * 1000, ["x"] * 999]}}, [["x"] * 999] * 100),
        ({"items": {"multipleOf": 10**4000}}, [10**4000] * 300),
        ({"items": {"dependentRequired": {"0": NAMES}}}, [dict.fromkeys(NAMES, 1)] * 250),
        ({"items": {"$ref": "#x"}, "$defs": {"x": {"$anchor": "x"}, "y": {"title": "x" * 100_000}}}, [1] * 100),
    ],
)
def test_a_keyword_that_compares_or_searches_much_is_much_work(schema: Any, value: Any) -> None:
    with pytest.raises(Unchecked, match="too much work"):
        validate(value, schema, 5000)


def test_what_compares_texts_or_counts_dependencies_is_little_work() -> None:
    schema = {"$schema": D7, "dependencies": {"a": ["b"], "c": {}}, "properties": {"a": {"enum": ["x"]}}}
    assert is_valid({"a": "x", "b": 1}, schema)
    assert is_valid("text", {"multipleOf": 2})
