"""Parses AgentScope's messages: what both versions have in common."""

from collections.abc import Callable, Sequence
from typing import Any

from msgspec import Struct
from pydantic import TypeAdapter, ValidationError

from app.chat.messages import Message
from app.errors import Violation
from app.formats.agentscope.notes import Json
from app.formats.base import Options, ParsedMessages
from app.validation.violations import find_unknown_keys, to_violations


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
        for item, checked, path in zip(messages, wire, paths, strict=True):
            found += self.read_message(item, path)
            warnings += self.find_warnings(item, path)
            unread = find_unknown_keys(checked.content, f"{path}.content")
            warnings += (f"{place} is not a field of an AgentScope block and was ignored" for place in unread)
        return ParsedMessages(tuple(found), (), tuple(warnings))

    def validate_and_read(self, item: Any) -> Sequence[Message] | None:
        """Return the pieces of a message from a caller's `extra`, or None if it is not valid."""
        try:
            self.message.validate_python(item)
        except ValidationError:
            return None
        return None if self.find_misplaced_blocks(item, "") else self.read_message(item, "")
