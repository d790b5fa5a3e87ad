"""The result of `tools/call` as content of a message (MCP 2025-11-25, server/tools, "Tool Result").

Texts and words for resources are joined by line breaks, in the server's order, with images and audio between them.
What exceeds a limit is cut, and the text says so.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from app.chat.messages import Media, Text
from app.chat.server_tools import ToolAnswer, ToolError

_AUDIO_FORMATS = {
    "audio/wav": "wav",
    "audio/x-wav": "wav",
    "audio/wave": "wav",
    "audio/mpeg": "mp3",
    "audio/mp3": "mp3",
}
MAX_ERROR_CHARACTERS = 2000
"""Of the message of a JSON-RPC error."""


def read_result(result: Mapping[str, Any], max_text_bytes: int, max_media_bytes: int) -> ToolAnswer:
    """Return the answer for the result object of a server, which may have any form."""
    blocks = result.get("content")
    parts = _read_blocks(blocks if isinstance(blocks, list) else (), max_media_bytes)
    is_error = result.get("isError") is True
    if result.get("resultType") == "input_required":
        return fail("the tool asked for more input, which the gateway cannot give", -32603)
    if not _has_content(parts) and isinstance(result.get("structuredContent"), dict | list):
        parts = [Text(json.dumps(result["structuredContent"], ensure_ascii=False))]
    if not _has_content(parts):
        parts = [Text("Error" if is_error else "")]
    content = _cut(_join_texts(parts), max_text_bytes)
    error = ToolError("execution", 0, _first_text(content)) if is_error else None
    return ToolAnswer(content, error, "error" if is_error else "ok", _measure(content))


def fail(message: str, code: int, kind: Literal["protocol", "http"] = "protocol") -> ToolAnswer:
    """Return the answer to a call that was sent, or may have been, and brought no result."""
    text = f"Error: {message[:MAX_ERROR_CHARACTERS]}" if message else "Error"
    return ToolAnswer((Text(text),), ToolError(kind, code, message[:MAX_ERROR_CHARACTERS]), "error", len(text.encode()))


def _read_blocks(blocks: Sequence[Any], max_media_bytes: int) -> list[Text | Media]:
    parts: list[Text | Media] = []
    for block in blocks:
        if not isinstance(block, dict):
            continue
        part = _read_block(block, max_media_bytes)
        if isinstance(part, Media):
            max_media_bytes -= len(part.urls[0]) * 3 // 4
        parts.append(part)
    return parts


def _read_block(block: Mapping[str, Any], max_media_bytes: int) -> Text | Media:
    match block:
        case {"type": "text", "text": str(text)}:
            return Text(text)
        case {"type": "image" | "audio" as kind, "data": str(data)}:
            return _read_media(kind, data, str(block.get("mimeType") or f"{kind}/*"), max_media_bytes)
        case {"type": "resource", "resource": {"text": str(text)}}:
            return Text(text)
        case {"type": "resource", "resource": {"blob": str(blob)} as resource}:
            uri, media_type = resource.get("uri", ""), resource.get("mimeType") or "application/octet-stream"
            return Text(f"[resource: {uri}, {media_type}, {_count_bytes(blob)} bytes]")
        case {"type": "resource_link"}:
            return Text(f"[resource: {block.get('name', '')}, {block.get('uri', '')}]")
    return Text(f"[content of the unknown type {str(block.get('type'))[:64]!r}]")


def _read_media(kind: Literal["image", "audio"], data: str, media_type: str, most: int) -> Text | Media:
    size = _count_bytes(data)
    if size > most:
        return Text(f"[{kind}: {media_type}, {size} bytes, left out because it is too large]")
    media_type = media_type.partition(";")[0].strip().lower()
    return Media(kind, (f"data:{media_type};base64,{data}",), format=_AUDIO_FORMATS.get(media_type))


def _count_bytes(base64_text: str) -> int:
    padding = 2 if base64_text.endswith("==") else int(base64_text.endswith("="))
    return max(0, len(base64_text) * 3 // 4 - padding)


def _has_content(parts: Sequence[Text | Media]) -> bool:
    return any(isinstance(part, Media) or part.text for part in parts)


def _join_texts(parts: Sequence[Text | Media]) -> list[Text | Media]:
    """Join texts that follow each other."""
    joined: list[Text | Media] = []
    for part in parts:
        if isinstance(part, Text) and joined and isinstance(joined[-1], Text):
            joined[-1] = Text(f"{joined[-1].text}\n{part.text}")
        else:
            joined.append(part)
    return joined


def _cut(parts: Sequence[Text | Media], most: int) -> tuple[Text | Media, ...]:
    """Cut the texts between characters where together they exceed so many bytes, and say how many are left out."""
    sizes = [len(_encode(part.text)) if isinstance(part, Text) else 0 for part in parts]
    total, left = sum(sizes), most
    if total <= most:
        return tuple(parts)
    kept: list[Text | Media] = []
    for part, size in zip(parts, sizes, strict=True):
        if isinstance(part, Media):
            kept.append(part)
        elif left > 0:
            text = part.text if size <= left else _encode(part.text)[:left].decode(errors="ignore")
            kept.append(Text(text))
            left = left - size if size <= left else 0
    shown = sum(len(_encode(part.text)) for part in kept if isinstance(part, Text))
    note = f"[… {total - shown} of {total} bytes left out]"
    return tuple(_join_texts([*kept, Text(note)]))


def _encode(text: str) -> bytes:
    return text.encode("utf-8", "replace")


def _first_text(parts: Sequence[Text | Media]) -> str:
    return next((part.text for part in parts if isinstance(part, Text)), "")


def _measure(parts: Sequence[Text | Media]) -> int:
    return sum(
        len(_encode(part.text)) if isinstance(part, Text) else _count_bytes(part.urls[0].partition(",")[2])
        for part in parts
    )
