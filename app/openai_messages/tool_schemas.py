"""Completes the functions of a request to what servers with `tools` accept.

DeepSeek, Moonshot and OpenAI refuse a function whose parameters are not an object with properties. Qwen-Agent's older
tools describe their parameters as a list, which no server reads: its entries become properties.
"""

from collections.abc import Mapping, Sequence
from typing import Any

_TYPES = {"str": "string", "int": "integer", "float": "number", "bool": "boolean", "list": "array", "dict": "object"}
"""Names of Python's types, which tools of Qwen-Agent use as JSON types."""


def is_complete(function: Mapping[str, Any]) -> bool:
    """Whether `complete_function` changes nothing."""
    return _is_complete(function.get("parameters"))


def complete_function(function: Mapping[str, Any]) -> dict[str, Any]:
    """Return the function with a schema of an object as its parameters. Everything that the schema says stays."""
    if is_complete(function):
        return dict(function)
    return {**function, "parameters": _complete_parameters(function.get("parameters"))}


def _is_complete(parameters: Any) -> bool:
    if not isinstance(parameters, dict):
        return False
    kind = parameters.get("type")
    if kind == "object":
        return isinstance(parameters.get("properties"), dict)
    # Another type is a mistake that only its author can correct.
    return isinstance(kind, str)


def _complete_parameters(parameters: Any) -> dict[str, Any]:
    if isinstance(parameters, list):
        return _convert_list(parameters)
    given = parameters if isinstance(parameters, dict) else {}
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
