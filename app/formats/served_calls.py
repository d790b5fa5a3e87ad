"""Calls that a gateway ran, where a conversation is written in a format that has no words for that: a note in the
side-car of the call says it, and is read with the call."""

from collections.abc import Collection, Iterator, Sequence
from typing import Any

from msgspec.structs import replace

from app.chat.messages import Media, Message, Part, ToolCall, ToolResult
from app.errors import Violation

NOTE = "server_tool"
"""The key among the opaque fields of the call. It is never sent to a model's server."""


def is_served(call: ToolCall) -> bool:
    """Whether a gateway ran the call, and so has its result."""
    return call.server is not None and not call.awaits_approval


def add_notes(messages: Sequence[Message]) -> list[Message]:
    return [
        replace(message, parts=tuple(map(add_note, message.parts)))
        if any(isinstance(part, ToolCall) and part.server is not None for part in message.parts)
        else message
        for message in messages
    ]


def add_note(part: Part) -> Part:
    return part if not isinstance(part, ToolCall) or part.server is None else replace(part, extra=write_note(part))


def write_note(part: ToolCall) -> dict[str, Any]:
    """Return the opaque fields of a call that a gateway ran, with the note."""
    note: dict[str, Any] = {"server": part.server, "tool": part.tool}
    if part.awaits_approval:
        note["awaits_approval"] = True
    return {**part.extra, NOTE: note}


def read_note(call: ToolCall) -> ToolCall:
    """Return the call as its note describes it. A note that is not valid is left out."""
    if NOTE not in call.extra:
        return call
    extra = {key: value for key, value in call.extra.items() if key != NOTE}
    note = call.extra[NOTE]
    if not isinstance(note, dict) or not isinstance(note.get("server"), str) or not isinstance(note.get("tool"), str):
        return replace(call, extra=extra)
    waits = call.awaits_approval or note.get("awaits_approval") is True
    return replace(call, extra=extra, server=note["server"], tool=note["tool"], awaits_approval=waits)


def guess_tool(call: ToolCall) -> ToolCall:
    """Return a call that a gateway ran, of which only the name for the model is known, with its server and tool. The
    model gets the same name again, wherever it is cut."""
    server, hyphen, tool = call.name.partition("-")
    return replace(call, server=server, tool=tool) if hyphen and tool else replace(call, server="", tool=call.name)


def find_served_ids(messages: Sequence[Message]) -> set[str]:
    """Return the ids of the calls that a gateway ran."""
    return {
        part.id
        for message in messages
        for part in message.parts
        if isinstance(part, ToolCall) and part.id and is_served(part)
    }


def find_served_losses(part: Part, path: str, served: Collection[str | None]) -> Iterator[Violation]:
    """Find the media of the result of a call that a gateway ran, for a format that has no place for them."""
    if isinstance(part, ToolResult) and part.id in served:
        for one in part.content:
            if isinstance(one, Media):
                yield Violation(one.path or path, f"is written as the text '[{one.media}]' in the result of a tool")


def join_result(result: ToolResult) -> str:
    """Return the text of a result for a format that has no place for its media: these by their kinds."""
    return "\n".join([f"[{part.media}]" if part.kind == "media" else part.text for part in result.content])
