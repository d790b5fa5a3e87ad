"""Parses the functions that a request offers: as they are, or each wrapped in a tool object as OpenAI does it."""

from collections.abc import Sequence
from typing import Any

from app.chat.messages import CacheMark, Tool
from app.errors import Violation
from app.validation import json_path

_MARK = "cache_control"
_WRAPPER = ("type", "function", _MARK)
_FUNCTION = (
    *("name", "description", "parameters", "strict", "type", _MARK),
    *("name_for_model", "name_for_human", "description_for_model", "args_format"),
)
"""The keys of a function: OpenAI's, and those that Qwen-Agent knows in addition."""
_FUNCTION_KEYS = frozenset(_FUNCTION)
_TEXT, _OBJECT, _SCHEMA = (str, type(None)), (dict, type(None)), (dict, list, type(None))
"""The types of fields of functions: a union written in place is built again for every function."""


def parse_tools(field: str, items: Sequence[Any]) -> tuple[tuple[Tool, ...], list[Violation]]:
    tools: list[Tool] = []
    violations: list[Violation] = []
    names: set[str] = set()
    for index, item in enumerate(items):
        path = f"{field}[{index}]"
        wrapped = _is_wrapped(item)
        schema = item["function"] if wrapped else item
        problem = _check_wrapper(item) if wrapped else None
        path += ".function" if wrapped and problem is None else ""
        problem = problem or _check_tool(schema, names)
        if problem is None:
            names.add(schema["name"])
            tools.append(_parse_tool(item, schema, f"{field}[{index}]", path))
        else:
            violations.append(Violation(path + problem[0], problem[1]))
    return tuple(tools), violations


def find_unknown_tool_keys(field: str, items: Sequence[Any]) -> list[str]:
    """Return a warning for each unknown key of valid tools. Those of a function are sent, those beside it are not."""
    warnings: list[str] = []
    for index, item in enumerate(items):
        path = f"{field}[{index}]"
        wrapped = _is_wrapped(item)
        if not wrapped and item.keys() <= _FUNCTION_KEYS:
            continue
        ignored = [key for key in item if key not in _WRAPPER] if wrapped else []
        warnings += (f"{json_path([key], path)} is not a field of a tool and was ignored" for key in ignored)
        schema, path = (item["function"], f"{path}.function") if wrapped else (item, path)
        unknown = (key for key in schema if key not in _FUNCTION_KEYS)
        warnings += (f"{json_path([key], path)} is not a field of a function and was sent as it is" for key in unknown)
    return warnings


def _parse_tool(item: dict[str, Any], schema: dict[str, Any], outer: str, inner: str) -> Tool:
    """Build a tool. A `cache_control` in the function or beside it is sent beside it."""
    if _MARK not in schema and _MARK not in item:
        return Tool(schema["name"], schema)
    marks = [
        (holder[_MARK], path)
        for holder, path in ((schema, inner), (item, outer))
        if isinstance(holder.get(_MARK), dict)
    ]
    if _MARK in schema:
        schema = {key: value for key, value in schema.items() if key != _MARK}
    mark = CacheMark(marks[0][0], f"{marks[0][1]}.{_MARK}") if marks else None
    return Tool(schema["name"], schema, mark)


def _is_wrapped(item: Any) -> bool:
    """Whether the item is a tool object of OpenAI's format, with the function inside."""
    return isinstance(item, dict) and "function" in item and ("name" not in item or item.get("type") == "function")


def _check_wrapper(tool: dict[str, Any]) -> tuple[str, str] | None:
    """Return the (path, message) of what is invalid in a tool object `{"type": "function", "function": {…}}`."""
    if tool.get("type") is None:
        return ".type", 'is required: write {"type": "function", "function": {…}}'
    if tool["type"] != "function":
        return ".type", "must be function: other types of tools are not supported"
    if not isinstance(tool["function"], dict):
        return ".function", "must be a function object with a name"
    return None


def _check_tool(schema: Any, names: set[str]) -> tuple[str, str] | None:
    if not isinstance(schema, dict):
        return "", "must be a function object with a name"
    if isinstance(schema.get("type"), str) and schema["type"] != "function":
        return ".type", "must be function: other types of tools are not supported"
    if "name" not in schema:
        return (".function", "is required") if schema.get("type") == "function" else (".name", "is required")
    name = schema["name"]
    if not isinstance(name, str) or not name.strip():
        return ".name", "must be a string that is not blank"
    if name in names:
        return ".name", f"must be unique: there are two functions named {name!r}"
    if not isinstance(schema.get("description"), _TEXT):
        return ".description", "must be a string"
    if not isinstance(schema.get(_MARK), _OBJECT):
        return f".{_MARK}", "must be an object"
    if not isinstance(schema.get("parameters"), _SCHEMA):
        return ".parameters", "must be a JSON schema"
    return None
