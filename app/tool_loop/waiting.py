"""The calls of a conversation that wait for approval, and the caller's answers to them."""

from collections.abc import Collection, Sequence

from msgspec import Struct

from app.chat.messages import Message, ToolCall, ToolResult
from app.chat.tool_asks import ToolApproval
from app.errors import InvalidInput, Violation


class WaitingCall(Struct, frozen=True):
    call: ToolCall
    id: str
    answer: ToolApproval | None
    """None: the caller went on without one, which counts as a refusal."""
    place: int
    """The message before which its result belongs."""


def find_waiting(messages: Sequence[Message], approvals: Sequence[ToolApproval]) -> list[WaitingCall]:
    """Return the calls without a result that are marked as waiting or that an answer names, in their order. Raises
    InvalidInput for answers to other calls."""
    answers = {approval.id: approval for approval in approvals}
    results = {part.id for message in messages for part in message.parts if isinstance(part, ToolResult)}
    waiting = [
        WaitingCall(part, part.id, answers.get(part.id), _find_end_of_turn(messages, place))
        for place, message in enumerate(messages)
        for part in message.parts
        if isinstance(part, ToolCall) and part.id is not None and part.id not in results
        if part.awaits_approval or part.id in answers
    ]
    known = {one.id for one in waiting}
    text = "is not the id of a call that waits for approval: send the reply back with the call, unchanged"
    violations = [Violation(approval.path, text) for approval in approvals if approval.id not in known]
    if violations:
        raise InvalidInput(violations)
    return waiting


def find_paused(messages: Sequence[Message], names: Collection[str]) -> list[ToolApproval]:
    """Return an approval of each call of these tools without a result with which the conversation ends: the reply
    before it was paused."""
    if not names or not messages or messages[-1].role not in ("assistant", "tool"):
        return []
    results = {part.id for message in messages for part in message.parts if isinstance(part, ToolResult)}
    found: list[ToolApproval] = []
    for message in reversed(messages):
        if message.role not in ("assistant", "tool"):
            break
        for part in message.parts:
            if isinstance(part, ToolCall) and part.name in names and part.id is not None and part.id not in results:
                found.append(ToolApproval(part.id, True))
    return found


def _find_end_of_turn(messages: Sequence[Message], place: int) -> int:
    while place < len(messages) and messages[place].role in ("assistant", "tool"):
        place += 1
    return place


def insert_results(messages: Sequence[Message], results: Sequence[tuple[WaitingCall, Message]]) -> tuple[Message, ...]:
    """Return the conversation with the results of calls that waited behind their turns."""
    out = list(messages)
    for waiting, result in reversed(results):
        out.insert(waiting.place, result)
    return tuple(out)
