"""Decode chunks whose fields have unusual types, by conversions that lose nothing.

What cannot be converted is named in `unread`, from which the assembler makes a warning.
"""

import json
from contextlib import suppress
from typing import Any

from app.upstream.chat_completions.reasoning_details import get_details_text
from app.upstream.reply.chunk import (
    Chunk,
    ChunkChoice,
    ChunkDelta,
    FunctionFragment,
    ToolCallFragment,
    is_too_deep,
)
from app.upstream.reply.odd_json import clean, join_surrogates

_THOUGHT_TYPES = ("thinking", "reasoning", "redacted_thinking")
_CALL_TYPES = ("tool_use", "tool_call", "function_call", "function")
_ARGUMENT_KEYS = ("arguments", "input", "parameters", "args")
_TEXT_TYPES = ("text", "output_text", "input_text")
_TOOL_ROLES = ("tool", "function")
_REASONING_FIELDS = ("reasoning_content", "reasoning", "reasoning_text")
_OPAQUE_FIELDS = ("reasoning_opaque", "cot_id")
_CHOICE_FIELDS = frozenset({"index", "delta", "message", "messages", "text", "finish_reason"})
_CALL_FIELDS = frozenset({"index", "id", "function", "name", "custom", "call_id"})
_TYPE_NAMES = {str: "a string", list: "a list", dict: "an object", bool: "true or false", int: "a number"}


def decode_leniently(value: Any) -> Chunk | None:
    """Build a chunk from a JSON value; None if it is not an object or a list that contains one."""
    value = _find_object(value)
    if value is None:
        return None
    choices = _to_items(value.get("choices"), _CHOICE_FIELDS)
    return Chunk(
        choices=None if choices is None else [_parse_choice(item) for item in choices if isinstance(item, dict)],
        usage=_to_mapping(value.get("usage")),
        error=clean(value.get("error")),
        x_groq=_to_mapping(value.get("x_groq")),
        base_resp=_to_mapping(value.get("base_resp")),
        object=value.get("object") if isinstance(value.get("object"), str) else None,
        citations=clean(value.get("citations")),
        search_results=clean(value.get("search_results")),
    )


def find_inner_reply(value: dict[str, Any]) -> Chunk | None:
    """Return the chunk that is the value of a field of an object without choices, with the usage that may be beside it:
    ClinePass puts whole replies into `data` (cline/cline#12647). None if there is none, or an error beside it."""
    if value.get("error"):
        return None
    for inner in value.values():
        if isinstance(inner, dict) and inner.get("choices"):
            chunk = decode_leniently({"usage": value.get("usage")} | inner)
            return chunk if chunk is not None and chunk.choices else None
    return None


def find_object(value: Any) -> dict[str, Any] | None:
    """Return a JSON value, or the first object in a list, without half surrogate pairs; None if there is no object."""
    return _to_mapping(_find_object(value))


def _find_object(value: Any) -> dict[str, Any] | None:
    if isinstance(value, list):
        value = next((item for item in value if isinstance(item, dict)), None)
    return value if isinstance(value, dict) else None


def _parse_choice(value: dict[str, Any]) -> ChunkChoice:
    delta, message = value.get("delta"), value.get("message")
    if message is None and delta is None:
        message = _find_answer(value.get("messages"))
    if calls := value.get("tool_calls"):
        delta, message = _add_calls(delta, message, calls)
    return ChunkChoice(
        index=_parse_index(value.get("index")) or 0,
        delta=_parse_delta(delta),
        message=_parse_delta(message),
        text=_find_text(value.get("text")),
        finish_reason=_find_word(value.get("finish_reason")) or _find_word(value.get("finishReason")),
        native_finish_reason=clean(value.get("native_finish_reason")),
        usage=_to_mapping(value.get("usage")),
        error=clean(value.get("error")) or _find_error(delta) or _find_error(message),
        stop_reason=clean(value.get("stop_reason")),
        matched_stop=clean(value.get("matched_stop")),
    )


