"""A conversation of the vocabulary as AutoGen's items.

One turn of an agent: its reasoning as ThoughtEvent, its text as ThoughtEvent where calls follow, else as TextMessage,
adjacent calls as one ToolCallRequestEvent, adjacent results as one ToolCallExecutionEvent. What AutoGen has no words
for rides in the item's metadata (`bag`); items that were kept stand for their messages as long as they fit them.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from app.chat.messages import Message, ToolCall, ToolResult
from app.chat.turns import Turn, split_message
from app.errors import Violation
from app.formats.autogen.item_writer import ItemWriter
from app.formats.autogen.replay import count_unchanged
from app.formats.autogen.sidecar import OWN_KEYS


def write_items(
    messages: Sequence[Message], agent: str | None, agent_name: str
) -> tuple[list[dict[str, Any]], list[Violation]]:
    """(items, losses). The losses are media that AutoGen has no words for; they ride in metadata all the same."""
    singles = [one for message in messages for one in split(message)]
    turns = _turns(singles)
    last_call = {turn: place for place, turn in enumerate(turns) if _starts_with(singles[place], ToolCall)}
    pen = ItemWriter(agent, agent_name)
    start = 0
    while start < len(singles):
        if count := count_unchanged(singles, start):
            end = start + count
            pen.write_kept(singles[start:end])
        else:
            end = _find_run_end(singles, turns, start)
            pen.write(singles[start:end], calls_follow=last_call.get(turns[start], -1) > start)
        start = end
    return pen.items, pen.losses


def split(message: Message) -> list[Message]:
    """Messages of one payload each: a reasoning, a call, a result, or adjacent text and media."""
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
    """Where the messages end that go into one item: adjacent calls of a turn, or adjacent results."""
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
