"""A conversation as turns, and a turn as steps; neither separates a call from its result.

A turn is a user message and everything up to the next. A step is what one role says in a row, with the results of its
calls. While a call still waits for its result, nothing new begins.
"""

from collections.abc import Sequence

from app.chat.messages import Message, ToolCall, ToolResult


def turns(messages: Sequence[Message]) -> list[list[int]]:
    """The places of the messages of each turn. System messages are in none."""
    found: list[list[int]] = []
    waiting = 0
    for place, message in enumerate(messages):
        if message.role == "system":
            continue
        if not found or (message.role == "user" and not waiting):
            found.append([])
        found[-1].append(place)
        waiting = max(0, waiting + _opened(message))
    return found


def steps(messages: Sequence[Message], turn: Sequence[int]) -> list[list[int]]:
    found: list[list[int]] = []
    waiting = 0
    last = ""
    for place in turn:
        message = messages[place]
        if not found or (message.role != "tool" and message.role != last and not waiting):
            found.append([])
        found[-1].append(place)
        waiting = max(0, waiting + _opened(message))
        last = message.role
    return found


def _opened(message: Message) -> int:
    calls = sum(isinstance(part, ToolCall) for part in message.parts)
    return calls - sum(isinstance(part, ToolResult) for part in message.parts)
