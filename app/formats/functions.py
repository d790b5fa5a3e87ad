"""Parses the functions that a request offers, and which of them it allows.

A function stands as it is, wrapped in a tool object as in OpenAI's chat completions, with a type beside its name as in
OpenAI's Responses, or with an input schema as in Anthropic's Messages and MCP. A custom tool becomes a function
(`openai_messages.custom_tools`).
"""

from collections.abc import Mapping, Sequence
from typing import Any

from app.chat.messages import CacheMark, RequestPaths, Tool
from app.chat.tool_asks import ServerAsk
from app.errors import Violation
from app.formats.request_memory import recall
from app.formats.server_asks import is_ask, limit_asks
from app.openai_messages.custom_tools import make_function
from app.other_apis import read_schema_tool
from app.params import parse_allowed_tools
from app.validation.violations import json_path

_MARK = "cache_control"
_TYPES = ("function", "custom")
"""The types of tools, each with its object under the same key."""
_CUSTOM_KEYS = frozenset({"name", "description", "format"})
_FUNCTION = (
    *("name", "description", "parameters", "strict", "type", _MARK),
    *("name_for_model", "name_for_human", "description_for_model", "args_format"),
)
"""The keys of a function: OpenAI's, and those that Qwen-Agent knows in addition."""
_FUNCTION_KEYS = frozenset(_FUNCTION)
_FORM = '{"type": "function", "function": {"name": "…", "description": "…", "parameters": {…}}}'
_MAX_SHOWN = 40
_TEXT, _OBJECT, _SCHEMA = (str, type(None)), (dict, type(None)), (dict, list, type(None))
"""The types of fields of functions: a union written in place is built again for every function."""


def parse_tools(field: str, items: Sequence[Any]) -> tuple[tuple[Tool, ...], list[Violation]]:
    """Return (functions, violations). Entries that name servers of tools are left out: `server_asks` reads them."""
    tools, violations = recall(items, (parse_tools, field), lambda: _parse_tools(field, items))
    return tools, list(violations)


def _parse_tools(field: str, items: Sequence[Any]) -> tuple[tuple[Tool, ...], list[Violation]]:
    tools: list[Tool] = []
    violations: list[Violation] = []
    names: set[str] = set()
    for index, item in enumerate(map(read_schema_tool, items)):
        path = f"{field}[{index}]"
        wrapper = _find_wrapper(item)
        schema = item[wrapper] if wrapper else item
        problem = _check_wrapper(item, wrapper) if wrapper else None
        path += f".{wrapper}" if wrapper and problem is None else ""
        problem = problem or _check_tool(schema, names, custom=_is_custom(item))
        if problem is None:
            names.add(schema["name"])
            tools.append(_parse_tool(item, schema, f"{field}[{index}]", path))
        elif not is_ask(item):
            violations.append(Violation(path + problem[0], problem[1]))
    return tuple(tools), violations


def find_unknown_tool_keys(field: str, items: Sequence[Any]) -> list[str]:
    """Return a warning for each unknown key of valid tools. Those of a function are sent, those beside it are not."""
    return recall(items, (find_unknown_tool_keys, field), lambda: _find_unknown_keys(field, items))


def _find_unknown_keys(field: str, items: Sequence[Any]) -> list[str]:
    warnings: list[str] = []
    for index, item in enumerate(map(read_schema_tool, items)):
        path = f"{field}[{index}]"
        wrapper = _find_wrapper(item)
        if is_ask(item) or (wrapper is None and item.keys() <= _FUNCTION_KEYS):
            continue
        if wrapper:
            ignored = [key for key in item if key not in ("type", wrapper, _MARK)]
            warnings += [f"{json_path([key], path)} is not a field of a tool and was ignored" for key in ignored]
        schema, path = (item[wrapper], f"{path}.{wrapper}") if wrapper else (item, path)
        if _is_custom(item):
            unknown = [key for key in schema if key not in _CUSTOM_KEYS and key not in ("type", _MARK)]
            warnings += [f"{json_path([key], path)} is not a field of a custom tool and was ignored" for key in unknown]
        elif not schema.keys() <= _FUNCTION_KEYS:
            unknown = [key for key in schema if key not in _FUNCTION_KEYS]
            warnings += [
                f"{json_path([key], path)} is not a field of a function and was sent as it is" for key in unknown
            ]
    return warnings


def _parse_tool(item: dict[str, Any], schema: dict[str, Any], outer: str, inner: str) -> Tool:
    """Build a tool. A `cache_control` in the function or beside it is sent beside it."""
    mark = None
    if _MARK in schema or _MARK in item:
        marks = [
            (holder[_MARK], path)
            for holder, path in ((schema, inner), (item, outer))
            if isinstance(holder.get(_MARK), dict)
        ]
        mark = CacheMark(marks[0][0], f"{marks[0][1]}.{_MARK}") if marks else None
    name = schema["name"]
    if _is_custom(item):
        function = {"name": name, **make_function(schema.get("description"), schema.get("format"))}
        return Tool(name, function, mark, custom=True)
    if _MARK in schema or "type" in schema:
        schema = {key: value for key, value in schema.items() if key not in (_MARK, "type")}
    return Tool(name, schema, mark)


