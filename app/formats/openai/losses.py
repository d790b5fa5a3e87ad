"""What OpenAI's form cannot say of a conversation."""

from collections.abc import Iterator, Sequence
from typing import Any

from app.chat.messages import Media, Message, ToolCall, ToolResult
from app.errors import Violation

_UNSAID = {"message_id": "its id", "created_at": "its time", "usage": "what it cost"}
_SAID = frozenset({"reasoning_details", "extra_content", "arguments_valid", "developer", "refusal"})
_KEPT = ("agentscope", "agentscope2", "autogen")
"""Of `extra`: the item of another format that a message was read from."""
_BESIDE = ("autogen_before", "autogen_after")
_READ = frozenset({"id", "name", "source", "role", "content", "type", "timestamp", "created_at", "models_usage"})
"""Keys of such an item that are a field of the message, or stand in `extra` by themselves."""


def unsaid(messages: Sequence[Message]) -> list[Violation]:
    """Each with the place of the message that it is of."""
    return [*(loss for message in messages for loss in _losses(message)), *_moved(messages)]


def _moved(messages: Sequence[Message]) -> Iterator[Violation]:
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


def _losses(message: Message) -> list[Violation]:
    found = []
    for part in message.parts:
        if isinstance(part, ToolResult):
            if part.is_error:
                found.append(Violation(message.path, "that the result is an error cannot be said"))
            if any(isinstance(item, Media) for item in part.content):
                found.append(Violation(message.path, "media in a tool result moved into a user message after it"))
    unsaid = [_UNSAID.get(key, key) for key in sorted(set(message.extra) - _SAID - {*_KEPT, *_BESIDE})]
    unsaid += [key for kept in _KEPT for key in _unread(message.extra.get(kept)) if key not in unsaid]
    if unsaid:
        found.append(Violation(message.path, f"{', '.join(unsaid)} cannot be said"))
    count = sum(len(items) for key in _BESIDE if isinstance(items := message.extra.get(key), list))
    if count:
        found.append(Violation(message.path, f"{count} of the items beside it are no messages and cannot be said"))
    return found


def _unread(kept: Any) -> list[str]:
    """The keys of a kept item that say something nobody read."""
    raw = kept.get("raw") if isinstance(kept, dict) else None
    if not isinstance(raw, dict):
        return []
    metadata = raw.get("metadata")
    own = isinstance(metadata, dict) and metadata.keys() <= {"kind", "parley"}
    said = _READ | ({"metadata"} if own else set())
    return sorted(key for key, value in raw.items() if key not in said and value not in (None, "", [], {}))
