"""Decode the JSON objects of a reply of the Messages API."""

import json
from typing import Any

import msgspec

from app.upstream.reply.chunk import is_too_deep

_decode = msgspec.json.Decoder(dict[str, Any]).decode


class RaggedObject(dict[str, Any]):
    """An object whose texts may begin or end with half a character: servers cut UTF-16 between two deltas."""


def decode(data: bytes) -> dict[str, Any]:
    """Decode one object. Raises ValueError for anything else, and for one that is nested too deeply."""
    if is_too_deep(data):
        raise ValueError("nested too deeply")
    try:
        return _decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError):
        value = json.loads(data)
    if not isinstance(value, dict):
        raise ValueError("not an object")
    return RaggedObject(value)


def join_surrogates(text: str) -> tuple[str, str]:
    """Return (text, half): the text with each pair of surrogates as one character, without a half at its end. Other
    halves become U+FFFD."""
    half = text[-1:] if "\ud800" <= text[-1:] <= "\udbff" else ""
    text = text[: len(text) - len(half)]
    if text.isascii():
        return text, half
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace"), half


class KeptObject(RaggedObject):
    """An object with the text that it was decoded from."""

    text: str


def decode_kept(data: bytes) -> KeptObject:
    """Decode one object and keep its text. Raises ValueError as `decode` does."""
    value = KeptObject(decode(data))
    text = data.decode("utf-8", "replace").strip()
    value.text = json.dumps(value, ensure_ascii=False) if "\n" in text or "\r" in text else text
    return value
