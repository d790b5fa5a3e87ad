"""Change a body that a server has refused because of fields that it does not know: without them, whatever they are.

The server's message names them. What says what is asked for stays: a request without it would be another one.
"""

import re
from collections.abc import Sequence
from typing import Any

from app.openai_messages.tool_schemas import NAMED_SCHEMAS

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
        # JSON Schema, Groq: `('x' was unexpected)`, `property 'messages.0.x' is unsupported`
        rf"[`'\"]({_PATH})[`'\"] (?:(?:was|were|is|are) )?(?:unexpected|unsupported|{_NOT_TAKEN})",
        rf"(?:{_KIND}) [`'\"]({_PATH})[`'\"] is not supported",
        # xAI
        rf"argument not supported(?: on this model)?: ({_PATH})",
        # xAI: `Model grok does not support parameter presencePenalty.`
        rf"(?:does not|doesn't) support (?:the )?(?:{_KIND})s? [`'\"]?({_PATH})",
    )
)
"""Messages that name one field each time. Each part is bounded: a hostile message is long."""
_NAME = rf"[`'\"]?{_PATH}[`'\"]?"
_SEVERAL = re.compile(
    # OpenAI, Google, serde, Go, NVIDIA: `Unknown parameter: 'input[2].phase'`, `Unsupported parameter(s): a, b`
    rf"(?:{_UNKNOWN})(?: request)? (?:{_KIND})(?:s|\(s\))?(?: supplied)?:? ({_NAME}(?:, {_NAME}){{0,7}})",
    re.IGNORECASE,
)
"""Messages that list fields."""
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
        *("maxOutputTokens", "parameters", "input_schema", "schema", "properties"),
        *("required", "items", "enum", "anyOf", "oneOf", "allOf", "$ref", "$defs", "definitions"),
    }
)
"""Fields of a conversation, of what is asked for, and of what a function takes. A server of the Responses API may know
no limit of output tokens (justrach/codegraff#247); one of chat completions knows one of its two names."""
_NEEDED_WITHIN = _NEEDED | {"thinking"}
"""Those of an entry: at the top of a body that field is a switch, in a block it is the text."""
_FORBIDS = frozenset({"external_web_access"})
"""Fields that stay where they are false: without them more would be done than the client allows."""
_VALUES = frozenset({"arguments", "args", "response", "output", "metadata", "default", "const", "enum", "examples"})
"""Fields whose values are the client's own."""


def is_option(name: str) -> bool:
    """Whether a field of a body does not say what is asked for."""
    return name not in _NEEDED


def find_unknown_fields(message: str) -> tuple[str, ...]:
    """Return the fields that a server says it does not know, as `drop_fields` takes them: `name` for one at the top of
    the body, `tools.*.name` for one of functions, `*.name` for any other one. Empty if there are more than `_MOST`."""
    paths = [match[1] for form in _ONE for match in form.finditer(message)]
    paths += [path.strip("`'\"") for match in _SEVERAL.finditer(message) for path in match[1].split(", ")]
    found = tuple(dict.fromkeys([field for path in paths if (field := _read(path.rstrip(".:"))) is not None]))
    return found if len(found) <= _MOST else ()


def _read(path: str) -> str | None:
    """Return the last name of a path as `find_unknown_fields` does; None if the path has no name."""
    names = [name for name in re.split(r"[^\w$-]+", path) if name and not name.isdigit()]
    if not names or len(names[-1]) > 64:
        return None
    within = [name for name in names[:-1] if name not in ("body", "request")]
    if within[:1] == ["tools"]:
        return f"tools.*.{names[-1]}"
    return f"*.{names[-1]}" if within else names[-1]


def drop_fields(body: Json, fields: Sequence[str]) -> Json | None:
    """Return the body without these fields; None if it has none of them, or needs one. Every entry of a conversation
    and every function loses them, because a server may name the first one alone. A field that is needed can be left out
    where it is null. `tools.*.name` is one below `tools`, `reasoning.effort` one at that place."""
    dropped: set[str] = set()
    for field in fields:
        holder, _, name = field.rpartition("*.")
        if not holder and field == name and (path := _find_path(body, name)) is not None:
            body = _drop_path(body, path, name, dropped)
        else:
            body = {
                key: value
                if key == name or _is_own(key, value) or holder[:-1] not in ("", key)
                else _drop(value, name, dropped)
                for key, value in body.items()
            }
        if name in _NEEDED_WITHIN and name not in dropped:
            return None
    return body if dropped else None


def _find_path(body: Json, name: str) -> list[str] | None:
    """Return where the body has a field that a server names at its top: there, in another spelling, or in an object of
    the top. xAI's `reasoningEffort` may be `reasoning_effort` or `reasoning.effort`."""
    if name in body:
        return [name]
    letters = _read_letters(name)
    for key, value in body.items():
        if _read_letters(key) == letters:
            return [key]
        if isinstance(value, dict) and key not in _VALUES:
            inner = next((one for one in value if _read_letters(key + one) == letters), None)
            if inner is not None:
                return [key, inner]
    return None


def _read_letters(name: str) -> str:
    return re.sub(r"\W|_", "", name).lower()


def _drop_path(body: Json, path: list[str], name: str, dropped: set[str]) -> Json:
    """Return the body without a field, whose name is added to `dropped` if it can be left out."""
    key, *inner = path
    if inner:
        left = _drop_path(body[key], inner, name, dropped)
        return {**body, key: left} if left else {one: value for one, value in body.items() if one != key}
    if body[key] is not None and key in _NEEDED:
        return body
    dropped.add(name)
    return {one: value for one, value in body.items() if one != key}


def _drop(value: Any, name: str, dropped: set[str], *, has_names: bool = False) -> Any:
    """Return a value without a field, which is added to `dropped` if it was there. `has_names`: the keys are the
    client's own names."""
    if isinstance(value, list):
        return [_drop(one, name, dropped) for one in value]
    if not isinstance(value, dict):
        return value
    left: Json = {}
    for key, one in value.items():
        if has_names:
            left[key] = _drop(one, name, dropped)
        elif key == name and one is False and name in _FORBIDS:
            left[key] = one
        elif key == name and (one is None or name not in _NEEDED_WITHIN):
            dropped.add(name)
        else:
            left[key] = one if _is_own(key, one) else _drop(one, name, dropped, has_names=key in NAMED_SCHEMAS)
    return left


def _is_own(key: str, value: Any) -> bool:
    """Whether what a field has is the client's own: the input of a call of the Messages API is, that of a body of
    Responses is a conversation."""
    return key in _VALUES or (key == "input" and isinstance(value, dict))
