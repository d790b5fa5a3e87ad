"""Write the JSON schema of a reply with the keywords that Anthropic takes: any other fails the request
(platform.claude.com/docs/en/build-with-claude/structured-outputs, JSON Schema limitations).

What is left out makes the schema wider. The description says it to the model, and the reply is checked against the
schema as it was given.
"""

from collections.abc import Mapping
from typing import Any

Json = dict[str, Any]
_SCHEMAS = ("properties", "$defs", "definitions")
"""Keywords with schemas by name."""
_LISTS = {"anyOf": "anyOf", "oneOf": "anyOf", "allOf": "allOf"}
"""Keywords with a list of schemas, and as what they are sent."""
_KEPT = frozenset(("type", "title", "description", "enum", "const", "default", "required", "$ref", "pattern"))
_FORMATS = frozenset(("date-time", "time", "date", "duration", "email", "hostname", "uri", "ipv4", "ipv6", "uuid"))
_UNTOLD = frozenset(("$schema", "$id", "examples", "example", "$comment", "deprecated", "readOnly", "writeOnly"))
"""Keywords that say nothing of what is valid."""
_MAX_DEPTH = 64


def write_format_schema(schema: Any, lost: set[str], depth: int = _MAX_DEPTH) -> Any:
    """Return the schema as it is sent. The names of the keywords that are left out are added to `lost`."""
    if not isinstance(schema, dict) or not depth:
        return schema
    written: Json = {}
    unsent: Json = {}
    for name, value in schema.items():
        if name in _SCHEMAS and isinstance(value, dict):
            written[name] = {key: write_format_schema(one, lost, depth - 1) for key, one in value.items()}
        elif name in _LISTS and isinstance(value, list):
            written[_LISTS[name]] = [write_format_schema(one, lost, depth - 1) for one in value]
        elif name == "items" and isinstance(value, dict):
            written[name] = write_format_schema(value, lost, depth - 1)
        elif _is_kept(name, value):
            written[name] = value
        elif name not in _UNTOLD and name != "additionalProperties":
            unsent[name] = value
    if _is_object(schema):
        if schema.get("additionalProperties") not in (None, True, False):
            unsent["additionalProperties"] = schema["additionalProperties"]
        written["additionalProperties"] = False
    lost.update(unsent)
    return _describe(written, unsent) if unsent else written


def _is_kept(name: str, value: Any) -> bool:
    if name == "format":
        return isinstance(value, str) and value in _FORMATS
    return name in _KEPT or (name == "minItems" and isinstance(value, int) and value < 2)


def _is_object(schema: Mapping[str, Any]) -> bool:
    kind = schema.get("type")
    return kind == "object" or "properties" in schema or (isinstance(kind, list) and "object" in kind)


def _describe(written: Json, unsent: Json) -> Json:
    """Return the schema with what is left out of it in its description."""
    said = ", ".join(f"{name}: {value}" for name, value in unsent.items())
    given = written.get("description")
    return {**written, "description": f"{given} ({said})" if isinstance(given, str) and given else f"({said})"}
