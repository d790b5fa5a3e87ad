"""Decode the JSON values of a reply of the Gemini API: one chunk, or a list of chunks, as servers send them without
`alt=sse`."""

from typing import Any, TypeAlias

import msgspec

from app.upstream.reply.chunk import MAX_NESTING, is_too_deep
from app.upstream.reply.odd_json import clean, load

Json: TypeAlias = dict[str, Any]

_decode = msgspec.json.Decoder(Json | list[Json]).decode


def decode(data: bytes) -> list[Json]:
    """Decode one value into its chunks. Raises ValueError for anything else, and if it is nested too deeply."""
    if len(data) > 2 * MAX_NESTING and is_too_deep(data):
        raise ValueError("nested too deeply")
    try:
        value: Any = _decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError):
        value = clean(load(data))
    chunks = value if isinstance(value, list) else [value]
    if not all(isinstance(chunk, dict) for chunk in chunks):
        raise ValueError("not an object")
    return chunks
