"""Parses AgentScope 2.x messages."""

from pydantic import TypeAdapter

from app.chat.accumulator import is_json
from app.chat.messages import Message
from app.errors import Violation
from app.formats.agentscope.common_parse import ParseRules
from app.formats.agentscope.common_write import make_head
from app.formats.agentscope.notes import Json
from app.formats.agentscope.replay import read_item
from app.formats.agentscope.v2.blocks import SYNTAX
from app.formats.agentscope.v2.schema import AgentScope2Msg, Messages

_BLOCKS = {"user": ("text", "data"), "system": ("text",)}


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


_RULES = ParseRules(
    Messages, TypeAdapter(Messages), TypeAdapter(AgentScope2Msg), _find_misplaced_blocks, read_message, _warnings
)
parse_messages, validate_and_read = _RULES.parse, _RULES.validate_and_read
