"""The message format of AgentScope 1.x."""

from app.formats.agentscope.v1.parse import parse_messages
from app.formats.agentscope.v1.schema import Messages
from app.formats.agentscope.v1.stream import AgentScopeStreamEncoder, AgentScopeWholeEncoder, error_body
from app.formats.agentscope.v1.write import write_messages
from app.formats.base import Encoder, Format, ReplyInfo, ReplyMode


def _reply_encoder(info: ReplyInfo, mode: ReplyMode) -> Encoder:
    """Return the encoder; AgentScope 1.x streams only snapshots."""
    return AgentScopeWholeEncoder(info) if mode == "whole" else AgentScopeStreamEncoder(info)


AGENTSCOPE = Format(
    "agentscope",
    parse_messages,
    write_messages,
    _reply_encoder,
    Messages,
    __name__,
    error=error_body,
    keeps_marks=True,
)
