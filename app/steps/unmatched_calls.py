"""Repairs a conversation in which calls and results are not pairs.

Users interrupt tools, and agents cut their history in the middle. No API of model servers takes a call without a result
or a result without its call, and a client that is refused sends the same conversation again. So a call gets a result
that says that it was interrupted, and a result without a call becomes a text of the user.
"""

from collections.abc import Sequence

from msgspec.structs import replace

from app.chat.messages import INTERRUPTED, ChatRequest, Message, Text, ToolCall, ToolResult
from app.openai_messages.grouping import find_unmatched_calls
from app.openai_messages.groups import UnmatchedCalls

_HEAD = "The result of a call that this conversation does not have"


def repair_calls(request: ChatRequest) -> tuple[ChatRequest, list[str]]:
    """Return (the request, a warning for each call or result that was repaired).

    What is added depends only on the conversation, so that it stays the same when the conversation goes on.
    """
    found = find_unmatched_calls(request.messages, request.calls_before)
    if not found.violations:
        return request, []
    warnings = [f"{one.path}: {one.message}; the conversation was repaired" for one in found.violations]
    return replace(request, messages=tuple(_repair(request.messages, found))), warnings


def _repair(messages: Sequence[Message], found: UnmatchedCalls) -> list[Message]:
    orphans = set(map(id, found.results))
    unanswered = set(map(id, found.calls))
    out: list[Message] = []
    missing: list[Message] = []
    """The results that the turn lacks: they follow those that it has."""
    texts: list[Message] = []
    """The results without a call: they follow all others, so that those are paired as before."""
    role = ""
    for message in messages:
        if message.role not in ("assistant", "tool") or (message.role == "assistant" and role == "tool"):
            out += missing + texts
            missing, texts = [], []
        role = message.role
        missing += [
            _make_result(message, part) for part in message.parts if type(part) is ToolCall and id(part) in unanswered
        ]
        if role == "tool" and any(id(part) in orphans for part in message.parts):
            kept = tuple([part for part in message.parts if id(part) not in orphans])
            out += [replace(message, parts=kept)] if kept else []
            texts += [
                _make_text(message, part) for part in message.parts if type(part) is ToolResult and id(part) in orphans
            ]
        else:
            out.append(message)
    return out + missing + texts


def _make_result(message: Message, call: ToolCall) -> Message:
    return Message("tool", (ToolResult((Text(INTERRUPTED),), call.name, call.id),), path=message.path)


def _make_text(message: Message, result: ToolResult) -> Message:
    head = f"{_HEAD}, of the function {result.name}:" if result.name else f"{_HEAD}:"
    return Message("user", (Text(head), *result.content), path=message.path)
