"""Completes the functions of a request to what servers with `tools` accept.

DeepSeek, Moonshot and OpenAI refuse a function whose parameters are not an object with properties ("schema must be a
JSON Schema of 'type: \"object\"'", google-gemini/gemini-cli issue 23382): one whose parameters are of another type is
offered without any. Qwen-Agent's older
tools describe their parameters as a list, which no server reads: its entries become properties.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeGuard

import msgspec

_TYPES = {"str": "string", "int": "integer", "float": "number", "bool": "boolean", "list": "array", "dict": "object"}
"""Names of Python's types, which tools of Qwen-Agent use as JSON types."""


_MAX_NULL_DEPTH = 64
"""How deeply nulls are looked for in a schema."""
_VALUES = ("default", "const", "enum", "examples", "example")
"""Keywords of a schema whose value is, or holds, a value of its own, which may be null."""
_find_null = re.compile(rb'":null(?<!"default":null)(?<!"const":null)(?<!"example":null)(?<!"examples":null)').search
NAMED_SCHEMAS = ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas")
"""Keywords with schemas by name."""


def complete_function(function: Mapping[str, Any], encoded: bytes = b"") -> dict[str, Any]:
    """Return the function with a schema of an object as its parameters. Everything that the schema says stays. A null
    says nothing: clients that are written in typed languages send it for what is not set. `encoded` is the function as
    JSON, if that is known."""
    given = _drop_nulls(function, _MAX_NULL_DEPTH) if _has_nulls(function, encoded) else function
    if _is_complete(given.get("parameters")):
        return dict(given)
    return {**given, "parameters": _complete_parameters(given.get("parameters"))}


def _has_nulls(function: Mapping[str, Any], encoded: bytes) -> bool:
    """Whether a keyword may be null that `_drop_nulls` leaves out."""
    try:
        text = encoded or msgspec.json.encode(function)
        return b":null" in text and _find_null(text) is not None
    except (TypeError, ValueError, RecursionError):
        return True


def _drop_nulls(schema: Any, depth: int) -> Any:
    """Return a schema, or a function, without the keywords that are null."""
    if isinstance(schema, list) and depth:
        return [_drop_nulls(one, depth - 1) for one in schema]
    if not isinstance(schema, dict) or not depth:
        return schema
    kept: dict[str, Any] = {}
    for name, value in schema.items():
        if name in _VALUES and not (name == "enum" and value is None):
            kept[name] = value
        elif name in NAMED_SCHEMAS and isinstance(value, dict):
            kept[name] = {key: _drop_nulls(one, depth - 1) for key, one in value.items()}
        elif value is not None:
            kept[name] = _drop_nulls(value, depth - 1)
    return kept


def _is_complete(parameters: Any) -> bool:
    if not isinstance(parameters, dict):
        return False
    return parameters.get("type") == "object" and isinstance(parameters.get("properties"), dict)


def describes_no_object(parameters: Any) -> bool:
    """Whether a schema of parameters is that of a text, a list or another value, which arguments never are."""
    if not isinstance(parameters, dict):
        return False
    kind = parameters.get("type")
    kinds = kind if isinstance(kind, list) else [kind]
    return isinstance(kind, str | list) and "object" not in kinds and "properties" not in parameters


def _complete_parameters(parameters: Any) -> dict[str, Any]:
    if isinstance(parameters, list):
        return _convert_list(parameters)
    given = parameters if isinstance(parameters, dict) and not describes_no_object(parameters) else {}
    properties = given.get("properties")
    return {**given, "type": "object", "properties": properties if isinstance(properties, dict) else {}}


def _convert_list(items: Sequence[Any]) -> dict[str, Any]:
    """Convert Qwen-Agent's list, whose entries have a `name` and say themselves whether they are `required`."""
    entries = [item for item in items if isinstance(item, dict)]
    schema: dict[str, Any] = {
        "type": "object",
        "properties": {str(item["name"]): _convert_entry(item) for item in entries},
    }
    required = [str(item["name"]) for item in entries if item.get("required") is True]
    return {**schema, "required": required} if required else schema


def _convert_entry(item: Mapping[str, Any]) -> dict[str, Any]:
    """Return a property. A `required` that is a list is that of an object, so it stays."""
    inner = {key: value for key, value in item.items() if key != "name"}
    if not isinstance(inner.get("required"), list):
        inner.pop("required", None)
    kind = inner.get("type")
    if isinstance(kind, str):
        inner["type"] = _TYPES.get(kind, kind)
    return inner


_ALTERNATIVES = ("anyOf", "oneOf", "allOf")
_ALTERNATIVES_SET = frozenset(_ALTERNATIVES)
_MAX_DEPTH = 8
"""How deeply alternatives may be inside each other: a schema may refer to itself."""


def has_alternatives(schema: Any) -> TypeGuard[dict[str, Any]]:
    """Whether a schema says at its top that its value is one or all of several others."""
    if not isinstance(schema, dict) or _ALTERNATIVES_SET.isdisjoint(schema):
        return False
    return any(isinstance(schema.get(key), list) for key in _ALTERNATIVES)


