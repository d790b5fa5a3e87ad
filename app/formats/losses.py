"""Finds what formats without a place for other formats' fields cannot keep of a message."""

from collections.abc import Collection, Iterator, Sequence
from typing import Any

from app.chat.messages import Message, ToolCall
from app.errors import Violation

_ITEM_KEYS = ("agentscope", "agentscope2", "autogen")
"""Keys of `extra` with the item of another format from which a message was parsed."""
_ASIDE_KEYS = ("autogen_before", "autogen_after")
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
    lost = sorted(set(message.extra) - {*written_keys, *_ITEM_KEYS, *_ASIDE_KEYS})
    lost += [key for name in _ITEM_KEYS for key in _unread_keys(message.extra.get(name)) if key not in lost]
    if lost:
        yield Violation(message.path, f"{', '.join(lost)} {no_field}")
    count = sum(len(items) for key in _ASIDE_KEYS if isinstance(items := message.extra.get(key), list))
    if count:
        yield Violation(message.path, f"{count} items next to it are not messages, and {no_field}")


def _unread_keys(kept: Any) -> list[str]:
    """Return the keys of an original item that have a value and were not read."""
    raw = kept.get("raw") if isinstance(kept, dict) else None
    if not isinstance(raw, dict):
        return []
    metadata = raw.get("metadata")
    own = isinstance(metadata, dict) and metadata.keys() <= {"kind", "parley"}
    read = _READ | ({"metadata"} if own else set())
    return sorted(key for key, value in raw.items() if key not in read and value not in (None, "", [], {}))
