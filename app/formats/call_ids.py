"""Fills in the ids of calls and results, for formats whose items must have them."""

from collections.abc import Sequence

from msgspec.structs import replace

from app.chat.ids import make_call_id
from app.chat.messages import Message, Part, ToolCall, ToolResult


def fill_ids(given: Sequence[Message]) -> list[Message]:
    """Return the pieces with an id on every call, and the id and name of its call on every result."""
    calls: list[ToolCall] = []
    shown: list[Message] = []
    open_: list[ToolCall] = []
    for number, piece in enumerate(given):
        part: Part | None = piece.parts[0] if piece.parts else None
        if isinstance(part, ToolCall):
            part = part if part.id else replace(part, id=make_call_id(number, part.name, part.arguments))
            calls.append(part)
            open_.append(part)
            piece = replace(piece, parts=(part,))
        elif isinstance(part, ToolResult):
            call = _find_call(part, calls, open_)
            open_ = [one for one in open_ if one is not call]
            id_ = part.id or (call.id if call else make_call_id(number, part.name or "tool", ""))
            piece = replace(piece, parts=(replace(part, id=id_, name=part.name or (call.name if call else "tool")),))
        shown.append(piece)
    return shown


def _find_call(result: ToolResult, calls: Sequence[ToolCall], open_: Sequence[ToolCall]) -> ToolCall | None:
    if result.id:
        named = [call for call in open_ if call.id == result.id] or [call for call in calls if call.id == result.id]
    else:
        named = [call for call in open_ if call.name == result.name] or ([] if result.name else list(open_))
    return named[0] if named else None