def merge_alternatives(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return the schema of an object that has the properties of all alternatives. Required is what each of them
    requires; with `allOf`, what any does. A property that they describe differently may be either."""
    return _merge(schema, schema, _MAX_DEPTH)


def _merge(schema: Mapping[str, Any], root: Mapping[str, Any], depth: int) -> dict[str, Any]:
    properties = _read_properties(schema)
    required = _read_required(schema)
    for key in _ALTERNATIVES:
        given = schema.get(key)
        parts = [_resolve(part, root, depth) for part in given] if isinstance(given, list) and depth else []
        for part in parts:
            for name, value in _read_properties(part).items():
                properties[name] = _join(properties[name], value) if name in properties else value
        demands = [_read_required(part) for part in parts]
        common = set.union if key == "allOf" else set.intersection
        names = common(*map(set, demands)) if demands else set()
        required += [name for name in dict.fromkeys(name for demand in demands for name in demand) if name in names]
    rest = {name: value for name, value in schema.items() if name not in (*_ALTERNATIVES, "required")}
    merged = {**rest, "type": "object", "properties": properties}
    return {**merged, "required": list(dict.fromkeys(required))} if required else merged


def _resolve(part: Any, root: Mapping[str, Any], depth: int) -> dict[str, Any]:
    """Return an alternative as one schema of an object: what it refers to, and its own alternatives merged."""
    reference = part.get("$ref") if isinstance(part, dict) else None
    found = find_definition(root, reference) if isinstance(reference, str) else part
    return _merge(found, root, depth - 1) if isinstance(found, dict) else {}


def find_definition(root: Mapping[str, Any], reference: str) -> Mapping[str, Any] | None:
    """Return the schema that a reference within a document means; None if there is none."""
    if reference[:1] != "#":
        return None
    found: Any = root
    for step in reference[1:].split("/")[1:]:
        name = step.replace("~1", "/").replace("~0", "~")
        found = found.get(name) if isinstance(found, Mapping) else None
    return found if isinstance(found, Mapping) else None


def _join(known: Any, value: Any) -> Any:
    """Return the schema of a property that alternatives describe in two ways."""
    if known == value:
        return known
    several = known["anyOf"] if isinstance(known, dict) and known.keys() == {"anyOf"} else [known]
    return {"anyOf": several if value in several else [*several, value]}


def _read_properties(schema: Mapping[str, Any]) -> dict[str, Any]:
    given = schema.get("properties")
    return dict(given) if isinstance(given, dict) else {}


def _read_required(schema: Mapping[str, Any]) -> list[str]:
    given = schema.get("required")
    return [name for name in given if isinstance(name, str)] if isinstance(given, list) else []


_ONE_OF = ("anyOf", "oneOf")
_INNER = ("items", "prefixItems", "additionalProperties", "contains", "not", *_ALTERNATIVES)
"""Keywords whose value is a schema or a list of them."""
_JSON_TYPES: dict[type, str] = {str: "string", bool: "boolean", int: "integer", float: "number", type(None): "null"}
_ANY = tuple({"type": name} for name in ("string", "number", "boolean", "object", "array", "null"))
"""What a schema without a type allows."""


def add_types(schema: Any, depth: int = _MAX_NULL_DEPTH) -> Any:
    """Return a schema that means the same, in which each schema has a type, and one with `anyOf` or `oneOf` has it in
    these alternatives."""
    if isinstance(schema, list):
        return [add_types(one, depth) for one in schema]
    if not isinstance(schema, dict) or not depth:
        return schema
    typed = dict(schema)
    for name, value in schema.items():
        if name in NAMED_SCHEMAS and isinstance(value, dict):
            typed[name] = {key: add_types(one, depth - 1) for key, one in value.items()}
        elif name in _INNER and name not in _ONE_OF:
            typed[name] = add_types(value, depth - 1)
    alternatives = [name for name in _ONE_OF if isinstance(schema.get(name), list) and schema[name]]
    if alternatives:
        kind = typed.pop("type", None)
        for name in alternatives:
            typed[name] = [add_types(_give_type(one, kind), depth - 1) for one in schema[name]]
    elif not typed.keys() & {"type", "$ref", "allOf"}:
        found = _find_type(typed)
        return {"type": found, **typed} if found else {**typed, "anyOf": list(_ANY)}
    return typed


def map_schemas(schema: Any, change: Callable[[dict[str, Any]], dict[str, Any]], depth: int = _MAX_NULL_DEPTH) -> Any:
    """Return a schema in which each schema is what `change` returns for it; those inside it are changed first."""
    if isinstance(schema, list):
        return [map_schemas(one, change, depth) for one in schema]
    if not isinstance(schema, dict) or not depth:
        return schema
    mapped = dict(schema)
    for name, value in schema.items():
        if name in NAMED_SCHEMAS and isinstance(value, dict):
            mapped[name] = {key: map_schemas(one, change, depth - 1) for key, one in value.items()}
        elif name in _INNER:
            mapped[name] = map_schemas(value, change, depth - 1)
    return change(mapped)


def _give_type(schema: Any, kind: Any) -> Any:
    """Return an alternative with the type that stands beside it, if it has none."""
    if not isinstance(schema, dict) or not isinstance(kind, str) or schema.keys() & {"type", "$ref", *_ALTERNATIVES}:
        return schema
    return {"type": kind, **schema}


def _find_type(schema: Mapping[str, Any]) -> str:
    """Return the type that the other keywords say, "" if they say none."""
    if "properties" in schema or "required" in schema:
        return "object"
    if "items" in schema or "prefixItems" in schema:
        return "array"
    values = schema["enum"] if isinstance(schema.get("enum"), list) else [schema["const"]] if "const" in schema else []
    types = {_JSON_TYPES.get(type(value), "") for value in values}
    return types.pop() if len(types) == 1 else ""
