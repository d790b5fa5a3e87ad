"""The message format of AgentScope 1.x."""

from app.formats.agentscope.v1.parse import parse_messages
from app.formats.agentscope.v1.schema import Messages
from app.formats.agentscope.v1.stream import AgentScopeStreamEncoder, AgentScopeWholeEncoder, error_body
from app.formats.agentscope.v1.write import write_messages
from app.formats.base import Encoder, Format, GivenMessage, ReplyInfo, ReplyMode


def _reply_encoder(info: ReplyInfo, mode: ReplyMode) -> Encoder:
    """Return the encoder; AgentScope 1.x streams only snapshots."""
    return AgentScopeWholeEncoder(info) if mode == "whole" else AgentScopeStreamEncoder(info)


_BLOCKS = frozenset({"tool_use", "thinking", "tool_result"})


def _recognizes(message: GivenMessage) -> bool:
    fields = message.fields
    return bool(
        message.kinds & _BLOCKS
        or any("source" in block for block in message.blocks)
        or "timestamp" in fields
        or "__module__" in fields
    )


def _resembles(message: GivenMessage) -> bool:
    return "name" in message.fields and isinstance(message.fields.get("metadata"), dict)


AGENTSCOPE = Format(
    "agentscope",
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
