"""Arguments that the demo model writes have the types that the function's schema asks for."""

import json
from typing import Any

import jsonschema
import pytest
from app.demo.arguments import fill_schema, find_details
from hypothesis import given
from hypothesis import strategies as st

from tests.each_case import each_case
from tests.effort import examples

Strategy = st.SearchStrategy[Any]

NAMES = st.sampled_from(["city", "query", "date", "language", "count", "expression", "a", "x y"])
QUESTIONS = (
    st.sampled_from(["", "weather in Paris and Tokyo", 'find "cats" in 3 of 12.5 days', "巴黎和东京的天气"]) | st.text()
)


@st.composite
def numbers(draw: st.DrawFn) -> dict[str, Any]:
    low = draw(st.integers(-50, 50))
    schema: dict[str, Any] = {"type": draw(st.sampled_from(["integer", "number"]))}
    schema |= draw(st.sampled_from([{}, {"minimum": low}, {"maximum": low}, {"minimum": low, "maximum": low + 9}]))
    return schema


PLAIN: Strategy = st.one_of(
    numbers(),
    st.sampled_from([{"type": "string"}, {"type": "string", "default": "x"}]),
    st.sampled_from([{}, True, {"type": "boolean"}, {"type": "null"}, {"type": ["null", "string"]}, {"default": 3}]),
    st.lists(st.sampled_from(["a", "b", "Paris", 1, True, None]), min_size=1).map(lambda values: {"enum": values}),
    st.sampled_from([{"const": "x"}, {"const": {"a": [1]}}, {"$ref": "#/$defs/text"}, {"$ref": "#/$defs/list"}]),
)


def nested(inner: Strategy) -> Strategy:
    properties = st.dictionaries(NAMES, inner, max_size=3)
    objects = properties.flatmap(
        lambda found: (
            st.lists(st.sampled_from(sorted(found)), unique=True).map(
                lambda required: {
                    "type": "object",
                    "properties": found,
                    "required": required,
                    "additionalProperties": False,
                }
            )
            if found
            else st.just({"type": "object"})
        )
    )
    arrays = inner.map(lambda items: {"type": "array", "items": items})
    unions = st.lists(inner, min_size=1, max_size=3).map(lambda options: {"anyOf": options})
    return objects | arrays | unions


PARAMETERS = st.dictionaries(NAMES, st.recursive(PLAIN, nested, max_leaves=6), max_size=4).flatmap(
    lambda found: st.lists(st.sampled_from([*found, "more"]), unique=True).map(
        lambda required: {
            "type": "object",
            "properties": found,
            "required": required,
            "$defs": {
                "text": {"type": "string"},
                "list": {"type": "array", "items": {"$ref": "#/$defs/text"}},
            },
        }
    )
)


@examples(40)
@given(PARAMETERS, QUESTIONS)
def test_filled_arguments_always_validate(schema: Any, question: str) -> None:
    value = json.loads(json.dumps(fill_schema(schema, find_details(question))))
    jsonschema.validate(value, schema, cls=jsonschema.Draft202012Validator)


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object", "properties": {"next": {"$ref": "#"}, "n": {"type": "integer"}}, "required": ["n"]},
        {"type": "string", "enum": ["a"], "default": "b"},
        {"type": "integer", "default": "seven", "examples": [None, 7]},
    ],
)  # fmt: skip
def test_less_common_schemas_are_filled_too(schema: Any) -> None:
    jsonschema.validate(fill_schema(schema, find_details("Hello Paris")), schema, cls=jsonschema.Draft202012Validator)


@each_case(
    "schema",
    [
        {"$ref": "#"},
        {"allOf": [{"$ref": "#"}]},
        {"anyOf": [{"$ref": "#"}] * 50},
        {"not": {"$ref": "#"}},
        {"type": "object", "properties": {"a": {"$ref": "#"}, "b": {"$ref": "#"}}, "required": ["a", "b"]},
        {"type": "array", "items": {"$ref": "#"}, "minItems": 90},
        {"type": "string", "minLength": 10**50},
        {"type": "string", "pattern": "(a+)+$"},
        {"type": "string", "pattern": "[[a{99999999999999}("},
        {"type": "string", "pattern": 3, "enum": 4, "required": 5, "minimum": "x"},
        {"type": "integer", "minimum": 1e59, "multipleOf": 1e-59},
        {"type": "object", "required": [3], "properties": []},
        {"type": "object", "required": "all", "properties": {"a": 3}},
        {"type": 3},
    ],
)
def test_a_contradictory_or_hostile_schema_gets_some_json_in_time(schema: Any) -> None:
    json.dumps(fill_schema(schema, find_details("a" * 1000)), allow_nan=False)


@each_case(
    ("name", "question", "value"),
    [
        ("expression", "Use the calculator: 12 * (3+4)", "12 * (3+4)"),
        ("expression", "What is (1.5 - 2) / 4?", "(1.5 - 2) / 4"),
        ("timezone", "What time is it in Europe/Paris now?", "Europe/Paris"),
        ("timezone", "What does the clock say?", "UTC"),
    ],
)
def test_the_demo_tools_get_their_arguments(name: str, question: str, value: str) -> None:
    schema = {"type": "object", "properties": {name: {"type": "string"}}, "required": [name]}
    assert fill_schema(schema, find_details(question)) == {name: value}
