"""Decode the JSON objects of a reply of the Messages API.

Nearly all of them are deltas like an earlier one, which become a `RepeatedEvent`. Every other object becomes a dict.
"""

import re
from collections.abc import Callable
from typing import Any

import msgspec
from typing_extensions import override

from app.upstream.messages.objects import KeptObject, RaggedObject
from app.upstream.reply.chunk import MAX_NESTING, is_too_deep
from app.upstream.reply.odd_json import clean, load, read_as_object
from app.upstream.reply.surrogates import write_line, write_odd
from app.upstream.reply.usual_decoder import PROBE, STRING, RepeatedEventDecoder

TEXT_OF_DELTA = {"text_delta": "text", "thinking_delta": "thinking", "input_json_delta": "partial_json"}
_GROWING_TEXTS = {"text": "text", "thinking": "thinking", **TEXT_OF_DELTA}
_CHANGES = re.compile(
    rb'"(?:text|thinking|partial_json)"\s*:\s*' + STRING % b"text" + rb"|\}(?P<spaces> *)(?=\}\Z)", re.DOTALL
)

_decode = msgspec.json.Decoder(dict[str, Any]).decode


class ObjectDecoder(RepeatedEventDecoder[dict[str, Any]]):
    """Decodes the events of one reply."""

    def __init__(self, decode: Callable[[bytes], dict[str, Any]]) -> None:
        super().__init__(decode, _CHANGES)

    @override
    def _is_like(self, value: dict[str, Any], data: bytes) -> bool:
        delta = value.get("delta")
        name = TEXT_OF_DELTA.get(str(delta.get("type"))) if isinstance(delta, dict) else None
        return name is not None and decode(data) == {**value, "delta": {**value["delta"], name: PROBE}}


def decode(data: bytes) -> dict[str, Any]:
    """Decode one object; an empty one if the value says nothing. Raises ValueError for a list, and for what is not JSON
    or is nested too deeply."""
    if len(data) > 2 * MAX_NESTING and is_too_deep(data):
        raise ValueError("nested too deeply")
    return decode_object(data)


def decode_object(data: bytes) -> dict[str, Any]:
    """Do what `decode` does for a value that is not nested too deeply."""
    try:
        return _decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError):
        value = load(data)
    if isinstance(value, list):
        raise ValueError("not an object")
    return RaggedObject(_clean(read_as_object(value) or {}))


def _clean(value: dict[str, Any]) -> dict[str, Any]:
    """Clean an event but for a text that the next delta may complete."""
    cleaned = clean(value)
    for holder in ("delta", "content_block"):
        part = value.get(holder)
        if isinstance(part, dict):
            name = _GROWING_TEXTS.get(str(part.get("type")), "")
            if isinstance(part.get(name), str):
                cleaned[holder][name] = part[name]
    return cleaned  # type: ignore[no-any-return]  # an object stays one


def decode_kept(data: bytes) -> KeptObject:
    """Decode one object and keep its text. Raises ValueError as `decode` does."""
    value = decode(data)
    kept = KeptObject(value)
    if isinstance(value, RaggedObject):
        kept.text = write_odd(data, is_delta=isinstance(value.get("delta"), dict))
    else:
        kept.text = write_line(data)
    return kept
