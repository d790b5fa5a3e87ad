"""Google's schemas, a part of OpenAPI 3.0, as JSON schemas.

https://ai.google.dev/api/caching#Schema. Half of the recorded schemas in its place are JSON schemas already, so that
nothing is changed which is one. Also `upstream` needs its words.
"""

from collections.abc import Mapping
from typing import Any

_TYPES = ("string", "number", "integer", "boolean", "array", "object", "null")
_TYPE_NUMBERS: Mapping[str, str] = dict(zip("123456", _TYPES, strict=False))
"""The numbers of the types in the API's protocol buffers, from STRING to OBJECT. NULL is 7."""
TYPE_WORDS: Mapping[str, str] = {**{name.upper(): name for name in _TYPES}, **_TYPE_NUMBERS, "7": "null"}
_SNAKE: Mapping[Any, Any] = {
    "any_of": "anyOf",
    "min_items": "minItems",
    "max_items": "maxItems",
    "min_length": "minLength",
    "max_length": "maxLength",
    "min_properties": "minProperties",
    "max_properties": "maxProperties",
    "property_ordering": "propertyOrdering",
    "additional_properties": "additionalProperties",
}
_COUNTS = frozenset(("minItems", "maxItems", "minLength", "maxLength", "minProperties", "maxProperties"))
_NUMBERS = _COUNTS | {"minimum", "maximum"}
_LISTS = frozenset(("anyOf", "oneOf", "allOf", "prefixItems"))
_MAPS = frozenset(("properties", "$defs", "defs", "definitions"))
_DROPPED = frozenset(("nullable", "propertyOrdering", "example"))
_NUMBER_FORMATS = frozenset(("int32", "int64", "float", "double"))
_UNSPECIFIED = "TYPE_UNSPECIFIED"


def read_schema(value: Any) -> Any:
    """Return a schema as a JSON schema."""
    if not isinstance(value, dict):
        return value
    given = {_SNAKE.get(key, key): inner for key, inner in value.items() if inner is not None}
    out = {
        key: _read_field(key, inner)
        for key, inner in given.items()
        if key not in _DROPPED and not (key == "format" and inner in _NUMBER_FORMATS)
        if not (key == "type" and inner == _UNSPECIFIED)
    }
    ordering = given.get("propertyOrdering")
    if isinstance(out.get("properties"), dict) and isinstance(ordering, list):
        out["properties"] = _order(out["properties"], ordering)
    return _allow_null(out) if given.get("nullable") is True else out


def _read_field(key: str, value: Any) -> Any:
    if key == "type":
        return _read_type(value)
    if key in _NUMBERS:
        return _read_number(value)
    if key in _LISTS and isinstance(value, list):
        return [read_schema(item) for item in value]
    if key in _MAPS and isinstance(value, dict):
        return {name: read_schema(item) for name, item in value.items()}
    if key in ("items", "additionalProperties"):
        return [read_schema(item) for item in value] if isinstance(value, list) else read_schema(value)
    return value


def _read_type(value: Any) -> Any:
    if isinstance(value, list):
        return [_read_type(item) for item in value]
    if isinstance(value, bool) or not isinstance(value, str | int):
        return value
    return TYPE_WORDS.get(str(value).upper(), value)


def _read_number(value: Any) -> Any:
    """Return the number that a string holds: the API writes 64 bits so."""
    if not isinstance(value, str):
        return value
    try:
        return int(value)
    except ValueError:
        pass
    try:
        number = float(value)
    except ValueError:
        return value
    return number if abs(number) < float("inf") else value


def _order(properties: dict[str, Any], ordering: list[Any]) -> dict[str, Any]:
    first = {name: properties[name] for name in ordering if isinstance(name, str) and name in properties}
    return {**first, **properties}


def _allow_null(schema: dict[str, Any]) -> dict[str, Any]:
    kind = schema.get("type")
    if isinstance(kind, str) and kind != "null":
        schema = {**schema, "type": [kind, "null"]}
    elif kind is None and isinstance(schema.get("anyOf"), list):
        schema = {**schema, "anyOf": [*schema["anyOf"], {"type": "null"}]}
    if isinstance(schema.get("enum"), list) and None not in schema["enum"]:
        schema = {**schema, "enum": [*schema["enum"], None]}
    return schema
