"""Orders the turns of a conversation as strict chat templates require it."""

from collections.abc import Iterable, Iterator
from itertools import groupby
from operator import attrgetter

from msgspec.structs import replace

from app.chat.messages import BRIDGE, ChatRequest, Message, Text, ToolCall, ToolResult
from app.profiles import Profile
from app.steps.merge_messages import is_empty_turn, merge_messages


def alternate_roles(request: ChatRequest, profile: Profile) -> ChatRequest:
    if not profile.alternate and not profile.assistant_after_tool:
        return request
    sent = profile.replay_reasoning != "none"
    nonempty = (message for message in request.messages if not is_empty_turn(message, reasoning_is_sent=sent))
    messages = _move_after_results(nonempty)
    if profile.alternate:
        messages = _merge_neighbours(messages)
    if profile.assistant_after_tool:
        messages = _insert_bridges(messages)
    return replace(request, messages=tuple(messages))


def _move_after_results(messages: Iterable[Message]) -> Iterator[Message]:
    """Move messages between a call and its results behind the results, where they will be sent."""
    held: list[Message] = []
    waiting = 0
    for message in messages:
        waiting += sum(isinstance(part, ToolCall) for part in message.parts)
        waiting -= sum(isinstance(part, ToolResult) for part in message.parts)
        if waiting > 0 and not any(isinstance(part, ToolCall | ToolResult) for part in message.parts):
            held.append(message)
            continue
        yield message
        if waiting <= 0:
            yield from held
            held = []
    yield from held


def _merge_neighbours(messages: Iterable[Message]) -> Iterator[Message]:
    """Merge consecutive messages of one role, except tool messages, each of which answers another call."""
    for role, run in groupby(messages, key=attrgetter("role")):
        if role == "tool":
            yield from run
        else:
            yield merge_messages(list(run))


def _insert_bridges(messages: Iterable[Message]) -> Iterator[Message]:
    last = None
    for message in messages:
        if message.role == "user" and last == "tool":
            yield Message("assistant", (Text(BRIDGE),))
        yield message
        last = message.role
