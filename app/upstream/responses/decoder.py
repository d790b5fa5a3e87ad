"""Decode the events of a Responses server, and a whole reply.

What the strict decoder refuses (a number as text, invalid UTF-8, half a surrogate pair) is read leniently.
"""

import json
from typing import Any

import msgspec

from app.upstream.reply.chunk import MAX_NESTING, is_too_deep
from app.upstream.responses.event import KeptEvent, ResponseEvent

_TEXTS = ("type", "delta", "text", "refusal", "arguments", "input", "item_id")
_NUMBERS = ("output_index", "content_index", "summary_index")
_OBJECTS = ("item", "response", "annotation")

_strict = msgspec.json.Decoder(ResponseEvent).decode
_decode_any = msgspec.json.Decoder(dict[str, Any]).decode


def decode_kept(data: bytes) -> KeptEvent:
    """Decode an event and keep its text, as one line. Raises ValueError as `decode` does."""
    event = decode(data)
    text = data.decode("utf-8", "replace").strip()
    if "\n" in text or "\r" in text:
        text = json.dumps(json.loads(text), ensure_ascii=False)
    return KeptEvent(event, text)


def decode(data: bytes) -> ResponseEvent | None:
    """Decode an event; None for JSON that is not an object.

    Raises ValueError if `data` is not one whole JSON value, or is nested too deeply.
    """
    if len(data) > 2 * MAX_NESTING and is_too_deep(data):
        raise ValueError("nested too deeply")
    try:
        event = _strict(data)
        if not event.type or event.type == "error":
            event.whole = _decode_any(data)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return _decode_leniently(data)
    return event


def _decode_leniently(data: bytes) -> ResponseEvent | None:
    value = json.loads(data.decode("utf-8", "replace"))
    if not isinstance(value, dict):
        return None
    event = ResponseEvent(ragged=b"\\ud" in data.lower())
    for name in _TEXTS:
        if isinstance(text := value.get(name), str):
            setattr(event, name, text if name == "delta" else join_halves(text))
    for name in _NUMBERS:
        number = value.get(name)
        if isinstance(number, int) or (isinstance(number, float) and number.is_integer()):
            setattr(event, name, int(number))
    for name in _OBJECTS:
        if isinstance(item := value.get(name), dict):
            setattr(event, name, _clean(item))
    if not event.type or event.type == "error":
        event.whole = _clean(value)
    return event


def join_halves(text: str) -> str:
    """Join halves of surrogate pairs to characters; one half alone becomes U+FFFD, because UTF-8 cannot encode it."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _clean(value: Any) -> Any:
    if isinstance(value, str):
        return join_halves(value)
    if isinstance(value, dict):
        return {join_halves(name): _clean(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_clean(item) for item in value]
    return value