def _add_calls(delta: Any, message: Any, calls: Any) -> tuple[Any, Any]:
    """Return the delta or the message of a choice with the calls that are beside it."""
    if isinstance(message, dict) and delta is None:
        return delta, {"tool_calls": calls, **message}
    return ({"tool_calls": calls, **delta} if isinstance(delta, dict) else delta or {"tool_calls": calls}), message


def _find_word(reason: Any) -> str | None:
    """Return a finish reason that is a text, the `type` of an object (SGLang's own API), or the only item of a list."""
    if isinstance(reason, list) and len(reason) == 1:
        reason = reason[0]
    if isinstance(reason, dict):
        reason = reason.get("type") or reason.get("reason")
    return join_surrogates(reason) if isinstance(reason, str) else None


def _find_error(delta: Any) -> Any:
    return clean(delta.get("error")) if isinstance(delta, dict) else None


def _find_answer(messages: Any) -> Any:
    """Return the answer in `messages`, which MiniMax sends after a search of its own: question, search, result and
    answer."""
    for message in reversed(messages) if isinstance(messages, list) else ():
        if isinstance(message, dict) and message.get("role") in ("assistant", None):
            return message
    return None


def _parse_delta(value: Any) -> ChunkDelta | None:
    unread: list[str] = []
    if isinstance(value, list):
        if len(value) > 1:
            unread.append(f"a delta that is a list of {len(value)}, of which the first one is read")
        value = value[0] if value else None
    if value is None:
        return None
    if isinstance(value, str):
        return ChunkDelta(content=value, is_odd=bool(unread), unread=unread or None)
    if not isinstance(value, dict):
        return ChunkDelta(is_odd=True, unread=[f"a delta that is {_name_type(value)}"])
    content = value.get("content")
    parts = _Parts(value.get("text") if content is None else content, unread)
    details = [_clean_detail(item) for item in _to_list(value.get("reasoning_details"), "reasoning_details", unread)]
    reasoning = {key: _find_thought(value.get(key), key, unread) for key in _REASONING_FIELDS}
    fields = value.get("provider_specific_fields")
    blocks = value.get("thinking_blocks") or (fields.get("thinking_blocks") if isinstance(fields, dict) else None)
    blocks = _to_list(blocks, "thinking_blocks", unread)
    reasoning["reasoning_content"] = reasoning["reasoning_content"] or parts.thought or None
    if not any(reasoning.values()):
        reasoning["reasoning_content"] = _find_late_thought(value, details, blocks)
    signed = [clean(part) for part in (*blocks, *parts.thoughts) if _is_signed(part)]
    block_text = "".join(map(_find_part_thought, blocks))
    calls = _find_calls(value.get("tool_calls"), unread) or parts.calls
    opaque = _find_opaque_fields(value)
    role = value.get("role")
    is_tool_result = isinstance(role, str) and role.lower() in _TOOL_ROLES
    return ChunkDelta(
        content=parts.text,
        reasoning_content=reasoning["reasoning_content"],
        reasoning=reasoning["reasoning"],
        reasoning_text=reasoning["reasoning_text"],
        reasoning_details=details or None,
        tool_calls=[call for item in calls if (call := _parse_call(item, unread)) is not None] or None,
        function_call=_parse_function(value.get("function_call"), {}, unread),
        refusal=_find_value_text(value.get("refusal") or None),
        audio=_to_mapping(value.get("audio")),
        annotations=[clean(item) for item in _to_list(value.get("annotations"), "annotations", unread)] or None,
        images=[clean(item) for item in _to_list(value.get("images"), "images", unread)] + parts.pictures or None,
        extra_content=clean(value.get("extra_content")),
        tool_call_id=_parse_id(value.get("tool_call_id")),
        is_odd=is_tool_result or bool(signed) or bool(unread) or bool(opaque) or bool(block_text),
        is_tool_result=is_tool_result,
        signed_blocks=signed or None,
        block_text=block_text or None,
        opaque_fields=opaque or None,
        unread=unread or None,
    )


