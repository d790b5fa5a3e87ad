"""The result of `tools/call` as content of a message (MCP 2025-11-25, server/tools, "Tool Result").

Texts and words for resources are joined by line breaks, in the server's order, with images and audio between them.
What exceeds a limit is cut before it is joined, and the text says so. The work grows with the size of a result only.
"""

import json
import re
from collections.abc import Mapping, Sequence
from itertools import groupby, pairwise
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
MAX_MEDIA = 100
"""Of one result. Each becomes a part of messages, however small it is."""
_INTERNAL_ERROR = -32603
_MAX_CODE = 2**53 - 1
"""Error codes are integers of any size in JSON; clients in JavaScript read these exactly."""
_MEDIA_TYPE = re.compile(r"[a-z]+/[a-z0-9][a-z0-9!#$&^_.+-]{0,126}")
"""RFC 6838, section 4.2."""
_NO_BASE64 = re.compile(r"[^A-Za-z0-9+/=\s_-]")


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
        parts = [Text("Error")] if is_error else []
    content = _join_texts(_cut(parts, max_text_bytes))
    error = ToolError("execution", 0, _first_text(content)) if is_error else None
    return ToolAnswer(content, error, "error" if is_error else "ok", _measure(content))


def fail(message: str, code: int, kind: Literal["protocol", "http"] = "protocol") -> ToolAnswer:
    """Return the answer to a call that was sent, or may have been, and brought no result."""
    message = message[:MAX_ERROR_CHARACTERS]
    text = f"Error: {message}" if message else "Error"
    code = code if abs(code) <= _MAX_CODE else _INTERNAL_ERROR
    return ToolAnswer((Text(text),), ToolError(kind, code, message), "error", len(_encode(text)))


def _read_blocks(blocks: Sequence[Any], max_media_bytes: int) -> list[Text | Media]:
    parts: list[Text | Media] = []
    media = 0
    for block in blocks:
        if not isinstance(block, dict):
            continue
        part = _read_block(block, max_media_bytes)
        if isinstance(part, Media):
            media += 1
            max_media_bytes -= len(part.urls[0]) * 3 // 4
            if media > MAX_MEDIA:
                part = Text(f"[{part.media}: left out because the result has more than {MAX_MEDIA} media]")
        parts.append(part)
    return parts


def _read_block(block: Mapping[str, Any], max_media_bytes: int) -> Text | Media:
    match block:
        case {"type": "text", "text": str(text)}:
            return Text(text)
        case {"type": "image" | "audio" as kind, "data": str(data)}:
            return _read_media(kind, data, block.get("mimeType"), max_media_bytes)
        case {"type": "resource", "resource": {"text": str(text)}}:
            return Text(text)
        case {"type": "resource", "resource": {"blob": str(blob)} as resource}:
            media_type = _read_media_type(resource.get("mimeType")) or "application/octet-stream"
            return Text(f"[resource: {resource.get('uri', '')}, {media_type}, {_count_bytes(blob)} bytes]")
        case {"type": "resource_link"}:
            return Text(f"[resource: {block.get('name', '')}, {block.get('uri', '')}]")
    return Text(f"[content of the unknown type {str(block.get('type'))[:64]!r}]")


def _read_media(kind: Literal["image", "audio"], data: str, given_type: Any, most: int) -> Text | Media:
    size, media_type = _count_bytes(data), _read_media_type(given_type)
    if media_type is None or not media_type.startswith(f"{kind}/"):
        media_type = f"{kind}/*"
    if size > most:
        return Text(f"[{kind}: {media_type}, {size} bytes, left out because it is too large]")
    if _NO_BASE64.search(data):
        return Text(f"[{kind}: {media_type}, left out because its data is not base64]")
    return Media(kind, (f"data:{media_type};base64,{data}",), format=_AUDIO_FORMATS.get(media_type))


def _read_media_type(given: Any) -> str | None:
    """Return a media type in lower case without parameters; None for anything else."""
    media_type = given.partition(";")[0].strip().lower() if isinstance(given, str) else ""
    return media_type if _MEDIA_TYPE.fullmatch(media_type) else None


def _count_bytes(base64_text: str) -> int:
    padding = 2 if base64_text.endswith("==") else int(base64_text.endswith("="))
    return max(0, len(base64_text) * 3 // 4 - padding)


def _has_content(parts: Sequence[Text | Media]) -> bool:
    return any(isinstance(part, Media) or part.text for part in parts)


def _join_texts(parts: Sequence[Text | Media]) -> tuple[Text | Media, ...]:
    """Join texts that follow each other."""
    joined: list[Text | Media] = []
    for is_media, group in groupby(parts, lambda part: isinstance(part, Media)):
        members = list(group)
        joined += members if is_media else [Text("\n".join([part.text for part in members if isinstance(part, Text)]))]
    return tuple(joined)


def _cut(parts: Sequence[Text | Media], most: int) -> Sequence[Text | Media]:
    """Cut the texts between characters where together they exceed so many bytes, and say how many are left out."""
    total = _count_text(parts)
    if total <= most:
        return parts
    kept: list[Text | Media] = []
    left = most
    for before, part in pairwise([None, *parts]):
        if isinstance(part, Media):
            kept.append(part)
            continue
        left -= isinstance(before, Text)  # the line break between them
        if left > 0 and part is not None:
            data = _encode(part.text[:left])
            kept.append(Text(data[:left].decode(errors="ignore")))
            left = 0 if len(part.text) > left else left - len(data)
    note = f"[… {total - _count_text(kept)} of {total} bytes left out]"
    return [*kept, Text(note)]


def _count_text(parts: Sequence[Text | Media]) -> int:
    """Return how many bytes the texts have when they are joined."""
    breaks = sum(isinstance(one, Text) and isinstance(next_, Text) for one, next_ in pairwise(parts))
    return breaks + sum([len(_encode(part.text)) for part in parts if isinstance(part, Text)])


def _encode(text: str) -> bytes:
    return text.encode("utf-8", "replace")


def _first_text(parts: Sequence[Text | Media]) -> str:
    return next((part.text for part in parts if isinstance(part, Text)), "")


def _measure(parts: Sequence[Text | Media]) -> int:
    return sum(
        len(_encode(part.text)) if isinstance(part, Text) else _count_bytes(part.urls[0].partition(",")[2])
        for part in parts
    )
