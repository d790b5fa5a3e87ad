"""The message format of AgentScope 2.x."""

from app.formats.agentscope.v2.parse import parse_messages
from app.formats.agentscope.v2.schema import Messages
from app.formats.agentscope.v2.stream import AgentScope2EventEncoder, AgentScope2WholeEncoder, error_body
from app.formats.agentscope.v2.write import write_messages
from app.formats.base import Encoder, Format, ReplyInfo, ReplyMode


def _reply_encoder(info: ReplyInfo, mode: ReplyMode) -> Encoder:
    """Return the encoder; AgentScope 2.x streams only events."""
    return AgentScope2WholeEncoder(info) if mode == "whole" else AgentScope2EventEncoder(info)


AGENTSCOPE2 = Format(
    "agentscope2",
    parse_messages,
    write_messages,
    _reply_encoder,
    Messages,
    __name__,
    error=error_body,
    keeps_marks=True,
)
