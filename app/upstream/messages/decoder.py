"""Decode the JSON objects of a reply of the Messages API.

Nearly all of them are deltas with one text, which become a `TextPart`. Every other object becomes a dict.
"""

import json
from typing import Any

import msgspec

from app.upstream.messages.objects import KeptObject, RaggedObject, TextPart
from app.upstream.reply.chunk import MAX_NESTING, is_too_deep

_decode = msgspec.json.Decoder(dict[str, Any]).decode
_decode_text_part = msgspec.json.Decoder(TextPart).decode


def decode(data: bytes) -> TextPart | dict[str, Any]:
    """Decode one object. Raises ValueError for anything else, and for one that is nested too deeply."""
    if len(data) > 2 * MAX_NESTING and is_too_deep(data):
        raise ValueError("nested too deeply")
    if data.find(b"_delta") >= 0:
        try:
            part = _decode_text_part(data)
        except (msgspec.DecodeError, UnicodeDecodeError):
            return decode_object(data)
        part.data = data
        return part
    return decode_object(data)


def decode_object(data: bytes) -> dict[str, Any]:
    """Decode any object, which is not nested too deeply. Raises ValueError for anything else."""
    try:
        return _decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError):
        value = json.loads(data)
    if not isinstance(value, dict):
        raise ValueError("not an object")
    return RaggedObject(value)


def decode_kept(data: bytes) -> TextPart | KeptObject:
    """Decode one object and keep its text. Raises ValueError as `decode` does."""
    value = decode(data)
    return keep(value, data) if isinstance(value, dict) else value


def keep(value: dict[str, Any], data: bytes) -> KeptObject:
    kept = KeptObject(value)
    kept.text = write_line(data)
    return kept


def write_line(data: bytes) -> str:
    """Return JSON as one line."""
    text = data.decode("utf-8", "replace").strip()
    return json.dumps(json.loads(text), ensure_ascii=False) if "\n" in text or "\r" in text else text
