"""The functions that a caller offers the model, bare or wrapped as OpenAI wraps them."""

from collections.abc import Sequence
from typing import Any

from app.chat.messages import CacheMark, Tool
from app.errors import Violation
from app.formats.violations import json_path

_MARK = "cache_control"
_WRAPPER = ("type", "function", _MARK)
_FUNCTION = (
    *("name", "description", "parameters", "strict", "type", _MARK),
    *("name_for_model", "name_for_human", "description_for_model", "args_format"),
)
"""OpenAI's, and those that Qwen-Agent reads besides."""


def read_tools(field: str, items: Sequence[Any]) -> tuple[tuple[Tool, ...], list[Violation]]:
    tools: list[Tool] = []
    wrong: list[Violation] = []
    names: set[str] = set()
    for place, item in enumerate(items):
        path = f"{field}[{place}]"
        wrapped = _is_wrapped(item)
        schema = item["function"] if wrapped else item
        problem = _wrapper_problem(item) if wrapped else None
        path += ".function" if wrapped and problem is None else ""
        problem = problem or _tool_problem(schema, names)
        if problem is None:
            names.add(schema["name"])
            tools.append(_tool(item, schema, f"{field}[{place}]", path))
        else:
            wrong.append(Violation(path + problem[0], problem[1]))
    return tuple(tools), wrong


def unknown_keys(field: str, items: Sequence[Any]) -> list[str]:
    """Warnings of keys that no function has, for tools that `read_tools` takes. Those of a function itself are sent."""
    found: list[str] = []
    for place, item in enumerate(items):
        path = f"{field}[{place}]"
        wrapped = _is_wrapped(item)
        beside = [key for key in item if key not in _WRAPPER] if wrapped else []
        found += (f"{json_path([key], path)} is not a field of a tool and was ignored" for key in beside)
        schema, path = (item["function"], f"{path}.function") if wrapped else (item, path)
        unknown = (key for key in schema if key not in _FUNCTION)
        found += (f"{json_path([key], path)} is not a field of a function and was sent as it is" for key in unknown)
    return found


def _tool(item: dict[str, Any], schema: dict[str, Any], outer: str, inner: str) -> Tool:
    """A mark for the server's cache stands beside the function or in it; it is sent beside it."""
    found = [(one[_MARK], path) for one, path in ((schema, inner), (item, outer)) if isinstance(one.get(_MARK), dict)]
    if _MARK in schema:
        schema = {key: value for key, value in schema.items() if key != _MARK}
    mark = CacheMark(found[0][0], f"{found[0][1]}.{_MARK}") if found else None
    return Tool(schema["name"], schema, mark)


def _is_wrapped(item: Any) -> bool:
    """Whether the function stands inside the tool, as OpenAI writes it."""
    return isinstance(item, dict) and "function" in item and ("name" not in item or item.get("type") == "function")


def _wrapper_problem(tool: dict[str, Any]) -> tuple[str, str] | None:
    """Of a tool as OpenAI writes it: `{"type": "function", "function": {…}}`."""
    if tool.get("type") is None:
        return ".type", 'is required: write {"type": "function", "function": {…}}'
    if tool["type"] != "function":
        return ".type", "must be function: other tools are not known here"
    if not isinstance(tool["function"], dict):
        return ".function", "must be a function object with a name"
    return None


def _tool_problem(schema: Any, names: set[str]) -> tuple[str, str] | None:
    if not isinstance(schema, dict):
        return "", "must be a function object with a name"
    if isinstance(schema.get("type"), str) and schema["type"] != "function":
        return ".type", "must be function: other tools are not known here"
    if "name" not in schema:
        return (".function", "is required") if schema.get("type") == "function" else (".name", "is required")
    name = schema["name"]
    if not isinstance(name, str) or not name.strip():
        return ".name", "must be a string that is not blank"
    if name in names:
        return ".name", f"there are two functions {name!r}"
    if not isinstance(schema.get("description", ""), str | None):
        return ".description", "must be a string"
    if not isinstance(schema.get(_MARK), dict | None):
        return f".{_MARK}", "must be an object"
    if not isinstance(schema.get("parameters", {}), dict | list | None):
        return ".parameters", "must be a JSON schema"
    return None
