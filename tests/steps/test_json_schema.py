"""JSON against a caller's schema: every draft, within bounds."""

from typing import Any

import pytest
from app.steps.json_schema import (
    MAX_VIOLATIONS,
    Stop,
    Unchecked,
    find_schema_mistake,
    is_prepared,
    prepare_schema,
    validate,
)

from tests.each_case import each_case

DRAFTS = {
    "draft-04": "http://json-schema.org/draft-04/schema#",
    "draft-06": "http://json-schema.org/draft-06/schema#",
    "draft-07": "http://json-schema.org/draft-07/schema#",
    "2019-09": "https://json-schema.org/draft/2019-09/schema",
    "2020-12": "https://json-schema.org/draft/2020-12/schema",
}

NAMES = [str(number) for number in range(900)]


def nest(name: str, depth: int, last: str) -> dict[str, Any]:
    """Objects in each other; the innermost has the last name."""
    inner: dict[str, Any] = {last: {}}
    for _ in range(depth - 1):
        inner = {name: inner}
    return inner


def double(keyword: str, depth: int, last: Any) -> dict[str, Any]:
    """A schema that applies another twice, and so on."""
    parts = {f"x{n}": {keyword: [{"$ref": f"#/$defs/x{n + 1}"}] * 2} for n in range(depth)}
    return {"$ref": "#/$defs/x0", "$defs": {**parts, f"x{depth}": last}}


@each_case(
    ("value", "schema", "problems"),
    [
        ({"a": 1}, {"properties": {"a": {"type": "string"}}}, ["$.a: 1 is not of type 'string'"]),
        (
            {"a": [{"b": 1}]},
            {"properties": {"a": {"items": {"required": ["c"]}}}},
            ["$.a[0]: 'c' is a required property"],
        ),
        ("aab", {"pattern": "^a+$"}, ["$: 'aab' does not match '^a+$'"]),
        ("xaay", {"pattern": "a+"}, []),
        ({"x1": 1}, {"patternProperties": {"^x": {"type": "string"}}}, ["$.x1: 1 is not of type 'string'"]),
        (
            {"x1": 1, "y": 2},
            {"patternProperties": {"^x": {}}, "additionalProperties": False},
            ["$: additional properties are not allowed: 'y'"],
        ),
        ({"y": 2}, {"additionalProperties": {"type": "string"}}, ["$.y: 2 is not of type 'string'"]),
        ([{"a": [1]}, {"a": [1.0]}], {"uniqueItems": True}, ["$: the items are not unique"]),
        ([1, True, "1", None, [1], {"1": 1}], {"uniqueItems": True}, []),
        ([[1], [True]], {"uniqueItems": True}, []),
        (1, True, []),
        (1, False, ["$: False schema does not allow 1"]),
        (
            {"a": {"a": 1}},
            {"properties": {"a": {"$ref": "#"}}, "type": "object"},
            ["$.a.a: 1 is not of type 'object'"],
        ),
        ("not a date", {"format": "date"}, []),
        (
            {"a": 1, "b": 2},
            {"properties": {"a": {}}, "unevaluatedProperties": False},
            ["$: unevaluated properties are not allowed: 'b'"],
        ),
        (
            {"x1": 1, "y": 2},
            {"allOf": [{"patternProperties": {"^x": {}}}], "unevaluatedProperties": {"type": "string"}},
            ["$.y: 2 is not of type 'string'"],
        ),
        (
            [1, "a", 2.5],
            {"prefixItems": [{}], "contains": {"type": "string"}, "unevaluatedItems": False},
            ["$: unevaluated items, at the indexes are not allowed: 2"],
        ),
        (1, {"anyOf": [{"type": "string"}, False]}, ["$: 1 is not valid under any of the given schemas"]),
        (1, {"oneOf": [{}, True, False]}, ["$: 1 is valid under more than one of the given schemas: 0, 1"]),
        (1, {"oneOf": [False]}, ["$: 1 is not valid under any of the given schemas"]),
        ([2**61 - 1, 2 * (2**61 - 1), 0], {"uniqueItems": True}, []),
        ([1e300, int(1e300)], {"uniqueItems": True}, ["$: the items are not unique"]),
    ],
)
def test_validate(value: Any, schema: Any, problems: list[str]) -> None:
    assert validate(value, schema, 1000) == problems


