"""Tools, choices of tools and response formats in the forms of other APIs.

Each of them says the same in the forms of chat completions, Responses, Anthropic's Messages and MCP, so that nothing is
lost when an endpoint reads the form of another one.
"""

from collections.abc import Mapping
from typing import Any

from app.chat.tool_asks import make_tool_name

Json = dict[str, Any]

_SCHEMA_KEYS = ("input_schema", "inputSchema")
"""Where Anthropic's tools and those of MCP have the schema of their parameters."""
_FUNCTION_KEYS = ("description", "parameters", "strict", "cache_control")
NO_PARAMETERS: Mapping[str, Any] = {"type": "object", "properties": {}}


def read_schema_tool(tool: Any) -> Any:
    """Return a tool of Anthropic's Messages or of MCP as a function; anything else as it is."""
    if not isinstance(tool, dict) or tool.get("type") not in (None, "custom") or "parameters" in tool:
        return tool
    key = next((key for key in _SCHEMA_KEYS if isinstance(tool.get(key), dict)), None)
    if key is None or not isinstance(tool.get("name"), str):
        return tool
    rest = {name: value for name, value in tool.items() if name not in (key, "type")}
    return {**rest, "parameters": tool[key]}


def read_function_tool(tool: Any) -> Json | None:
    """Return the function of a tool of chat completions, Responses or MCP, or of a function alone, with `name` and the
    fields that it has; None for anything else."""
    if not isinstance(tool, dict) or tool.get("type") not in (None, "function"):
        return None
    inner = tool.get("function", tool if "input_schema" not in tool else None)
    inner = read_schema_tool(inner)
    if not isinstance(inner, dict) or not isinstance(inner.get("name"), str):
        return None
    if tool.get("type") is None and "function" not in tool and "parameters" not in inner:
        return None
    holders = (inner, tool)
    fields = {key: holder[key] for key in _FUNCTION_KEYS for holder in reversed(holders) if holder.get(key) is not None}
    return {"name": inner["name"], **fields}


def read_choice(choice: Any) -> str | Json | None:
    """Return a choice of tools as chat completions has it: a word, or {"function": {"name"}}; None if it has no form
    that is known."""
    if isinstance(choice, str):
        return _WORDS.get(choice, choice)
    if not isinstance(choice, dict):
        return None
    kind, function = choice.get("type"), choice.get("function")
    holder = function if isinstance(function, dict) else choice
    if (kind in ("function", "tool") or holder is function) and isinstance(holder.get("name"), str):
        return {"function": {"name": holder["name"]}}
    return _WORDS.get(kind) if isinstance(kind, str) and "name" not in choice else None


def read_server_choice(choice: Any) -> str | Json | None:
    """Return a choice of OpenAI's APIs that names a server of tools, or one of its tools, in the form of `read_choice`;
    None for any other choice. That of a server alone becomes `required`."""
    if not isinstance(choice, dict) or choice.get("type") != "mcp" or not isinstance(choice.get("server_label"), str):
        return None
    tool = choice.get("name")
    if not isinstance(tool, str):
        return "required"
    return {"type": "function", "function": {"name": make_tool_name(choice["server_label"], tool)}}


_WORDS = {"auto": "auto", "none": "none", "required": "required", "any": "required"}

_FORMAT = '{"type": "json_schema", "json_schema": {"name": "…", "schema": {…}}}'
_MISTAKEN = frozenset({"json", "object", "array", "string", "schema", "json-object", "json-schema", "jsonschema"})
_TYPES = ("text", "json_object", "json_schema")
SCHEMA_NAME = "response"
"""The name of a schema that has none: servers demand one."""


def read_response_format(value: Any) -> Any:
    """Return a response format as chat completions has it; one of a type that only some servers know, as it is.

    Raises:
        ValueError: with what is wrong and how it is written.
    """
    if not isinstance(value, dict):
        return value
    kind = value.get("type")
    if not isinstance(kind, str):
        raise ValueError(f"must have a type: one of {', '.join(_TYPES)}")
    if "properties" in value:
        raise ValueError(f"is a JSON schema: write {_FORMAT}")
    if kind == "json_schema":
        return {**{key: value[key] for key in value if key not in _FLAT}, "json_schema": _read_schema(value)}
    plain = kind.lower().replace("_", "-")
    if kind not in _TYPES and (kind.lower() in _TYPES or plain in _MISTAKEN) and "value" not in value:
        raise ValueError(f'must have one of the types {", ".join(_TYPES)}, not "{kind}"')
    return value


_FLAT = frozenset({"name", "schema", "strict", "description"})
"""The fields of a schema that Responses and Anthropic's Messages have beside its type."""


def _read_schema(value: Json) -> Json:
    """Return `json_schema` of a response format, in which Responses and Anthropic have its fields beside the type."""
    given = value.get("json_schema")
    if given is None and "schema" in value:
        given = {key: value[key] for key in _FLAT if value.get(key) is not None}
    if given is None:
        raise ValueError(f"has no schema: write {_FORMAT}")
    if not isinstance(given, dict):
        raise ValueError(f"has a json_schema that is not an object: write {_FORMAT}")
    schema = given.get("schema")
    if schema is None and ("properties" in given or "$schema" in given or given.get("type") in ("object", "array")):
        raise ValueError(f"has the schema itself as json_schema: put it under the key schema, {_FORMAT}")
    if isinstance(schema, str):
        raise ValueError(f"has a schema that is a string: send the schema as an object, {_FORMAT}")
    if not isinstance(schema, dict):
        raise ValueError(f"has a json_schema without the key schema: write {_FORMAT}")
    if not isinstance(given.get("name", ""), str):
        raise ValueError(f"has a name that is not a string: write {_FORMAT}")
    return given if given.get("name") else {"name": SCHEMA_NAME, **{key: given[key] for key in given if key != "name"}}
