"""Converts values that a model wrote as plain text to the types in the function's schema."""

import ast
import json
from collections.abc import Mapping
from typing import Any

from app.chat.messages import Tool
from app.steps.tool_parsers.calls import NotACall
from app.steps.tool_parsers.json_scanner import loads

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


def parse_typed(text: str, types: frozenset[str]) -> Any:
    """Return the value of the text, or the text itself if its value has none of the types."""
    if types == {"string"}:
        return text
    value = _literal(text.strip())
    if value is None and text.strip() not in ("null", "None"):
        return text
    if not types:
        return text if isinstance(value, str) else value
    return value if _has_type(value, types) else text


def _has_type(value: Any, types: frozenset[str]) -> bool:
    if isinstance(value, bool):
        return "boolean" in types
    if isinstance(value, float) and value.is_integer() and "integer" in types:
        return True
    return any(isinstance(value, _PYTHON_TYPES.get(name, ())) for name in types)


def _literal(text: str) -> Any:
    """Return the JSON or Python value of the text, or None if it is neither."""
    try:
        return json.loads(text, parse_constant=_refuse_constant)
    except (ValueError, RecursionError):
        pass
    if text[:1] in "[{(" or text in ("True", "False"):
        for read in (ast.literal_eval, loads):
            try:
                value = read(text)
                json.dumps(value)
                return list(value) if isinstance(value, tuple) else value
            except (NotACall, ValueError, TypeError, SyntaxError, RecursionError, MemoryError):
                continue
    return None


def _refuse_constant(constant: str) -> Any:
    raise ValueError(constant)
