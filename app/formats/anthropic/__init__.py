"""The message format of Anthropic's Messages API."""

from app.chat.messages import PromptPolicy
from app.formats.anthropic.arguments import CallsStage
from app.formats.anthropic.errors import WRITE_ERROR
from app.formats.anthropic.parse import parse_messages
from app.formats.anthropic.schema import AnthropicMessages
from app.formats.anthropic.stream import AnthropicStreamEncoder, AnthropicWholeEncoder
from app.formats.anthropic.write import write_messages
from app.formats.base import Encoder, Format, GivenMessage, ReplyInfo, ReplyMode


def _reply_encoder(info: ReplyInfo, mode: ReplyMode) -> Encoder:
    """Return the encoder; Anthropic's format has no snapshots, so that mode gives deltas."""
    return AnthropicWholeEncoder(info) if mode == "whole" else AnthropicStreamEncoder(info)


_BLOCKS = frozenset(
    {"document", "search_result", "redacted_thinking", "server_tool_use", "compaction", "fallback", "tool_addition"}
)
_SHARED_BLOCKS = frozenset({"tool_use", "thinking", "tool_result"})
"""Those that AgentScope 1.x has, too; but its messages have a name."""


def _recognizes(message: GivenMessage) -> bool:
    blocks = message.blocks
    if message.kinds & _BLOCKS or any("tool_use_id" in block or "signature" in block for block in blocks):
        return True
    shared = message.kinds & _SHARED_BLOCKS or any("source" in block for block in blocks)
    return "name" not in message.fields and bool(shared)


def _make_stage(info: ReplyInfo, mode: ReplyMode) -> CallsStage:
    return CallsStage(mode)


ANTHROPIC = Format(
    "anthropic",
    parse_messages,
    write_messages,
    _reply_encoder,
    AnthropicMessages,
    __name__,
    _recognizes,
    error=WRITE_ERROR,
    keeps_marks=True,
    keeps_served_calls=True,
    policy=PromptPolicy(folds_last=True, optional_marks=True),
    tells_approval=False,
    reply_stage=_make_stage,
)
