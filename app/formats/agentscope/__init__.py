"""AgentScope's message format as 1.x has it, both ways."""

from app.formats.agentscope.decode import decode
from app.formats.agentscope.encode import StreamEncoder, WholeEncoder, refusal
from app.formats.agentscope.history import encode
from app.formats.agentscope.schema import Messages
from app.formats.base import Encoder, Format, Mode, ReplyInfo


def _encoder(info: ReplyInfo, mode: Mode) -> Encoder:
    """Every stream is one of snapshots."""
    return WholeEncoder(info) if mode == "whole" else StreamEncoder(info)


AGENTSCOPE = Format("agentscope", decode, encode, _encoder, Messages, error=refusal, keeps_marks=True)
