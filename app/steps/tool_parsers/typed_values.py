"""Converts values that a model wrote as plain text to the types in the function's schema."""

import ast
import json
from collections.abc import Mapping
from typing import Any

from app.chat.messages import Tool
from app.steps.tool_parsers.calls import NotACall
from app.steps.tool_parsers.json_scanner import loads
from app.steps.tool_parsers.literals import write_json

_PYTHON_TYPES: Mapping[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "array": (list,),
    "object": (dict,),
    "null": (type(None),),
}


def types_of(tool: Tool | None, parameter: str) -> frozenset[str]:
    """Return the JSON types of the parameter, or an empty set if they are unknown."""
    parameters = tool.schema.get("parameters") if tool is not None else None
    properties = parameters.get("properties") if isinstance(parameters, dict) else None
    return _types(properties.get(parameter)) if isinstance(properties, dict) else frozenset()


def _types(schema: Any) -> frozenset[str]:
    if not isinstance(schema, dict):
        return frozenset()
    declared = schema.get("type")
    if isinstance(declared, str):
        return frozenset((declared,))
    if isinstance(declared, list):
        return frozenset(one for one in declared if isinstance(one, str))
    choices = schema.get("anyOf") or schema.get("oneOf")
    if isinstance(choices, list):
        found = [_types(choice) for choice in choices]
        return frozenset().union(*found) if all(found) else frozenset()
    values = schema.get("enum")
    if isinstance(values, list) and values and all(isinstance(value, str) for value in values):
        return frozenset(("string",))
    return frozenset()


def to_typed_json(text: str, types: frozenset[str]) -> str:
    """Return the value of the text as JSON, or the text itself as a string if its value has none of the types."""
    value, written = (None, "") if types == {"string"} else _read_literal(text.strip())
    fits = _has_type(value, types) if types else not isinstance(value, str)
    return written if written and fits else write_json(text)


def _has_type(value: Any, types: frozenset[str]) -> bool:
    if isinstance(value, bool):
        return "boolean" in types
    if isinstance(value, float) and value.is_integer() and "integer" in types:
        return True
    return any(isinstance(value, _PYTHON_TYPES.get(name, ())) for name in types)


def _read_literal(text: str) -> tuple[Any, str]:
    """Return the JSON or Python value of the text, and this value as JSON, or (None, "") if it has none."""
    written_as_python = text[:1] in "[{(" or text in ("True", "False", "None")
    for read in (json.loads, ast.literal_eval, loads) if written_as_python else (json.loads,):
        try:
            value = read(text)
            return list(value) if isinstance(value, tuple) else value, write_json(value)
        except (NotACall, ValueError, TypeError, SyntaxError, RecursionError, MemoryError):
            continue
    return None, ""
