"""The functions that a caller offers the model, bare or wrapped as OpenAI wraps them."""

from collections.abc import Sequence
from typing import Any

from app.chat.messages import Tool
from app.errors import Violation


def read_tools(field: str, items: Sequence[Any]) -> tuple[tuple[Tool, ...], list[Violation]]:
    tools: list[Tool] = []
    wrong: list[Violation] = []
    names: set[str] = set()
    for place, item in enumerate(items):
        path = f"{field}[{place}]"
        wrapped = isinstance(item, dict) and "function" in item and "name" not in item
        schema = item["function"] if wrapped else item
        problem = _wrapper_problem(item) if wrapped else None
        path += ".function" if wrapped and problem is None else ""
        problem = problem or _tool_problem(schema, names)
        if problem is None:
            names.add(schema["name"])
            tools.append(Tool(schema["name"], schema))
        else:
            wrong.append(Violation(path + problem[0], problem[1]))
    return tuple(tools), wrong


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
    if not isinstance(schema.get("parameters", {}), dict | list | None):
        return ".parameters", "must be a JSON schema"
    return None
