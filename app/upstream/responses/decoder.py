"""Decode the events of a Responses server, and a whole reply.

Nearly all events are deltas like an earlier one, which become a `RepeatedEvent`. What the strict decoder refuses (a
number as text, invalid UTF-8, half a surrogate pair) is read leniently.
"""

import re
from collections.abc import Callable
from typing import Any

import msgspec
from typing_extensions import override

from app.upstream.reply.chunk import MAX_NESTING, is_too_deep
from app.upstream.reply.odd_json import clean, join_surrogates, load, read_as_object
from app.upstream.reply.surrogates import write_line, write_odd
from app.upstream.reply.usual_decoder import PROBE, STRING, RepeatedEvent, RepeatedEventDecoder
from app.upstream.responses.event import KeptEvent, ResponseEvent

_TEXTS = ("type", "delta", "text", "refusal", "arguments", "input", "item_id")
_NUMBERS = ("output_index", "content_index", "summary_index")
_OBJECTS = ("item", "response", "annotation", "part")
_ENDS = ("completed", "incomplete", "failed", "cancelled")
_NEEDED = {
    "item": frozenset(("response.output_item.added", "response.output_item.done")),
    "response": frozenset(f"response.{word}" for word in _ENDS),
}
"""The events that say nothing without an object."""
_WITH_RESPONSE = frozenset(f"response.{word}" for word in ("created", "in_progress", "queued", *_ENDS))

_EVENT = b"event:"
_DELTAS = frozenset(
    f"response.{name}.delta"
    for name in ("output_text", "reasoning_summary_text", "reasoning_text", "function_call_arguments")
)
_CHANGES = re.compile(
    rb'"delta"\s*:\s*'
    + STRING % b"text"
    + rb'|"sequence_number"\s*:\s*(?P<number>\d{1,15})'
    + rb'|"(?:obfuscation|item_id)"\s*:\s*'
    + STRING % b"string",
    re.DOTALL,
)

_strict = msgspec.json.Decoder(ResponseEvent).decode
_decode_any = msgspec.json.Decoder(dict[str, Any]).decode


class EventDecoder(RepeatedEventDecoder[ResponseEvent | KeptEvent | None]):
    """Decodes the events of one reply."""

    def __init__(self, decode: Callable[[bytes], ResponseEvent | KeptEvent | None]) -> None:
        super().__init__(decode, _CHANGES)

    @override
    def decode(self, data: bytes) -> ResponseEvent | KeptEvent | RepeatedEvent | None:
        value = super().decode(data)
        event = value.event if type(value) is KeptEvent else value
        if type(event) is ResponseEvent and not event.type:
            event.type = self._find_name(event.whole or {})
            if event.type in _WITH_RESPONSE and event.response is None:
                _set_response(event)
            if type(value) is KeptEvent:
                value.is_named = bool(event.type)
        return value

    def _find_name(self, whole: dict[str, Any]) -> str:
        """Return the name of an event that has it only in the line before its data; "" for any other object."""
        line = self.head[: self.head.find(b"\n")]
        name = line[len(_EVENT) :].strip().decode("utf-8", "replace") if line[: len(_EVENT)] == _EVENT else ""
        is_named = name.startswith("response.") and (
            name in _WITH_RESPONSE or not isinstance(whole.get("output"), list)
        )
        return name if is_named else ""

    @override
    def _is_like(self, value: ResponseEvent | KeptEvent | None, data: bytes) -> bool:
        event = value.event if type(value) is KeptEvent else value
        if type(event) is not ResponseEvent or event.type not in _DELTAS:
            return False
        other = decode(data)
        if other is not None and event.output_index is not None:
            other.item_id = event.item_id  # nothing depends on it
        return other == msgspec.structs.replace(event, delta=PROBE)


class EachEventDecoder(EventDecoder):
    """Decodes every event whole, where what else it has is read, too."""

    @override
    def _is_like(self, value: ResponseEvent | KeptEvent | None, data: bytes) -> bool:
        return False


def decode_kept(data: bytes) -> KeptEvent:
    """Decode an event and keep its text, as one line. Raises ValueError as `decode` does."""
    event = decode(data)
    if event is None or event.is_odd:
        return KeptEvent(event, write_odd(data, is_delta=event is not None and event.delta is not None))
    return KeptEvent(event, write_line(data))


def decode(data: bytes) -> ResponseEvent | None:
    """Decode an event; None for JSON that says nothing. A text is an object with that message.

    Raises ValueError if `data` is not one whole JSON value, or is nested too deeply.
    """
    if len(data) > 2 * MAX_NESTING and is_too_deep(data):
        raise ValueError("nested too deeply")
    try:
        event = _strict(data)
        if not event.type or event.type == "error":
            event.whole = _decode_any(data)
        elif event.response is None and event.type in _WITH_RESPONSE:
            event.whole = _decode_any(data)
            _set_response(event)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return _decode_leniently(data)
    return event


def _decode_leniently(data: bytes) -> ResponseEvent | None:
    value = read_as_object(load(data))
    if value is None:
        return None
    event = ResponseEvent(is_odd=True, ragged=b"\\ud" in data.lower())
    for name in _TEXTS:
        if isinstance(text := value.get(name), str):
            setattr(event, name, text if name == "delta" else join_surrogates(text))
    for name in _NUMBERS:
        number = value.get(name)
        if isinstance(number, int) or (isinstance(number, float) and number.is_integer()):
            setattr(event, name, int(number))
    for name in _OBJECTS:
        if isinstance(item := value.get(name), dict):
            setattr(event, name, clean(item))
        elif item is not None and event.type in _NEEDED.get(name, ()):
            event.unread = name
    if not event.type or event.type == "error":
        event.whole = clean(value)
    elif event.response is None and not event.unread and event.type in _WITH_RESPONSE:
        event.whole = clean(value)
        _set_response(event)
    return event


def _set_response(event: ResponseEvent) -> None:
    """Take the event itself as the response that it does not have (7836246/cursor2api#116)."""
    whole = event.whole or {}
    if isinstance(whole.get("output"), list) or "status" in whole:
        event.response, event.is_flat = {key: value for key, value in whole.items() if key != "type"}, True
