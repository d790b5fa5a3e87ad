"""A conversation of the vocabulary as AutoGen's items.

One turn of an agent: its reasoning as ThoughtEvent, its text as ThoughtEvent where calls follow, else as TextMessage,
adjacent calls as one ToolCallRequestEvent, adjacent results as one ToolCallExecutionEvent. What AutoGen has no words
for rides in the item's metadata (`bag`); items that were kept stand for their messages as long as they fit them.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from app.chat.messages import Media, Message, Part, Text, ToolCall, ToolResult
from app.errors import Violation
from app.formats.autogen.item_writer import ItemWriter
from app.formats.autogen.replay import count_unchanged
from app.formats.autogen.sidecar import OWN_KEYS

_PHASE = {"reasoning": 0, "text": 1, "media": 1, "tool_call": 2}


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
    payloads: list[list[Part]] = []
    for part in message.parts:
        said = isinstance(part, Text | Media)
        if said and payloads and isinstance(payloads[-1][0], Text | Media):
            payloads[-1].append(part)
        else:
            payloads.append([part])
    if len(payloads) < 2:
        return [message]
    extra = {key: value for key, value in message.extra.items() if key not in OWN_KEYS}
    first = replace(message, parts=tuple(payloads[0]))
    return [first, *(replace(message, parts=tuple(one), extra=extra) for one in payloads[1:])]


def _starts_with(message: Message, kind: type[ToolCall] | type[ToolResult]) -> bool:
    return bool(message.parts) and isinstance(message.parts[0], kind)


def _turns(messages: Sequence[Message]) -> list[int]:
    """The number of each message's turn; what is sent to a model as one message is one turn."""
    turns: list[int] = []
    number, phase, turn = 0, -1, None
    for place, message in enumerate(messages):
        now = _PHASE.get(message.parts[0].kind, 1) if message.parts else 1
        before = messages[place - 1] if place else None
        if before is None or not _is_same_turn(before, message, turn, phase, now):
            number, phase, turn = number + 1, -1, None
        phase, turn = max(phase, now), turn or message.turn
        turns.append(number)
    return turns


def _is_same_turn(before: Message, message: Message, turn: str | None, phase: int, now: int) -> bool:
    if message.role != "assistant" or before.role != "assistant" or message.name != before.name:
        return False
    if message.turn and turn and message.turn != turn:
        return False
    return phase == _PHASE["tool_call"] or now > phase or (message.turn is not None and message.turn == turn)


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
