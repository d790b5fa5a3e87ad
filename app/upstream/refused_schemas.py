"""Change the schemas of a body that a server has refused: those of its functions and of the reply's format.

A server names one place of one schema that it refuses. The change is made in all schemas of the body, and means the
same wherever the server can say it.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any

from app.openai_messages.tool_schemas import find_definition, has_alternatives, map_schemas, merge_alternatives
from app.upstream.api import Repair
from app.upstream.gemini.schemas import write_openapi

Json = dict[str, Any]
_PARAMETERS = ("parameters", "input_schema")
_FORMATS = (("response_format", "json_schema"), ("text", "format"), ("output_config", "format"))
"""Where the format of a reply has its schema."""


def _change_schemas(body: Json, change: Callable[[Json], Json]) -> Json | None:
    """Return the body with changed schemas; None if nothing differs."""
    changed = dict(body)
    tools = body.get("tools")
    if isinstance(tools, list):
        changed["tools"] = [_change_tool(tool, change) for tool in tools]
    for outer, inner in _FORMATS:
        holder = body.get(outer)
        given = holder.get(inner) if isinstance(holder, dict) else None
        if isinstance(holder, dict) and isinstance(given, dict) and isinstance(given.get("schema"), dict):
            changed[outer] = {**holder, inner: {**given, "schema": change(given["schema"])}}
    return None if changed == body else changed


def _change_tool(tool: Any, change: Callable[[Json], Json]) -> Any:
    if not isinstance(tool, dict):
        return tool
    if isinstance(tool.get("function"), dict):
        return {**tool, "function": _change_tool(tool["function"], change)}
    schemas = {name: change(tool[name]) for name in _PARAMETERS if isinstance(tool.get(name), dict)}
    return {**tool, **schemas} if schemas else tool


def _add_items(schema: Json) -> Json:
    kind = schema.get("type")
    is_array = kind == "array" or (isinstance(kind, list) and "array" in kind)
    return {**schema, "items": {}} if is_array and not schema.keys() & {"items", "prefixItems"} else schema


def _resolve_references(root: Json) -> Json:
    """Return the schema without references that lead nowhere, and with what others than those to `$defs` mean in their
    places."""

    def resolve(schema: Json) -> Json:
        reference = schema.get("$ref")
        if not isinstance(reference, str):
            return schema
        found = find_definition(root, reference)
        if found is not None and reference.startswith("#/$defs/"):
            return schema
        rest = {name: value for name, value in schema.items() if name != "$ref"}
        # What refers to itself has no end: it is any value there.
        inner = {} if found is None or _has_reference(found) else found
        return {**inner, **rest}

    changed: Json = map_schemas(root, resolve)
    return changed


def _has_reference(value: Any) -> bool:
    if isinstance(value, dict):
        return "$ref" in value or any(map(_has_reference, value.values()))
    return isinstance(value, list) and any(map(_has_reference, value))


def _merge_alternatives(body: Json) -> Json | None:
    """Return the body whose functions have no alternatives at the top of their parameters; None if none has."""
    tools = body.get("tools")
    if not isinstance(tools, list):
        return None
    changed = [
        _change_tool(tool, lambda one: merge_alternatives(one) if has_alternatives(one) else one) for tool in tools
    ]
    return None if changed == tools else {**body, "tools": changed}


def _describe_limits(schema: Json) -> Json:
    limits = {name: value for name, value in schema.items() if name in _LIMITS}
    if not limits:
        return schema
    said = ", ".join(f"{name}: {value}" for name, value in limits.items())
    kept = {name: value for name, value in schema.items() if name not in _LIMITS}
    given = kept.get("description")
    return {**kept, "description": f"{given} ({said})" if isinstance(given, str) and given else f"({said})"}


_LIMITS = frozenset(
    ("minItems", "maxItems", "uniqueItems", "minLength", "maxLength", "pattern", "format", "minimum", "maximum")
    + ("exclusiveMinimum", "exclusiveMaximum", "multipleOf", "minProperties", "maxProperties")
)


def _demand_nothing(schema: Json) -> Json:
    """Return the schema with a list of what it demands, also where it demands nothing."""
    lacks = isinstance(schema.get("properties"), dict) and not isinstance(schema.get("required"), list)
    return {**schema, "required": []} if lacks else schema


def _relax_functions(body: Json) -> Json | None:
    """Return the body whose functions may have any schema; None if they may already."""
    tools = body.get("tools")
    if not isinstance(tools, list):
        return None
    changed = [_relax(tool) for tool in tools]
    return None if changed == tools else {**body, "tools": changed}


def _relax(tool: Any) -> Any:
    if not isinstance(tool, dict):
        return tool
    if isinstance(tool.get("function"), dict):
        return {**tool, "function": _relax(tool["function"])}
    return {**tool, "strict": False} if any(name in tool for name in _PARAMETERS) else tool


def _write_for_google(schema: Json) -> Json:
    """Return the schema in the form of OpenAPI, with the names of types that the other APIs have."""
    written = _lower_types(write_openapi(schema))
    return {**written, "properties": {}} if written == {"type": "object"} else written


def _lower_types(schema: Mapping[str, Any]) -> Json:
    lowered: Json = {}
    for name, value in schema.items():
        if name == "type":
            lowered[name] = value.lower()
        elif name == "properties":
            lowered[name] = {key: _lower_types(one) for key, one in value.items()}
        elif name == "items":
            lowered[name] = _lower_types(value)
        elif name == "anyOf":
            lowered[name] = [_lower_types(one) for one in value]
        else:
            lowered[name] = value
    return lowered


def _make(refused: str, change: Callable[[Json], Json], warning: str) -> Repair:
    return Repair(re.compile(refused, re.IGNORECASE), lambda body: _change_schemas(body, change), warning)


SCHEMA_REPAIRS: dict[str, Repair] = {
    # Anthropic, OpenAI: makenotion/notion-mcp-server#341
    "alternatives": Repair(
        re.compile(r"(?:one|any|all)Of\b[^\n]{0,120}?\btop[ -]level", re.IGNORECASE),
        _merge_alternatives,
        "the model server takes no anyOf, oneOf or allOf at the top of parameters, so all properties were offered. Set "
        "`parameter_alternatives = false` in the model's profile",
    ),
    # OpenAI's Responses API, where functions are strict if they do not say otherwise, and OpenRouter, which uses it:
    # kevinwatt/mysql-mcp#5, openai/codex#7758
    "strict_schemas": Repair(
        re.compile(
            r"schema for function\b[^\n]{0,200}?(?:'required' is required|'additionalproperties' is required)", re.I
        ),
        _relax_functions,
        "the model server refused a schema because functions are strict there: they were sent with `strict: false`",
    ),
    # anomalyco/opencode#35528
    "required": _make(
        r"\b(?:null|none) is not of type .{0,2}array|\brequired\b[^\n]{0,20}?must be an? (?:array|list)",
        lambda schema: map_schemas(schema, _demand_nothing),
        "the model server demands `required` in each schema of an object: it was added where a schema had none",
    ),
    # OpenAI, LM Studio's templates, Google: codexu/note-gen#1227, NousResearch/hermes-agent#71874
    "items": _make(
        r"array schema (?:is )?missing items|\bitems: missing field|param_spec\['items'\]|array type must have items",
        lambda schema: map_schemas(schema, _add_items),
        "the model server demands `items` in each schema of an array: they were added where a schema had none",
    ),
    # RooCodeInc/Roo-Code#11430, google-gemini/gemini-cli#13326, CommandCodeAI/command-code#594
    "references": _make(
        r"reference to (?:component|undefined schema)|can(?:no|')t resolve reference|"
        r"unresolvable (?:json )?(?:pointer|ref)|references must start with",
        _resolve_references,
        "the model server refused references of schemas: those that lead nowhere were left out, others were resolved",
    ),
    # Cerebras, llama.cpp: musistudio/claude-code-router#708, lidge-jun/opencodex#2135
    "limits": _make(
        r"unsupported json schema (?:field|keyword)|(?:parse|compile|build) (?:the )?grammar|supported by xgrammar|"
        r"schema\b[^\n]{0,80}?\b(?:fields?|keywords?)\b[^\n]{0,40}?not supported",
        lambda schema: map_schemas(schema, _describe_limits),
        "the model server refused limits of values in schemas: they were sent in the descriptions",
    ),
    # Google's models behind other APIs: aoci-spec/aoci-code issue 61, anomalyco/opencode#12784,
    # google-gemini/gemini-cli#4400, router-for-me/CLIProxyAPI#1260
    "google_schemas": _make(
        r"function_?declarations?\b[^\n]{0,120}?\bparameters\b|generation_?config\.response_?(?:json_?)?schema",
        _write_for_google,
        "the model server does not take these JSON schemas: they were sent in the form of OpenAPI, without what this "
        "cannot say",
    ),
}
"""The first of several that fit, and that change something, counts."""
