"""Fills in the ids of calls and results, for formats whose items must have them."""

from collections import deque
from collections.abc import Sequence

from msgspec.structs import replace

from app.chat.messages import Message, Part, ToolCall, ToolResult, make_call_id


def fill_ids(given: Sequence[Message]) -> list[Message]:
    """Return the pieces with an id on every call, and the id and name of its call on every result."""
    open_ = OpenCalls()
    first_by_id: dict[str, ToolCall] = {}
    shown: list[Message] = []
    for number, piece in enumerate(given):
        part: Part | None = piece.parts[0] if piece.parts else None
        if isinstance(part, ToolCall):
            part = part if part.id else replace(part, id=make_call_id(number, part.name, part.arguments))
            open_.add(part)
            first_by_id.setdefault(part.id or "", part)
            piece = replace(piece, parts=(part,))
        elif isinstance(part, ToolResult):
            call = _take_call(part, open_) or (first_by_id.get(part.id) if part.id else None)
            id_ = part.id or (call.id if call else make_call_id(number, part.name or "tool", ""))
            piece = replace(piece, parts=(replace(part, id=id_, name=part.name or (call.name if call else "tool")),))
        shown.append(piece)
    return shown


def _take_call(result: ToolResult, open_: "OpenCalls") -> ToolCall | None:
    if result.id:
        return open_.take_id(result.id)
    return open_.take_name(result.name) if result.name else open_.take_first()


class _OpenCall:
    __slots__ = ("call", "is_answered")

    def __init__(self, call: ToolCall) -> None:
        self.call = call
        self.is_answered = False


class OpenCalls:
    """The calls that have no result yet, in their order. A call that is taken has a result from then on."""

    def __init__(self) -> None:
        self._all: deque[_OpenCall] = deque()
        self._by_id: dict[str, deque[_OpenCall]] = {}
        self._by_name: dict[str, deque[_OpenCall]] = {}

    def add(self, call: ToolCall) -> None:
        """Add a call that has an id."""
        item = _OpenCall(call)
        self._all.append(item)
        self._by_id.setdefault(call.id or "", deque()).append(item)
        self._by_name.setdefault(call.name, deque()).append(item)

    def take_id(self, id: str) -> ToolCall | None:
        return _take(self._by_id.get(id))

    def take_name(self, name: str) -> ToolCall | None:
        return _take(self._by_name.get(name))

    def take_first(self) -> ToolCall | None:
        return _take(self._all)


def _take(calls: deque[_OpenCall] | None) -> ToolCall | None:
    """Take the first call. Those that were taken from another queue are dropped."""
    while calls:
        item = calls.popleft()
        if not item.is_answered:
            item.is_answered = True
            return item.call
    return None
