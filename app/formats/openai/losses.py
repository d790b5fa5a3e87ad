"""What OpenAI's form cannot say of a conversation."""

from collections.abc import Iterator, Sequence
from typing import Any

from app.chat.messages import Media, Message, ToolCall, ToolResult
from app.errors import Violation

_LOST_KEYS = {"message_id": "its id", "created_at": "its time", "usage": "what it cost"}
_WRITTEN_KEYS = frozenset({"reasoning_details", "extra_content", "arguments_valid", "developer", "refusal"})
_ITEM_KEYS = ("agentscope", "agentscope2", "autogen")
"""Of `extra`: the item of another format that a message was read from."""
_ASIDE_KEYS = ("autogen_before", "autogen_after")
_READ = frozenset({"id", "name", "source", "role", "content", "type", "timestamp", "created_at", "models_usage"})
"""Keys of such an item that are a field of the message, or stand in `extra` by themselves."""


def find_losses(messages: Sequence[Message]) -> list[Violation]:
    """Each with the place of the message that it is of."""
    return [*(loss for message in messages for loss in _find_message_losses(message)), *_find_moved_results(messages)]


def _find_moved_results(messages: Sequence[Message]) -> Iterator[Violation]:
    """Results stand directly behind their calls."""
    spoken = False
    for message in messages:
        if message.role == "tool":
            if spoken:
                yield Violation(message.path, "is moved to the call that it answers, before what was said between them")
        elif message.role != "assistant":
            spoken = True
        elif any(isinstance(part, ToolCall) for part in message.parts):
            spoken = False


def _find_message_losses(message: Message) -> list[Violation]:
    found = []
    for part in message.parts:
        if isinstance(part, ToolResult):
            if part.is_error:
                found.append(Violation(message.path, "that the result is an error cannot be said"))
            if any(isinstance(item, Media) for item in part.content):
                found.append(Violation(message.path, "media in a tool result moved into a user message after it"))
    unsaid = [
        _LOST_KEYS.get(key, key) for key in sorted(set(message.extra) - _WRITTEN_KEYS - {*_ITEM_KEYS, *_ASIDE_KEYS})
    ]
    unsaid += [key for kept in _ITEM_KEYS for key in _unread_keys(message.extra.get(kept)) if key not in unsaid]
    if unsaid:
        found.append(Violation(message.path, f"{', '.join(unsaid)} cannot be said"))
    count = sum(len(items) for key in _ASIDE_KEYS if isinstance(items := message.extra.get(key), list))
    if count:
        found.append(Violation(message.path, f"{count} of the items beside it are no messages and cannot be said"))
    return found


def _unread_keys(kept: Any) -> list[str]:
    """The keys of a kept item that say something nobody read."""
    raw = kept.get("raw") if isinstance(kept, dict) else None
    if not isinstance(raw, dict):
        return []
    metadata = raw.get("metadata")
    own = isinstance(metadata, dict) and metadata.keys() <= {"kind", "parley"}
    said = _READ | ({"metadata"} if own else set())
    return sorted(key for key, value in raw.items() if key not in said and value not in (None, "", [], {}))