def _is_custom(item: Any) -> bool:
    return isinstance(item, dict) and item.get("type") == "custom"


def _find_wrapper(item: Any) -> str | None:
    """Return the key of a tool object of OpenAI's chat completions under which the tool is; None for a tool as it
    is."""
    if not isinstance(item, dict):
        return None
    if item.get("type") == "custom" and "custom" in item:
        return "custom"
    return "function" if "function" in item and ("name" not in item or item.get("type") == "function") else None


def _check_wrapper(tool: dict[str, Any], wrapper: str) -> tuple[str, str] | None:
    """Return the (path, message) of what is invalid in a tool object `{"type": "function", "function": {…}}`."""
    if tool.get("type") is None:
        return ".type", 'is required: write {"type": "function", "function": {…}}'
    if tool["type"] != wrapper:
        return ".type", f"must be {wrapper}, because the tool is under that key"
    if not isinstance(tool[wrapper], dict):
        return f".{wrapper}", f"must be a {wrapper} object with a name"
    return None


def _check_tool(schema: Any, names: set[str], *, custom: bool) -> tuple[str, str] | None:
    if not isinstance(schema, dict):
        return "", f"must be a function object with a name: write {_FORM}"
    if isinstance(schema.get("type"), str) and schema["type"] not in _TYPES:
        return (
            ".type",
            f"must be function, custom or mcp, not {schema['type'][:_MAX_SHOWN]!r}: no provider's tool runs here",
        )
    if "name" not in schema:
        if "functionDeclarations" in schema or "function_declarations" in schema:
            return "", f"has the form of Gemini's API: write each function as {_FORM}"
        place = ".function" if schema.get("type") == "function" else ".name"
        return place, f"is required: write {_FORM}"
    name = schema["name"]
    if not isinstance(name, str) or not name.strip():
        return ".name", "must be a string that is not blank"
    if name in names:
        return ".name", f"must be unique: there are two functions named {name!r}"
    if not isinstance(schema.get("description"), _TEXT):
        return ".description", "must be a string"
    if not isinstance(schema.get(_MARK), _OBJECT):
        return f".{_MARK}", "must be an object"
    return None if custom else _check_parameters(schema.get("parameters"))


def _check_parameters(parameters: Any) -> tuple[str, str] | None:
    """Check a JSON schema, or Qwen-Agent's list of parameters."""
    if not isinstance(parameters, _SCHEMA):
        kind = "a string" if isinstance(parameters, str) else "a single value"
        return ".parameters", f"must be a JSON schema, which is an object, not {kind}"
    for number, item in enumerate(parameters if isinstance(parameters, list) else ()):
        if not isinstance(item, dict) or not isinstance(item.get("name"), str):
            return f".parameters[{number}]", "must be a parameter object with a name"
    return None


def list_paths(field: str, items: Sequence[Any]) -> dict[str, str]:
    """Return the JSON path of each function in a valid list, by its name."""
    paths: dict[str, str] = {}
    for index, item in enumerate(map(read_schema_tool, items)):
        if not is_ask(item):
            wrapper = _find_wrapper(item)
            schema = item[wrapper] if wrapper else item
            paths[schema["name"]] = f"{field}[{index}]" + (f".{wrapper}" if wrapper else "")
    return paths


def choose_tools(
    params: Mapping[str, Any], tools: tuple[Tool, ...], asks: tuple[ServerAsk, ...], paths: RequestPaths
) -> tuple[Mapping[str, Any], tuple[Tool, ...], tuple[ServerAsk, ...], list[Violation]]:
    """Return (params, tools, servers, violations): of a request whose choice allows only some tools, those and the
    choice's mode."""
    field = "function_choice" if params.get("function_choice") is not None else "tool_choice"
    allowed = parse_allowed_tools(params.get(field))
    if allowed is None:
        return params, tools, asks, []
    asks, _ = limit_asks(asks, allowed.names)
    heads = tuple(f"{ask.server}-" for ask in asks)
    known = {tool.name for tool in tools}
    violations = [
        Violation(f"{paths.param(field)}.{allowed.path}[{number}]", f"names no function of this request: {name!r}")
        for number, name in enumerate(allowed.names)
        if name not in known and not name.startswith(heads)
    ]
    chosen = tuple(tool for tool in tools if tool.name in allowed.names)
    return {**params, field: allowed.mode}, chosen, asks, violations
