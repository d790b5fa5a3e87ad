"""Replies and frames of AgentScope 1.x (docs/reference/formats/agentscope.md)."""

from typing import TypeAlias

from app.formats.agentscope.openapi import AgentScopeErrorBody
from app.formats.agentscope.v1.schema import AgentScopeMsg
from app.formats.openapi import Described, FormatPart


class AgentScopeReply(Described):
    """A whole reply in AgentScope's format, version 1; also a frame with the message so far."""

    msg: AgentScopeMsg
    last: bool
    """Whether the message is complete."""


AgentScopeFrame: TypeAlias = AgentScopeReply | AgentScopeErrorBody

PART = FormatPart("AgentScope", (AgentScopeReply,), "AgentScopeFrame", AgentScopeFrame, AgentScopeErrorBody)
