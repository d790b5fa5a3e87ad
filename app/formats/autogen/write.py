"""Writes a conversation as AutoGen's items.

In an agent's turn, reasoning becomes a ThoughtEvent, text becomes a ThoughtEvent if calls follow and else a
TextMessage, adjacent calls become one ToolCallRequestEvent, and adjacent results one ToolCallExecutionEvent. Fields
that AutoGen does not have are kept in the item's metadata (`sidecar`). An original item in `extra` is written again if
its messages are unchanged.
"""

from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace

from app.chat.messages import Message, ToolCall, ToolResult
from app.chat.turns import Turn, split_message
from app.errors import Violation
from app.formats.autogen.item_writer import ItemWriter
from app.formats.autogen.replay import count_unchanged
from app.formats.autogen.sidecar import OWN_KEYS


def write_items(
    messages: Sequence[Message], agent: str | None, agent_name: str
) -> tuple[list[dict[str, Any]], list[Violation]]:
    """Return (items, losses). The losses are media that AutoGen cannot show; they are kept in metadata."""
    singles = [one for message in messages for one in split(message)]
    turns = _turns(singles)
    last_call = {turn: place for place, turn in enumerate(turns) if _starts_with(singles[place], ToolCall)}
    writer = ItemWriter(agent, agent_name)
    start = 0
    while start < len(singles):
        if count := count_unchanged(singles, start):
            end = start + count
            writer.write_kept(singles[start:end])
        else:
            end = _find_run_end(singles, turns, start)
            writer.write(singles[start:end], calls_follow=last_call.get(turns[start], -1) > start)
        start = end
    return writer.items, writer.losses


def split(message: Message) -> list[Message]:
    """Split a message into one for each reasoning, call, result, and run of text and media."""
    first, *rest = split_message(message)
    extra = {key: value for key, value in message.extra.items() if key not in OWN_KEYS}
    return [first, *(replace(one, extra=extra) for one in rest)]


def _starts_with(message: Message, kind: type[ToolCall] | type[ToolResult]) -> bool:
    return bool(message.parts) and isinstance(message.parts[0], kind)


def _turns(messages: Sequence[Message]) -> list[int]:
    """The number of each message's turn; what is sent to a model as one message is one turn."""
    turns: list[int] = []
    number = 0
    turn: Turn | None = None
    for message in messages:
        if message.role != "assistant":
            number, turn = number + 1, None
        elif turn is None or not turn.accepts(message, message.parts):
            number, turn = number + 1, Turn(message)
        if turn is not None:
            turn.add(message.parts)
        turns.append(number)
    return turns


def _find_run_end(messages: Sequence[Message], turns: Sequence[int], start: int) -> int:
    """Return the end of the messages that make one item: adjacent calls of a turn, or adjacent results."""
    end = start + 1
    for kind in (ToolCall, ToolResult):
        if not _starts_with(messages[start], kind):
            continue
        while (
            end < len(messages) and _starts_with(messages[end], kind) and _can_share_item(messages, turns, start, end)
        ):
            end += 1
    return end


def _can_share_item(messages: Sequence[Message], turns: Sequence[int], start: int, end: int) -> bool:
    one, other = messages[start], messages[end]
    if one.role != other.role or (one.role == "assistant" and turns[start] != turns[end]):
        return False
    between = "autogen_before" in other.extra or "autogen_after" in messages[end - 1].extra
    return not between and not count_unchanged(messages, end)
