"""Finds what formats without a place for other formats' fields cannot keep of a message."""

import json
from collections.abc import Collection, Iterator, Sequence
from typing import Any, get_args

from app.chat.accumulator import parse_arguments
from app.chat.messages import UNREAD, FormatName, Message, ToolCall
from app.errors import Violation

_NAMES = frozenset(get_args(FormatName))
_ASIDE_ENDS = ("_before", "_after")
"""The ends of keys of `extra` with the items of another format that stood next to a message."""
_READ = frozenset({"id", "name", "source", "role", "content", "type", "timestamp", "created_at", "models_usage"})
"""Keys of such an item that are a field of the message, or a key of `extra`."""


def find_moved_results(messages: Sequence[Message]) -> Iterator[Violation]:
    """Find results that move, because in this format they directly follow their calls."""
    separated = False
    for message in messages:
        if message.role == "tool":
            if separated:
                yield Violation(message.path, "is moved directly after the call that it answers")
        elif message.role != "assistant":
            separated = True
        elif any(isinstance(part, ToolCall) for part in message.parts):
            separated = False


def find_extra_losses(message: Message, written_keys: Collection[str], no_field: str) -> Iterator[Violation]:
    """Find the keys of `extra` that are not written. `no_field` ends the message: "cannot be written in …"."""
    extra = message.extra
    kept = [key for key, value in extra.items() if key in _NAMES and _is_original(value)]
    asides = [key for key, value in extra.items() if key.endswith(_ASIDE_ENDS) and isinstance(value, list)]
    lost = sorted(set(extra) - {UNREAD, *written_keys, *kept, *asides})
    lost += [key for name in kept for key in _unread_keys(extra[name]) if key not in lost]
    if lost:
        yield Violation(message.path, f"{', '.join(lost)} {no_field}")
    count = sum(len(extra[key]) for key in asides)
    if count:
        yield Violation(message.path, f"{count} items next to it are not messages, and {no_field}")


def find_object_losses(call: ToolCall, path: str, no_field: str, *, keeps_invalid: bool = False) -> Iterator[Violation]:
    """Find what a format loses of a call that has an object in the place of arguments. `keeps_invalid`: it also has a
    place for others."""
    arguments = parse_arguments(call.arguments)
    if call.awaits_approval:
        yield Violation(path, "the call waits for approval, which this format cannot say")
    if arguments is None and keeps_invalid:
        return
    if arguments is None:
        yield Violation(path, "the arguments are not a JSON object, and are written as {'_raw': …}")
    elif json.dumps(arguments, ensure_ascii=False) != call.arguments:
        yield Violation(path, "the arguments are written as an object: their white space and spelling may change")
    lost = sorted(call.extra.keys() - {"extra_content"})
    if lost:
        yield Violation(path, f"{', '.join(lost)} {no_field}")


def _is_original(value: Any) -> bool:
    """Whether a value under the name of a format is the item from which the message was parsed, or its note."""
    return value is None or (isinstance(value, dict) and ("raw" in value or "k" in value))


def _unread_keys(kept: dict[str, Any] | None) -> list[str]:
    """Return the keys of an original item that have a value and were not read."""
    raw = kept.get("raw") if kept is not None else None
    if not isinstance(raw, dict):
        return []
    metadata = raw.get("metadata")
    own = isinstance(metadata, dict) and metadata.keys() <= {"kind", "parley"}
    read = _READ | ({"metadata"} if own else set())
    return sorted(key for key, value in raw.items() if key not in read and value not in (None, "", [], {}))
