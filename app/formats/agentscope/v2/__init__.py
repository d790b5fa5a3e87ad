"""The message format of AgentScope 2.x."""

from app.formats.agentscope.v2.parse import parse_messages
from app.formats.agentscope.v2.schema import Messages
from app.formats.agentscope.v2.stream import AgentScope2EventEncoder, AgentScope2WholeEncoder, error_body
from app.formats.agentscope.v2.write import write_messages
from app.formats.base import Encoder, Format, GivenMessage, ReplyInfo, ReplyMode


def _reply_encoder(info: ReplyInfo, mode: ReplyMode) -> Encoder:
    """Return the encoder; AgentScope 2.x streams only events."""
    return AgentScope2WholeEncoder(info) if mode == "whole" else AgentScope2EventEncoder(info)


_BLOCKS = frozenset({"tool_call", "data", "hint"})


def _recognizes(message: GivenMessage) -> bool:
    fields = message.fields
    return (
        not message.kinds.isdisjoint(_BLOCKS)
        or ("created_at" in fields and "finished_at" in fields)
        or "structured_output" in fields
    )


def _resembles(message: GivenMessage) -> bool:
    fields = message.fields
    return "name" in fields and isinstance(fields.get("metadata"), dict) and isinstance(fields.get("created_at"), str)


AGENTSCOPE2 = Format(
    "agentscope2",
    parse_messages,
    write_messages,
    _reply_encoder,
    Messages,
    __name__,
    _recognizes,
    _resembles,
    error=error_body,
    keeps_marks=True,
)
