"""One message of OpenAI's format, as it is put together from those of a conversation."""

from collections.abc import Sequence
from typing import Any

from msgspec import Struct

from app.chat.messages import Media, Message, Text, ToolCall, ToolResult
from app.errors import Violation


class GroupedCall(Struct):
    """A call of the history with the id that is sent for it."""

    call: ToolCall
    id: str
    path: str
    answered: bool = False


class MessageGroup(Struct):
    """One message to send, with the tool results that must directly follow it."""

    role: str
    name: str | None = None
    texts: list[tuple[Text | Media, ...]] = []
    reasonings: list[str] = []
    calls: list[GroupedCall] = []
    results: list[tuple[str, ToolResult]] = []
    details: list[Any] = []
    extra_content: Any = None
    """Opaque fields of the message itself that the provider wants back (Gemini's signature of a text)."""
    marks: set[str] = set()
    """The keys of `_MARKS` that its messages have."""
    answers: list[Message] = []
    """The messages of its results."""
    sources: list[Message] = []
    """The messages that it was made of, without those of the results."""


class UnmatchedCalls(Struct, frozen=True):
    """The calls and results of a conversation that are not pairs."""

    calls: Sequence[ToolCall]
    """Those without a result."""
    results: Sequence[ToolResult]
    """Those without a call, and second results of one."""
    violations: Sequence[Violation]
    """What is wrong with each of them."""
