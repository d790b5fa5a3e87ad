"""Parses AgentScope's messages: what both versions have in common."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from msgspec import Struct
from pydantic import TypeAdapter, ValidationError

from app.chat.messages import Message, ToolResult
from app.chat.tool_asks import ToolApproval
from app.errors import Violation
from app.formats.agentscope.notes import Json
from app.formats.base import Options, ParsedMessages
from app.formats.server_asks import mark_waiting_calls
from app.validation.violations import find_unknown_keys, to_violations


class WaitingCall(NamedTuple):
    """A call that waits for approval, or that the caller has approved in its message."""

    id: str
    path: str
    approved: bool = False


class ParseRules(Struct, frozen=True):
    """How one version validates and parses messages."""

    schema: Any
    """The type of a list of messages."""
    messages: TypeAdapter[Any]
    message: TypeAdapter[Any]
    find_misplaced_blocks: Callable[[Json, str], list[Violation]]
    read_message: Callable[[Json, str], list[Message]]
    """Returns the pieces of a valid message."""
    find_warnings: Callable[[Json, str], list[str]]
    find_waiting: Callable[[Json, str], list[WaitingCall]]
    """Returns the calls of a valid message that wait for approval."""

    def parse(self, messages: list[Any], options: Options) -> ParsedMessages:
        try:
            wire = self.messages.validate_python(messages)
        except ValidationError as error:
            return ParsedMessages((), to_violations(error, messages, "messages", self.schema))
        paths = [f"messages[{number}]" for number in range(len(messages))]
        misplaced = [
            violation
            for item, path in zip(messages, paths, strict=True)
            for violation in self.find_misplaced_blocks(item, path)
        ]
        if misplaced:
            return ParsedMessages((), misplaced)
        found: list[Message] = []
        warnings: list[str] = []
        waiting: list[WaitingCall] = []
        for item, checked, path in zip(messages, wire, paths, strict=True):
            found += self.read_message(item, path)
            warnings += self.find_warnings(item, path)
            waiting += self.find_waiting(item, path)
            unread = find_unknown_keys(checked.content, f"{path}.content")
            warnings += (f"{place} is not a field of an AgentScope block and was ignored" for place in unread)
        if waiting:
            return _mark_waiting(found, warnings, waiting)
        return ParsedMessages(tuple(found), (), tuple(warnings))

    def validate_and_read(self, item: Any) -> Sequence[Message] | None:
        """Return the pieces of a message from a caller's `extra`, or None if it is not valid."""
        try:
            self.message.validate_python(item)
        except ValidationError:
            return None
        return None if self.find_misplaced_blocks(item, "") else self.read_message(item, "")


def _mark_waiting(
    messages: Sequence[Message], warnings: Sequence[str], waiting: Sequence[WaitingCall]
) -> ParsedMessages:
    """Mark the calls that have no result."""
    answered = {part.id for message in messages for part in message.parts if isinstance(part, ToolResult)}
    left = [call for call in waiting if call.id not in answered]
    marked = mark_waiting_calls(messages, {call.id for call in left})
    approvals = tuple(ToolApproval(call.id, True, path=call.path) for call in left if call.approved)
    return ParsedMessages(marked, (), tuple(warnings), approvals, has_waiting=bool(left))
