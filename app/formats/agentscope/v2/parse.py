"""Parses AgentScope 2.x messages."""

from collections.abc import Sequence
from typing import Any

from pydantic import TypeAdapter, ValidationError

from app.chat.accumulator import is_json
from app.chat.messages import Message
from app.errors import Violation
from app.formats.agentscope.common_write import make_head
from app.formats.agentscope.notes import Json
from app.formats.agentscope.replay import read_item
from app.formats.agentscope.v2.blocks import SYNTAX
from app.formats.agentscope.v2.schema import AgentScope2Msg, Messages
from app.formats.base import Options, ParsedMessages
from app.validation import find_unknown_keys, to_violations

_messages: TypeAdapter[Any] = TypeAdapter(Messages)
_message: TypeAdapter[Any] = TypeAdapter(AgentScope2Msg)
_BLOCKS = {"user": ("text", "data"), "system": ("text",)}


def parse_messages(messages: list[Any], options: Options) -> ParsedMessages:
    try:
        wire = _messages.validate_python(messages)
    except ValidationError as error:
        return ParsedMessages((), to_violations(error, messages, "messages", Messages))
    misplaced = [
        violation
        for number, item in enumerate(messages)
        for violation in _find_misplaced_blocks(item, f"messages[{number}]")
    ]
    if misplaced:
        return ParsedMessages((), misplaced)
    found: list[Message] = []
    warnings: list[str] = []
    for number, item in enumerate(messages):
        path = f"messages[{number}]"
        found += read_message(item, path)
        warnings += _warnings(item, path)
        unread = find_unknown_keys(wire[number].content, f"{path}.content")
        warnings += (f"{place} is not a field of an AgentScope block and was ignored" for place in unread)
    return ParsedMessages(tuple(found), (), tuple(warnings))


def validate_and_read(item: Any) -> Sequence[Message] | None:
    """Return the pieces of a message from a caller's `extra`, or None if it is not valid."""
    try:
        _message.validate_python(item)
    except ValidationError:
        return None
    return None if _find_misplaced_blocks(item, "") else read_message(item, "")


def read_message(item: Json, path: str) -> list[Message]:
    """Return the pieces of a valid message."""
    created = item.get("created_at")
    extra: Json = {"message_id": item["id"]} if item.get("id") else {}
    extra |= {"created_at": created} if created else {}
    top = make_head(item["role"], item["name"], item.get("id") or path, path, extra)
    return read_item(item, item["content"], top, SYNTAX)


def _find_misplaced_blocks(item: Json, path: str) -> list[Violation]:
    """Find blocks that 2.x's own class refuses in a message of this role."""
    role = item["role"]
    return [
        Violation(f"{path}.content[{place}]", f"a {role} message cannot have a block of type {block['type']}")
        for place, block in enumerate(item["content"])
        if block["type"] not in _BLOCKS.get(role, (block["type"],))
    ]


def _warnings(item: Json, path: str) -> list[str]:
    unknown = sorted(item.keys() - AgentScope2Msg.model_fields.keys())
    warnings = [f"{path}.{key} is not a field of an AgentScope message and was ignored" for key in unknown]
    for place, block in enumerate(item["content"]):
        if block["type"] == "tool_call" and block["input"].strip() and not is_json(block["input"]):
            warnings.append(f"{path}.content[{place}].input is not valid JSON")
    return warnings
