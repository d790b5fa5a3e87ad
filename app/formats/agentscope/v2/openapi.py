"""Replies and events of AgentScope 2.x (docs/reference/formats/agentscope.md)."""

from typing import Any, Literal

from app.formats.agentscope.openapi import AgentScopeErrorBody
from app.formats.agentscope.v2.schema import AgentScope2Msg
from app.formats.openapi import Described, FormatPart


class AgentScope2Reply(Described):
    """A whole reply in AgentScope's format, version 2."""

    msg: AgentScope2Msg


class AgentScope2Event(Described):
    """An event of AgentScope 2. `Msg.append_event` makes the message of them."""

    id: str
    created_at: str
    metadata: dict[str, Any]
    type: Literal[
        "REPLY_START",
        "MODEL_CALL_START",
        "THINKING_BLOCK_START",
        "THINKING_BLOCK_DELTA",
        "THINKING_BLOCK_END",
        "TEXT_BLOCK_START",
        "TEXT_BLOCK_DELTA",
        "TEXT_BLOCK_END",
        "TOOL_CALL_START",
        "TOOL_CALL_DELTA",
        "TOOL_CALL_END",
        "DATA_BLOCK_START",
        "DATA_BLOCK_DELTA",
        "DATA_BLOCK_END",
        "MODEL_CALL_END",
        "REPLY_END",
    ]
    reply_id: str
    session_id: str | None = None
    name: str | None = None
    role: Literal["assistant"] | None = None
    model_name: str | None = None
    block_id: str | None = None
    """The block of thinking, text or data."""
    tool_call_id: str | None = None
    tool_call_name: str | None = None
    delta: str | None = None
    """New text of the block, or of the arguments of the call."""
    media_type: str | None = None
    data: str | None = None
    url: str | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    cache_input_tokens: int | None = None
    cache_creation_input_tokens: int | None = None
    finished_reason: str | None = None
    """In `REPLY_END`: `completed`, or `error`."""
    error: dict[str, Any] | None = None


PART = FormatPart("AgentScope2", (AgentScope2Reply,), "AgentScope2Event", AgentScope2Event, AgentScopeErrorBody)