def _find_opaque_fields(delta: dict[str, Any]) -> dict[str, Any]:
    """Return the fields that the server wants back as they are: those that only it can read, and a list of reasoning,
    whose items may be signed (SAP)."""
    fields: dict[str, Any] = {name: clean(delta[name]) for name in _OPAQUE_FIELDS if isinstance(delta.get(name), str)}
    for name in _REASONING_FIELDS:
        items = delta.get(name)
        if isinstance(items, list) and items and all(isinstance(item, dict) for item in items):
            fields[name] = clean(items)
    return {name: value for name, value in fields.items() if value}


def _find_calls(value: Any, unread: list[str]) -> list[Any]:
    """Return the items of `tool_calls`, also of a text that is JSON and of lists in the list."""
    if isinstance(value, str) and not is_too_deep(value.encode("utf-8", "replace")):
        with suppress(ValueError):
            value = json.loads(value)
    calls = _to_items(value, _CALL_FIELDS)
    if calls is None:
        if value:
            unread.append(f"tool_calls that are {_name_type(value)}")
        return []
    return [call for item in calls for call in (item if isinstance(item, list) else (item,))]


def _find_late_thought(delta: dict[str, Any], details: list[Any], blocks: list[Any]) -> str | None:
    """Return the reasoning of a delta that has none in the usual fields of text."""
    fields = delta.get("provider_specific_fields")
    text = _find_text(delta.get("thinking")) or (
        _find_text(fields.get("reasoning_content")) if isinstance(fields, dict) else None
    )
    if text or get_details_text(details):
        return text
    return "".join(_find_part_thought(block) for block in blocks) or None


class _Parts:
    """What a `content` is made of: a text, a list of typed parts (Mistral, Databricks), or any other JSON value, which
    is its JSON text (Cloudflare's JSON mode)."""

    def __init__(self, content: Any, unread: list[str]) -> None:
        self.text = self.thought = ""
        self.pictures: list[Any] = []
        self.thoughts: list[Any] = []
        self.calls: list[Any] = []
        if isinstance(content, list):
            if any(_is_part(item) or _has_type(item) for item in content):
                for item in content:
                    self._add(item, unread)
            elif any(item is not None for item in content):
                self.text = _write_json(content)
        elif isinstance(content, dict) and _is_part(content):
            self._add(content, unread)
        else:
            self.text = _find_value_text(content) or ""

    def _add(self, part: Any, unread: list[str]) -> None:
        if not isinstance(part, dict):
            self.text += _find_value_text(part) or ""
        elif part.get("type") in _THOUGHT_TYPES:
            self.thought += _find_part_thought(part)
            self.thoughts.append(part)
        elif "image_url" in part:
            self.pictures.append(clean(part))
        elif _is_call(part):
            self.calls.append({**part, "type": "function", "id": part.get("call_id") or part.get("id")})
        elif (text := _find_text(part)) is not None:
            self.text += text
        elif not isinstance(part.get("type"), str):
            self.text += _write_json(part)
        elif part["type"] not in _TEXT_TYPES:
            unread.append(f"a content part of type {part['type']!r}")


def _is_call(part: dict[str, Any]) -> bool:
    """Whether a part of the content is a call, as in Anthropic's Messages and in Responses."""
    if part.get("type") not in _CALL_TYPES:
        return False
    return isinstance(part.get("name"), str) or isinstance(part.get("function"), dict)


def _is_part(value: Any) -> bool:
    """Whether a value is a text, or an object that servers send as a part of the content."""
    if not isinstance(value, dict):
        return isinstance(value, str)
    if value.get("type") in (*_THOUGHT_TYPES, *_TEXT_TYPES) or "image_url" in value or _is_call(value):
        return True
    return _find_text(value) is not None and (isinstance(value.get("type"), str) or len(value) == 1)


def _has_type(item: Any) -> bool:
    """Whether an item of a list is a part by its type, which may be an unknown one."""
    return isinstance(item, dict) and isinstance(item.get("type"), str) and item["type"] != ""


def _is_signed(part: Any) -> bool:
    """Whether a part of reasoning, or an item of its summary (Databricks), has a signature or encrypted data."""
    if not isinstance(part, dict):
        return False
    summary = part.get("summary")
    items = [part, *summary] if isinstance(summary, list) else [part]
    return any(isinstance(item, dict) and (item.get("signature") or item.get("data")) for item in items)