@pytest.mark.parametrize("draft", DRAFTS)
def test_the_draft_is_the_one_that_the_schema_names(draft: str) -> None:
    """In draft 4 `exclusiveMinimum` is a boolean, and there is no `const`."""
    schema = {"$schema": DRAFTS[draft], "minimum": 1, "const": 5}
    assert bool(validate(1, schema, 1000)) is (draft != "draft-04")
    if draft == "draft-04":
        assert validate(1, {**schema, "exclusiveMinimum": True}, 1000) != []
    else:
        with pytest.raises(Unchecked, match="the schema is not valid"):
            validate(1, {**schema, "exclusiveMinimum": True}, 1000)


@each_case(
    ("schema", "reason"),
    [
        ({"type": "strin"}, "the schema is not valid: $.type"),
        ({"$ref": "http://elsewhere.test/schema"}, "elsewhere.test"),
        ({"$ref": "file:///etc/passwd"}, "etc/passwd"),
        ({"$ref": "#/$defs/none"}, "does not exist"),
        ({"pattern": "(?=a)"}, "is not supported"),
        ({"pattern": "("}, "is not supported"),
        ({"anyOf": [{"$ref": "#"}, {"$ref": "#"}]}, "nested too deeply"),
        ({"title": "x" * 300_000}, "larger than"),
        (
            {"$defs": {f"a{n}": {"allOf": [{"$ref": f"#/$defs/a{n + 1}"}] * 2} for n in range(40)} | {"a40": {}}}
            | {"$ref": "#/$defs/a0"},
            "too much work",
        ),
    ],
)
def test_what_cannot_be_checked(schema: Any, reason: str) -> None:
    with pytest.raises(Unchecked) as raised:
        validate("x", schema, 2000)
    assert reason in str(raised.value)


def test_the_work_is_bounded_and_each_call_has_its_own() -> None:
    schema = {"type": "array", "items": {"type": "string"}}
    assert validate(["x"] * 100, schema, 500) == []
    assert validate(["x"] * 100, schema, 500) == []
    with pytest.raises(Unchecked, match="too much work"):
        validate(["x"] * 1000, schema, 500)


@each_case(
    ("schema", "value"),
    [
        ({"anyOf": [False] * 5000}, 1),
        ({"items": {f"unknown{n}": 1 for n in range(1000)}}, [1] * 200),
        ({"items": {"$ref": "#/$defs/" + "a/" * 40 + "b"}, "$defs": nest("a", 41, "b")}, [1] * 400),
        ({"items": {"multipleOf": 10**4000}}, [10**4000] * 300),
        ({"contains": {"minimum": 5000}, "unevaluatedItems": False}, list(range(5000))),
        (double("allOf", 20, {"properties": {"a": {}}, "unevaluatedProperties": False}), {"a": 1}),
        ({**double("allOf", 20, {}), "unevaluatedProperties": False}, {"a": 1}),
        ({**double("oneOf", 20, {}), "unevaluatedItems": False}, [1]),
        ({"items": {"dependentRequired": {"0": NAMES}}}, [dict.fromkeys(NAMES, 1)] * 250),
        ({"items": {"enum": [["x"] * 1000, ["x"] * 999]}}, [["x"] * 999] * 100),
        ({"items": {}}, list(range(20_000))),
        ({"additionalProperties": True, "patternProperties": {"^a": {}}}, {f"b{n}": 1 for n in range(6000)}),
        ({"pattern": r"(\w{10}y?){5}$"}, "a" * 100_000),
        ({"items": {"$ref": "#x"}, "$defs": {"x": {"$anchor": "x"}, "y": {"title": "x" * 100_000}}}, [1] * 100),
    ],
)
def test_work_that_no_keyword_below_does_counts_too(schema: Any, value: Any) -> None:
    with pytest.raises(Unchecked, match="too much work"):
        validate(value, schema, 5000)


def test_a_schema_of_its_own_within_the_schema_is_bounded_too() -> None:
    part = {"$schema": DRAFTS["2020-12"], "pattern": "^(a+)+$"}
    assert validate({"a": "a" * 60 + "!"}, {"properties": {"a": part}}, 1000) != []


@each_case(
    ("pattern", "fits"),
    [
        (r"^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$", True),
        (r"^\d{5}(-\d{4})?$", True),
        ("^.{1,1000}$", True),
        ("(?:(?:a{1000}){1000}){1000}", False),
        (r"(\w{30}){9}", False),
        ("a" * 2001, False),
        ("[" * 100, True),
    ],
)
def test_a_pattern_that_would_take_much_memory_is_not_compiled(pattern: str, fits: bool) -> None:
    with pytest.raises(Unchecked) as raised:
        validate("x", {"items": True, "pattern": pattern + "("}, 20_000)  # a mistake that only the compiler finds
    assert ("is not supported" if fits else "is too large") in str(raised.value)


