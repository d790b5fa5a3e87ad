"""Replies and frames of AutoGen and AgentScope (docs/reference/formats/autogen.md, agentscope.md)."""

from typing import Annotated, Any, Literal, TypeAlias

from pydantic import Field

from app.formats.agentscope.v1.schema import AgentScopeMsg
from app.formats.agentscope.v2.schema import AgentScope2Msg
from app.formats.autogen.schema import AutogenMessage
from app.formats.openapi import AgentScopeErrorBody, AutogenErrorBody, Described, Json, give_examples

_HEAD: Json = {"source": "assistant", "models_usage": None, "metadata": {}, "created_at": "2026-11-22T16:28:02Z"}
_TEXT: Json = {"id": "chat-6ab7e333-1", **_HEAD, "content": "Hello!", "type": "TextMessage"}
_REPLY = "chat-bf7f6d3e"


class AutogenReply(Described):
    """A whole reply in AutoGen's format: AgentChat's messages and events."""

    model_config = give_examples({"messages": [_TEXT], "stop_reason": "stop"})

    messages: list[AutogenMessage]
    stop_reason: str
    warnings: list[str] | None = None


class AutogenTaskResult(AutogenReply):
    """The last frame of a stream, unless `autogen_stream` is `model`."""

    model_config = give_examples({"type": "TaskResult", "messages": [_TEXT], "stop_reason": "stop"})

    type: Literal["TaskResult"]


class AutogenCreateResult(Described):
    """With `autogen_stream: model`: AutoGen's `CreateResult`, the reply or the last frame of its stream."""

    model_config = give_examples(
        {
            "finish_reason": "stop",
            "content": "Hello!",
            "usage": {"prompt_tokens": 8, "completion_tokens": 21},
            "cached": False,
            "logprobs": None,
            "thought": None,
        }
    )

    finish_reason: Literal["stop", "length", "function_calls", "content_filter", "unknown"]
    content: str | list[dict[str, Any]]
    usage: dict[str, Any]
    cached: bool
    logprobs: Any
    thought: str | None
    extra: dict[str, Any] | None = None
    warnings: list[str] | None = None


AutogenFrame: TypeAlias = Annotated[
    AutogenMessage | AutogenTaskResult | AutogenCreateResult | AutogenErrorBody | str,
    Field(description="A message or event of AgentChat; with `autogen_stream: model` a piece of text; the last frame."),
]


class AgentScopeReply(Described):
    """A whole reply in AgentScope's format, version 1; also a frame with the message so far."""

    model_config = give_examples(
        {
            "msg": {
                "id": _REPLY,
                "name": "assistant",
                "role": "assistant",
                "content": [{"type": "text", "text": "Hello!"}],
                "metadata": {"finish_reason": "stop"},
                "timestamp": "2026-11-22 16:28:02.000",
            },
            "last": True,
        }
    )

    msg: AgentScopeMsg
    last: bool
    """Whether the message is complete."""


AgentScopeFrame: TypeAlias = AgentScopeReply | AgentScopeErrorBody


class AgentScope2Reply(Described):
    """A whole reply in AgentScope's format, version 2."""

    model_config = give_examples(
        {
            "msg": {
                "id": _REPLY,
                "name": "assistant",
                "role": "assistant",
                "content": [{"type": "text", "text": "Hello!"}],
                "metadata": {"finish_reason": "stop"},
                "created_at": "2026-11-22T16:28:02+00:00",
                "finished_reason": "completed",
            }
        }
    )

    msg: AgentScope2Msg


class AgentScope2Event(Described):
    """An event of AgentScope 2. `Msg.append_event` makes the message of them."""

    model_config = give_examples(
        {
            "id": f"{_REPLY}-e4",
            "created_at": "2026-11-22T16:28:02+00:00",
            "metadata": {},
            "type": "TEXT_BLOCK_DELTA",
            "reply_id": _REPLY,
            "block_id": f"{_REPLY}-b1",
            "delta": "Hello",
        }
    )

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
