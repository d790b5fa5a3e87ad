"""Fills in the ids of calls and results, for formats whose items must have them."""

from collections import deque
from collections.abc import Sequence

from msgspec.structs import replace

from app.chat.ids import make_call_id
from app.chat.messages import Message, Part, ToolCall, ToolResult


def fill_ids(given: Sequence[Message]) -> list[Message]:
    """Return the pieces with an id on every call, and the id and name of its call on every result."""
    calls = _Calls()
    shown: list[Message] = []
    for number, piece in enumerate(given):
        part: Part | None = piece.parts[0] if piece.parts else None
        if isinstance(part, ToolCall):
            part = part if part.id else replace(part, id=make_call_id(number, part.name, part.arguments))
            calls.add(part)
            piece = replace(piece, parts=(part,))
        elif isinstance(part, ToolResult):
            call = calls.find(part)
            id_ = part.id or (call.id if call else make_call_id(number, part.name or "tool", ""))
            piece = replace(piece, parts=(replace(part, id=id_, name=part.name or (call.name if call else "tool")),))
        shown.append(piece)
    return shown


class _Calls:
    """The calls so far; those that have no result yet are found first."""

    def __init__(self) -> None:
        self._first_by_id: dict[str, ToolCall] = {}
        self._open: deque[ToolCall] = deque()
        self._open_by_id: dict[str, deque[ToolCall]] = {}
        self._open_by_name: dict[str, deque[ToolCall]] = {}
        self._answered: set[int] = set()
        """The identities of the calls that have a result. Each is dropped from the queues when it is met there."""

    def add(self, call: ToolCall) -> None:
        assert call.id
        self._first_by_id.setdefault(call.id, call)
        self._open.append(call)
        self._open_by_id.setdefault(call.id, deque()).append(call)
        self._open_by_name.setdefault(call.name, deque()).append(call)

    def find(self, result: ToolResult) -> ToolCall | None:
        """Return the call of a result, which has a result from then on."""
        if result.id:
            found = self._next(self._open_by_id.get(result.id)) or self._first_by_id.get(result.id)
        elif result.name:
            found = self._next(self._open_by_name.get(result.name))
        else:
            found = self._next(self._open)
        if found is not None:
            self._answered.add(id(found))
        return found

    def _next(self, calls: deque[ToolCall] | None) -> ToolCall | None:
        while calls and id(calls[0]) in self._answered:
            calls.popleft()
        return calls[0] if calls else None
