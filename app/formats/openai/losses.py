"""Finds what OpenAI's format has no place for in a conversation."""

from collections.abc import Iterator, Sequence

from app.chat.messages import Media, Message, ToolResult
from app.errors import Violation
from app.formats.losses import find_extra_losses, find_moved_results

_WRITTEN_KEYS = frozenset({"reasoning_details", "extra_content", "arguments_valid", "developer", "refusal"})
_NO_FIELD = "cannot be written in OpenAI's format"


def find_losses(messages: Sequence[Message]) -> list[Violation]:
    """Return one violation for each loss, with the path of its message."""
    return [*(loss for message in messages for loss in _find_message_losses(message)), *find_moved_results(messages)]


def _find_message_losses(message: Message) -> Iterator[Violation]:
    for part in message.parts:
        if isinstance(part, ToolResult):
            if part.is_error:
                yield Violation(message.path, f"is_error {_NO_FIELD}")
            if any(isinstance(item, Media) for item in part.content):
                yield Violation(message.path, "media in a tool result moved into a user message after it")
    yield from find_extra_losses(message, _WRITTEN_KEYS, _NO_FIELD)
