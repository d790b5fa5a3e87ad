"""AgentScope's message format as 2.x has it, both ways."""

from app.formats.agentscope2.decode import decode
from app.formats.agentscope2.encode import EventEncoder, WholeEncoder, refusal
from app.formats.agentscope2.history import encode
from app.formats.agentscope2.schema import Messages
from app.formats.base import Encoder, Format, Mode, ReplyInfo


def _encoder(info: ReplyInfo, mode: Mode) -> Encoder:
    """Every stream is one of events: 2.x has no snapshots."""
    return WholeEncoder(info) if mode == "whole" else EventEncoder(info)


AGENTSCOPE2 = Format("agentscope2", decode, encode, _encoder, Messages, error=refusal, keeps_marks=True)
