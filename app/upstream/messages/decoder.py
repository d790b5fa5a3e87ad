"""Decode the JSON objects of a reply of the Messages API.

Nearly all of them are deltas with one text, which become a `TextPart`. Every other object becomes a dict.
"""

import json
from typing import Any, Literal

import msgspec
from msgspec import Struct

from app.upstream.reply.chunk import MAX_NESTING, is_too_deep


class PartDelta(Struct, gc=False):
    type: Literal["text_delta", "thinking_delta", "input_json_delta"]
    text: str = ""
    thinking: str = ""
    partial_json: str = ""


class TextPart(Struct, gc=False):
    """A delta of a block that adds to its text, its thinking or its input."""

    type: Literal["content_block_delta"]
    index: int
    delta: PartDelta
    data: bytes = b""
    """What it was decoded from."""


_decode = msgspec.json.Decoder(dict[str, Any]).decode
_decode_text_part = msgspec.json.Decoder(TextPart).decode


class RaggedObject(dict[str, Any]):
    """An object whose texts may begin or end with half a character: servers cut UTF-16 between two deltas."""


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


class KeptObject(RaggedObject):
    """An object with the text that it was decoded from."""

    text: str


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