def _find_part_thought(part: Any) -> str:
    """Return the text of a part of reasoning, or of an item of `thinking_blocks`."""
    if not isinstance(part, dict):
        return ""
    texts = (_find_text(part.get(key)) for key in ("thinking", "text", "reasoning", "summary", "content"))
    return next((text for text in texts if text), "")


def _find_thought(value: Any, name: str, unread: list[str]) -> str | None:
    """Return the text of a reasoning field."""
    text = _find_text(value)
    if text is None and isinstance(value, dict):
        text = _find_part_thought(value) or None
    if text is None and value:
        unread.append(f"{name} that is {_name_type(value)}")
    return text


def _name_type(value: Any) -> str:
    return _TYPE_NAMES.get(type(value), "a number")


def _to_list(value: Any, name: str, unread: list[str]) -> list[Any]:
    if isinstance(value, list):
        return value
    if isinstance(value, dict):
        return [value]
    if value:
        unread.append(f"{name} that is {_name_type(value)}")
    return []


def _to_items(value: Any, fields: frozenset[str]) -> list[Any] | None:
    """Return the items of a list, of an object that has them by number, or the one item that is there instead."""
    if isinstance(value, dict):
        return [value] if fields & value.keys() else list(value.values())
    return value if isinstance(value, list) else None


def _find_text(value: Any) -> str | None:
    """Return the text of a string, of an object with `text` or `content`, or of a list of either."""
    if value is None:
        return None
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        return "".join(_find_text(item) or "" for item in value)
    if isinstance(value, dict):
        return next(
            (_find_text(value[key]) for key in ("text", "content") if isinstance(value.get(key), str | list)), None
        )
    return str(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def _find_value_text(value: Any) -> str | None:
    """Return a text, or that of a part; of any other JSON value its JSON text."""
    if value is None or isinstance(value, str):
        return value
    if _is_part(value) or (isinstance(value, list) and (not value or any(_is_part(item) for item in value))):
        return _find_text(value)
    return _write_json(value)


def _write_json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _parse_call(value: Any, unread: list[str]) -> ToolCallFragment | None:
    if not isinstance(value, dict):
        unread.append(f"a tool call that is {_name_type(value)}")
        return None
    return ToolCallFragment(
        index=_parse_index(value.get("index")),
        id=_parse_id(value.get("id")),
        function=_parse_function(value.get("function"), value, unread),
        extra_content=clean(value.get("extra_content")),
        type=value.get("type") if isinstance(value.get("type"), str) else None,
        custom=clean(value.get("custom")),
    )


def _parse_id(value: Any) -> str | None:
    if isinstance(value, str):
        return join_surrogates(value)
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else None


def _parse_function(function: Any, call: dict[str, Any], unread: list[str]) -> FunctionFragment | None:
    """Read the name and arguments of a call: in its `function`, beside it, or with `function` as the name."""
    if isinstance(function, str):
        function = {"name": function}
    elif function is not None and not isinstance(function, dict):
        unread.append(f"a function that is {_name_type(function)}")
        function = {}
    inside = function or {}
    name = call.get("name") if inside.get("name") is None else inside["name"]
    found = (holder[key] for key in _ARGUMENT_KEYS for holder in (inside, call) if holder.get(key) is not None)
    arguments = next(found, None)
    if name is None and arguments is None and function is None:
        return None
    if arguments is not None and not isinstance(arguments, str):
        arguments = _write_json(arguments)
    return FunctionFragment(name=join_surrogates(name) if isinstance(name, str) else None, arguments=arguments)


def _parse_index(value: Any) -> int | None:
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return value
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 20:
        return int(value)
    return None


def _to_mapping(value: Any) -> dict[str, Any] | None:
    return clean(value) if isinstance(value, dict) else None


def _clean_detail(value: Any) -> Any:
    """Clean an item of `reasoning_details`. Its text keeps half surrogate pairs: SurrogateJoiner joins them later."""
    if not isinstance(value, dict):
        return clean(value)
    text = {key: value[key] for key in ("text", "summary") if isinstance(value.get(key), str)}
    return {**clean(value), **text}
