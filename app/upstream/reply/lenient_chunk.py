"""Decode chunks whose fields have unusual types, by conversions that lose nothing."""

import json
from typing import Any

from app.upstream.reply.chunk import Chunk, ChunkChoice, ChunkDelta, FunctionFragment, ToolCallFragment


def decode_leniently(value: Any) -> Chunk | None:
    """Build a chunk from a JSON value; None if it is not an object or a list that contains one."""
    value = _find_object(value)
    if value is None:
        return None
    choices = value.get("choices")
    return Chunk(
        choices=[_parse_choice(item) for item in choices if isinstance(item, dict)]
        if isinstance(choices, list)
        else None,
        usage=_to_mapping(value.get("usage")),
        error=_replace_surrogates(value.get("error")),
        x_groq=_to_mapping(value.get("x_groq")),
        base_resp=_to_mapping(value.get("base_resp")),
        object=value.get("object") if isinstance(value.get("object"), str) else None,
        citations=_replace_surrogates(value.get("citations")),
        search_results=_replace_surrogates(value.get("search_results")),
    )


def find_object(value: Any) -> dict[str, Any] | None:
    """Return a JSON value, or the first object in a list, without half surrogate pairs; None if there is no object."""
    return _to_mapping(_find_object(value))


def _find_object(value: Any) -> dict[str, Any] | None:
    if isinstance(value, list):
        value = next((item for item in value if isinstance(item, dict)), None)
    return value if isinstance(value, dict) else None


def _parse_choice(value: dict[str, Any]) -> ChunkChoice:
    reason = value.get("finish_reason")
    return ChunkChoice(
        index=_parse_index(value.get("index")) or 0,
        delta=_parse_delta(value.get("delta")),
        message=_parse_delta(value.get("message")),
        finish_reason=join_surrogates(reason) if isinstance(reason, str) else None,
        native_finish_reason=_replace_surrogates(value.get("native_finish_reason")),
        usage=_to_mapping(value.get("usage")),
        error=_replace_surrogates(value.get("error")),
        stop_reason=_replace_surrogates(value.get("stop_reason")),
        matched_stop=_replace_surrogates(value.get("matched_stop")),
    )


def _parse_delta(value: Any) -> ChunkDelta | None:
    if isinstance(value, str):
        return ChunkDelta(content=value)
    if not isinstance(value, dict):
        return None
    thought, content = _parse_content(value.get("content"))
    pictures, unread = _find_other_parts(value.get("content"))
    images = _to_list(value.get("images")) + pictures
    annotations = _to_list(value.get("annotations"))
    calls = value.get("tool_calls")
    details = value.get("reasoning_details")
    calls = [calls] if isinstance(calls, dict) else calls
    return ChunkDelta(
        content=content,
        reasoning_content=_find_text(value.get("reasoning_content")) or thought or None,
        reasoning=_find_text(value.get("reasoning")),
        reasoning_text=_find_text(value.get("reasoning_text")),
        reasoning_details=[_clean_detail(item) for item in details] if isinstance(details, list) else None,
        tool_calls=[_parse_call(item) for item in calls if isinstance(item, dict)] if isinstance(calls, list) else None,
        function_call=_parse_function(value.get("function_call")),
        refusal=_find_text(value.get("refusal")),
        audio=_to_mapping(value.get("audio")),
        annotations=annotations or None,
        images=images or None,
        extra_content=_replace_surrogates(value.get("extra_content")),
        unread=unread or None,
    )


def _parse_content(value: Any) -> tuple[str, str]:
    """Return (thinking, text) of a `content` that may be a list of typed parts (Mistral)."""
    if not isinstance(value, list):
        return "", _find_text(value) or ""
    thought = content = ""
    for part in value:
        if isinstance(part, dict) and part.get("type") in ("thinking", "reasoning"):
            thought += _find_text(part.get("thinking")) or _find_text(part) or ""
        else:
            content += _find_text(part) or ""
    return thought, content


def _find_other_parts(value: Any) -> tuple[list[Any], list[str]]:
    """Return (image parts, types of unsupported parts) of a `content` that is a list."""
    parts = [part for part in value if isinstance(part, dict)] if isinstance(value, list) else []
    pictures = [_replace_surrogates(part) for part in parts if "image_url" in part]
    return pictures, [
        str(part.get("type"))
        for part in parts
        if "image_url" not in part
        and _find_text(part) is None
        and part.get("type") not in ("thinking", "reasoning", "text", None)
    ]


def _to_list(value: Any) -> list[Any]:
    return [_replace_surrogates(item) for item in value] if isinstance(value, list) else []


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


def join_surrogates(text: str) -> str:
    """Join escaped surrogate pairs to characters; half a pair becomes U+FFFD, because UTF-8 cannot encode it."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _parse_call(value: dict[str, Any]) -> ToolCallFragment:
    function = value.get("function") if "function" in value else value
    id_ = value.get("id")
    return ToolCallFragment(
        index=_parse_index(value.get("index")),
        id=join_surrogates(id_) if isinstance(id_, str) else str(id_) if isinstance(id_, int) else None,
        function=_parse_function(function),
        extra_content=_replace_surrogates(value.get("extra_content")),
        type=value.get("type") if isinstance(value.get("type"), str) else None,
        custom=_replace_surrogates(value.get("custom")),
    )


def _parse_function(value: Any) -> FunctionFragment | None:
    if not isinstance(value, dict):
        return None
    name, arguments = value.get("name"), value.get("arguments")
    if arguments is not None and not isinstance(arguments, str):
        arguments = json.dumps(arguments, ensure_ascii=False)
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
    return _replace_surrogates(value) if isinstance(value, dict) else None


def _clean_detail(value: Any) -> Any:
    """Clean an item of `reasoning_details`. Its text keeps half surrogate pairs: SurrogateJoiner joins them later."""
    if not isinstance(value, dict):
        return _replace_surrogates(value)
    text = {key: value[key] for key in ("text", "summary") if isinstance(value.get(key), str)}
    return {**_replace_surrogates(value), **text}


def _replace_surrogates(value: Any) -> Any:
    """Replace half surrogate pairs in any JSON value, because UTF-8 cannot encode them."""
    if isinstance(value, str):
        return value if value.isascii() else join_surrogates(value)
    if isinstance(value, list):
        return [_replace_surrogates(item) for item in value]
    if isinstance(value, dict):
        return {_replace_surrogates(key): _replace_surrogates(item) for key, item in value.items()}
    return value
