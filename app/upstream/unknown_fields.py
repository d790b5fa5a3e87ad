"""Change a body that a server has refused because of fields that it does not know: without them, whatever they are.

The server's message names them. What says what is asked for stays: a request without it would be another one.
"""

import re
from collections.abc import Sequence, Set
from typing import Any

Json = dict[str, Any]
_PATH = r"[\w$.:\[\]-]{1,200}"
_UNKNOWN = r"unknown|unsupported|unrecogni[sz]ed|unexpected|unpermitted"
_KIND = r"name|field|parameter|property|argument|key|keyword|input|attribute"
_NOT_TAKEN = r"(?:not (?:permitted|allowed|recogni[sz]ed)|forbidden)"
_ONE = tuple(
    re.compile(form, re.IGNORECASE)
    for form in (
        # pydantic, and Anthropic: `messages.1.content.0.citations: Extra inputs are not permitted`
        rf"({_PATH}):? (?:extra|unknown) (?:input|field|value|key)s? (?:(?:is|are) )?{_NOT_TAKEN}",
        r"extra_forbidden\W{1,20}loc\W{1,20}([^\]\)]{1,300})[\]\)]",
        # OpenAI, Google, serde, Go: `Unknown parameter: 'input[2].phase'`, `Unknown name "x" at 'tools[0]'`
        rf"(?:{_UNKNOWN})(?: request)? (?:{_KIND})s?:? [`'\"]({_PATH})[`'\"]",
        rf"(?:{_UNKNOWN})(?: request)? (?:{_KIND})s?:? ({_PATH})",
        # JSON Schema, Groq: `('x' was unexpected)`, `property 'messages.0.x' is unsupported`
        rf"[`'\"]({_PATH})[`'\"] (?:(?:was|were|is|are) )?(?:unexpected|unsupported|{_NOT_TAKEN})",
        rf"(?:{_KIND}) [`'\"]({_PATH})[`'\"] is not supported",
    )
)
"""Messages that name one field each time. Each part is bounded: a hostile message is long."""
_SEVERAL = re.compile(rf"unrecogni[sz]ed request arguments? supplied: ({_PATH}(?:, {_PATH}){{0,7}})", re.IGNORECASE)
_MOST = 8
"""So many fields are left out after one refusal."""
_NEEDED = frozenset(
    {
        *("model", "messages", "input", "contents", "prompt", "system", "systemInstruction", "system_instruction"),
        *("instructions", "role", "type", "content", "parts", "text", "name", "id", "output", "source", "data", "url"),
        *("previous_response_id", "conversation", "background", "stream", "n", "candidateCount", "generationConfig"),
        *("tools", "functions", "functionDeclarations", "function_declarations", "tool_choice", "function_call"),
        *("toolConfig", "function", "tool_calls", "arguments", "args", "functionCall", "functionResponse", "response"),
        *("tool_call_id", "call_id", "tool_use_id", "image_url", "file_data", "file_id", "inlineData", "fileData"),
        *("input_audio", "video_url", "audio_url", "audio", "modalities", "mcp_servers", "plugins", "documents"),
        *("web_search_options", "response_format", "format", "json_schema", "structured_outputs", "grammar"),
        *("guided_json", "guided_regex", "guided_choice", "guided_grammar", "max_tokens", "max_completion_tokens"),
        *("max_output_tokens", "maxOutputTokens", "parameters", "input_schema", "schema", "properties"),
        *("required", "items", "enum", "anyOf", "oneOf", "allOf", "$ref", "$defs", "definitions"),
    }
)
"""Fields of a conversation, of what is asked for, and of what a function takes."""
_NEEDED_WITHIN = _NEEDED | {"thinking"}
"""Those of an entry: at the top of a body that field is a switch, in a block it is the text."""
_VALUES = frozenset({"arguments", "args", "response", "output", "metadata", "default", "const", "enum", "examples"})
"""Fields whose values are the client's own."""
_NAMED = frozenset({"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"})
"""Fields whose values have the client's own names."""


def find_unknown_fields(message: str) -> tuple[str, ...]:
    """Return the fields that a server says it does not know, as `drop_fields` takes them: `*.name` for one within an
    entry of the body, else `name`. Empty if there are too many."""
    paths = [match[1] for form in _ONE for match in form.finditer(message)]
    paths += [path for match in _SEVERAL.finditer(message) for path in match[1].split(", ")]
    found = tuple(dict.fromkeys([field for path in paths if (field := _read(path)) is not None]))
    return found if len(found) <= _MOST else ()


def _read(path: str) -> str | None:
    """Return the last name of a path, and whether there are others before it."""
    names = [name for name in re.split(r"[^\w$-]+", path) if name and not name.isdigit()]
    if not names or len(names[-1]) > 64:
        return None
    within = [name for name in names[:-1] if name not in ("body", "request")]
    return f"*.{names[-1]}" if within else names[-1]


def drop_fields(body: Json, fields: Sequence[str]) -> Json | None:
    """Return the body without these fields; None if it has none of them, or needs one. Every entry of a conversation
    and every function loses them, because a server may name the first one alone. What is needed is null where it can be
    left out."""
    dropped: set[str] = set()

    def keeps(key: str, value: Any, name: str, needed: Set[str] = _NEEDED_WITHIN) -> bool:
        if key != name or (name in needed and value is not None):
            return True
        dropped.add(name)
        return False

    def drop(value: Any, name: str, *, holds_names: bool = False) -> Any:
        if isinstance(value, list):
            return [drop(one, name) for one in value]
        if not isinstance(value, dict):
            return value
        return {
            key: drop_from(key, one, name, holds_names=holds_names)
            for key, one in value.items()
            if holds_names or keeps(key, one, name)
        }

    def drop_from(key: str, value: Any, name: str, *, holds_names: bool) -> Any:
        if not holds_names and (key in _VALUES or (key == "input" and isinstance(value, dict))):
            return value
        return drop(value, name, holds_names=key in _NAMED and not holds_names)

    for field in fields:
        name = field.removeprefix("*.")
        if field == name and name in body:
            body = {key: value for key, value in body.items() if keeps(key, value, name, _NEEDED)}
        else:
            body = {key: value if key == name else drop(value, name) for key, value in body.items()}
        if name in _NEEDED_WITHIN and name not in dropped:
            return None
    return body if dropped else None