@pytest.mark.parametrize("draft", ["2019-09", "2020-12"])
def test_mistakes_in_all_parts_of_a_schema_are_found(draft: str) -> None:
    for part in ({"type": "x"}, {"minimum": "1"}, {"required": "a"}, {"title": 1}, {"format": 1}, {"$id": 1}):
        with pytest.raises(Unchecked, match="the schema is not valid"):
            validate(1, {"$schema": DRAFTS[draft], "$defs": {"a": {"anyOf": [part]}}}, 1000)


def test_a_schema_of_a_hundred_fields_is_checked() -> None:
    fields = {f"f{n}": {"type": ["string", "null"], "description": "what it is"} for n in range(100)}
    schema = {"type": "object", "properties": fields, "required": list(fields), "additionalProperties": False}
    assert validate(dict.fromkeys(fields, "x"), schema, 5000) == []


def test_few_violations_are_told_and_each_is_short() -> None:
    found = validate(["x" * 10_000] * 50, {"items": {"type": "integer"}}, 1000)
    assert len(found) == MAX_VIOLATIONS and max(map(len, found)) < 400


@each_case(
    ("value", "schema", "text"),
    [
        ({"a": "y" * 5000}, {"required": ["b" * 5000]}, "$: 'bbb"),
        (["y" * 5000] * 9, {"type": "object"}, "$: ['yyy"),
        ([[1] * 500] * 9, {"type": "object"}, "$: […, …, …, … (9 in all)] is not of type 'object'"),
        ({f"n{n}": [n] for n in range(300)}, {"type": "array"}, "$: {'n0', 'n1', 'n2', … (300 in all)} is not of"),
        ({"k" * 5000: 1}, {"propertyNames": {"maxLength": 1}}, "$: 'kkk"),
        ({"k" * 5000: {"a": 1}}, {"additionalProperties": {"type": "array"}}, "$.kkk"),
    ],
)
def test_a_large_value_is_quoted_in_part(value: Any, schema: Any, text: str) -> None:
    (found,) = validate(value, schema, 5000)
    assert found.startswith(text) and len(found) < 700


def test_a_check_that_is_stopped_ends() -> None:
    stop = Stop()
    stop.wanted = True
    with pytest.raises(Unchecked, match="the check was stopped"):
        validate({"a": 1}, {"properties": {"a": {"type": "integer"}}}, 1000, stop)


@each_case(
    ("schema", "mistake"),
    [
        ({"type": "object", "minimum": 0, "exclusiveMinimum": True}, None),
        ({"$schema": DRAFTS["draft-07"], "definitions": {"a": {}}}, None),
        ({"type": "int"}, "$.type: 'int' is not valid under any of the given schemas"),
        ({"title": "\ud800"}, "the schema cannot be written as JSON"),
        ({"enum": [{"a": n} for n in range(20_000)]}, None),
        ({"anyOf": [{"anyOf": [{"anyOf": [{}] * 400}] * 10}] * 12}, "the check takes too much work"),
    ],
)
def test_a_mistake_in_a_schema_is_one_in_every_draft(schema: Any, mistake: str | None) -> None:
    found = find_schema_mistake(schema)
    assert (found is None) if mistake is None else (found is not None and found.startswith(mistake))


def test_a_pattern_that_python_would_match_for_years_is_matched_at_once() -> None:
    assert validate("a" * 10_000 + "!", {"pattern": "^(a+)+$"}, 1000) != []


def test_a_schema_is_read_once_whether_it_can_be_checked_or_not() -> None:
    for schema in ({"title": "prepared"}, {"type": "prepared"}, {"$ref": "#/prepared"}):
        assert not is_prepared(schema)
        prepare_schema(schema)
        assert is_prepared(schema)
    with pytest.raises(Unchecked, match="the schema is not valid"):
        validate(1, {"type": "prepared"}, 1000)


def test_schemas_that_are_used_are_kept() -> None:
    kept = {"title": "kept"}
    for number in range(200):
        prepare_schema(kept)
        prepare_schema({"title": f"other {number}"})
    assert is_prepared(kept)
    assert not is_prepared({"title": "other 1"})


@pytest.mark.parametrize("schema", [{"title": "x" * 300_000}, {"title": "\ud800"}])
def test_a_schema_that_is_never_checked_needs_no_preparation(schema: Any) -> None:
    assert is_prepared(schema)
    prepare_schema(schema)
