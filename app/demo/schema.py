"""Checks a value against the part of JSON Schema that function parameters use."""

import math
import re
from collections.abc import Mapping
from typing import Any

from app.demo.pattern import compiled

Schema = Mapping[str, Any]

MAX_DEPTH = 12
_MAX_CHOICES = 3  # choices in choices: a schema that refers to itself must not cost exponential time
_MAX_OPTIONS = 20
_CHOICE_COST = MAX_DEPTH // _MAX_CHOICES
_KINDS: Mapping[str, tuple[type, ...]] = {
    "string": (str,),
    "boolean": (bool,),
    "null": (type(None),),
    "array": (list,),
    "object": (dict,),
    "number": (int, float),
    "integer": (int, float),
}


def resolve(schema: Any, root: Schema, depth: int = 0) -> Schema:
    """Follows local `$ref`s and merges `allOf`; what cannot be followed allows everything."""
    if not isinstance(schema, Mapping):
        return {} if schema is not False else {"not": {}}
    for _ in range(MAX_DEPTH):
        if not isinstance(schema.get("$ref"), str):
            break
        rest = {key: value for key, value in schema.items() if key != "$ref"}
        schema = merge(_pointed(schema["$ref"], root), rest)
    parts = schema.get("allOf")
    if isinstance(parts, list) and depth < _MAX_CHOICES:
        schema = {key: value for key, value in schema.items() if key != "allOf"}
        for part in parts[:_MAX_OPTIONS]:
            schema = merge(schema, resolve(part, root, depth + 1))
    return dict(schema)


def _pointed(ref: str, root: Schema) -> Schema:
    found: Any = root
    for step in ref.removeprefix("#").split("/")[1:]:
        key = step.replace("~1", "/").replace("~0", "~")
        found = found.get(key) if isinstance(found, Mapping) else None
    return found if isinstance(found, Mapping) and ref.startswith("#") else {}


def merge(base: Schema, more: Schema) -> dict[str, Any]:
    merged = {**base, **more}
    if isinstance(base.get("properties"), Mapping) and isinstance(more.get("properties"), Mapping):
        merged["properties"] = {**base["properties"], **more["properties"]}
    if isinstance(base.get("required"), list) and isinstance(more.get("required"), list):
        merged["required"] = [*base["required"], *(key for key in more["required"] if key not in base["required"])]
    return merged


def same(left: Any, right: Any) -> bool:
    """Equality as JSON has it: true is not 1."""
    if isinstance(left, bool) is not isinstance(right, bool):
        return False
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(same(a, b) for a, b in zip(left, right, strict=True))
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(same(left[key], right[key]) for key in left)
    return bool(left == right)


def fits(value: Any, schema: Any, root: Schema, depth: int = 0) -> bool:
    if depth > MAX_DEPTH:
        return True
    if schema is False:
        return False
    found = resolve(schema, root)
    return (
        _fits_kind(value, found)
        and _fits_choice(value, found, root, depth)
        and _fits_text(value, found)
        and _fits_number(value, found)
        and _fits_array(value, found, root, depth)
        and _fits_object(value, found, root, depth)
    )


def kinds(schema: Schema) -> list[str]:
    kind = schema.get("type")
    named = kind if isinstance(kind, list) else [kind]
    return [each for each in named if isinstance(each, str) and each in _KINDS]


def is_kind(value: Any, kind: str) -> bool:
    if isinstance(value, bool):
        return kind == "boolean"
    if kind == "integer" and isinstance(value, float):
        return value.is_integer()
    return isinstance(value, _KINDS[kind])


def _fits_kind(value: Any, schema: Schema) -> bool:
    wanted = kinds(schema)
    return not wanted or any(is_kind(value, kind) for kind in wanted)


def _fits_choice(value: Any, schema: Schema, root: Schema, depth: int) -> bool:
    if "const" in schema and not same(value, schema["const"]):
        return False
    if isinstance(schema.get("enum"), list) and not any(same(value, each) for each in schema["enum"]):
        return False
    deeper = depth + _CHOICE_COST
    if "not" in schema and deeper <= MAX_DEPTH and fits(value, schema["not"], root, deeper):
        return False
    any_of, one_of = schema.get("anyOf"), schema.get("oneOf")
    if isinstance(any_of, list) and not any(fits(value, each, root, deeper) for each in any_of[:_MAX_OPTIONS]):
        return False
    return not isinstance(one_of, list) or sum(fits(value, each, root, deeper) for each in one_of[:_MAX_OPTIONS]) == 1


def _fits_text(value: Any, schema: Schema) -> bool:
    if not isinstance(value, str):
        return True
    if not bound(schema, "minLength", 0) <= len(value) <= bound(schema, "maxLength", math.inf):
        return False
    pattern = schema.get("pattern")
    return not isinstance(pattern, str) or matches(pattern, value)


_COSTLY = re.compile(r"\)[*+?{]|\\\d|\(\?")
_REPEATS = re.compile(r"[*+?]|\{\d*,")


def matches(pattern: str, value: str) -> bool:
    """Whether it matches for sure: a pattern that could take long to try is taken not to."""
    if len(pattern) > 100 or len(value) > 100 or _COSTLY.search(pattern) or len(_REPEATS.findall(pattern)) > 2:
        return False
    wanted = compiled(pattern)
    return wanted is not None and wanted.search(value) is not None


def bound(schema: Schema, key: str, default: float) -> float:
    value = schema.get(key)
    return value if isinstance(value, int | float) and not isinstance(value, bool) else default


def _fits_number(value: Any, schema: Schema) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return True
    step = bound(schema, "multipleOf", 0)
    return (
        bound(schema, "minimum", -math.inf) <= value <= bound(schema, "maximum", math.inf)
        and bound(schema, "exclusiveMinimum", -math.inf) < value < bound(schema, "exclusiveMaximum", math.inf)
        and (step <= 0 or math.isclose(value / step, round(value / step), rel_tol=0, abs_tol=1e-9))
    )


def _fits_array(value: Any, schema: Schema, root: Schema, depth: int) -> bool:
    if not isinstance(value, list):
        return True
    if not bound(schema, "minItems", 0) <= len(value) <= bound(schema, "maxItems", math.inf):
        return False
    if schema.get("uniqueItems") is True and any(same(a, b) for at, a in enumerate(value) for b in value[:at]):
        return False
    first = schema.get("prefixItems")
    heads = first if isinstance(first, list) else []
    items = [heads[at] if at < len(heads) else schema.get("items", {}) for at in range(len(value))]
    return all(fits(each, wanted, root, depth + 1) for each, wanted in zip(value, items, strict=True))


def _fits_object(value: Any, schema: Schema, root: Schema, depth: int) -> bool:
    if not isinstance(value, dict):
        return True
    known = schema.get("properties")
    properties: Mapping[str, Any] = known if isinstance(known, Mapping) else {}
    required = schema.get("required")
    if isinstance(required, list) and not all(key in value for key in required if isinstance(key, str)):
        return False
    if not bound(schema, "minProperties", 0) <= len(value) <= bound(schema, "maxProperties", math.inf):
        return False
    other = schema.get("additionalProperties", True)
    return all(fits(each, properties.get(key, other), root, depth + 1) for key, each in value.items())
