"""Finds what OpenAI's format has no place for in a conversation."""

from collections.abc import Iterator, Sequence
from typing import Any

from app.chat.messages import Media, Message, ToolCall, ToolResult
from app.errors import Violation

_WRITTEN_KEYS = frozenset({"reasoning_details", "extra_content", "arguments_valid", "developer", "refusal"})
_ITEM_KEYS = ("agentscope", "agentscope2", "autogen")
"""Keys of `extra` with the item of another format from which a message was parsed."""
_ASIDE_KEYS = ("autogen_before", "autogen_after")
_READ = frozenset({"id", "name", "source", "role", "content", "type", "timestamp", "created_at", "models_usage"})
"""Keys of such an item that are a field of the message, or a key of `extra`."""


_NO_FIELD = "cannot be written in OpenAI's format"


def find_losses(messages: Sequence[Message]) -> list[Violation]:
    """Return one violation for each loss, with the path of its message."""
    return [*(loss for message in messages for loss in _find_message_losses(message)), *_find_moved_results(messages)]


def _find_moved_results(messages: Sequence[Message]) -> Iterator[Violation]:
    """Find results that move, because in OpenAI's format they directly follow their calls."""
    separated = False
    for message in messages:
        if message.role == "tool":
            if separated:
                yield Violation(message.path, "is moved directly after the call that it answers")
        elif message.role != "assistant":
            separated = True
        elif any(isinstance(part, ToolCall) for part in message.parts):
            separated = False


def _find_message_losses(message: Message) -> list[Violation]:
    found = []
    for part in message.parts:
        if isinstance(part, ToolResult):
            if part.is_error:
                found.append(Violation(message.path, f"is_error {_NO_FIELD}"))
            if any(isinstance(item, Media) for item in part.content):
                found.append(Violation(message.path, "media in a tool result moved into a user message after it"))
    lost = sorted(set(message.extra) - _WRITTEN_KEYS - {*_ITEM_KEYS, *_ASIDE_KEYS})
    lost += [key for name in _ITEM_KEYS for key in _unread_keys(message.extra.get(name)) if key not in lost]
    if lost:
        found.append(Violation(message.path, f"{', '.join(lost)} {_NO_FIELD}"))
    count = sum(len(items) for key in _ASIDE_KEYS if isinstance(items := message.extra.get(key), list))
    if count:
        found.append(Violation(message.path, f"{count} items next to it are not messages, and {_NO_FIELD}"))
    return found


def _unread_keys(kept: Any) -> list[str]:
    """Return the keys of an original item that have a value and were not read."""
    raw = kept.get("raw") if isinstance(kept, dict) else None
    if not isinstance(raw, dict):
        return []
    metadata = raw.get("metadata")
    own = isinstance(metadata, dict) and metadata.keys() <= {"kind", "parley"}
    read = _READ | ({"metadata"} if own else set())
    return sorted(key for key, value in raw.items() if key not in read and value not in (None, "", [], {}))
