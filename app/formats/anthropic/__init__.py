"""The message format of Anthropic's Messages API."""

from app.chat.messages import PromptPolicy
from app.chat.stage import Pipe, Stage
from app.formats.anthropic.arguments import ObjectArgumentsStage
from app.formats.anthropic.errors import WRITE_ERROR
from app.formats.anthropic.parse import parse_messages
from app.formats.anthropic.schema import AnthropicMessages
from app.formats.anthropic.stream import HEARTBEAT, AnthropicStreamEncoder, AnthropicWholeEncoder
from app.formats.anthropic.write import write_messages
from app.formats.base import Encoder, Format, ReplyInfo, ReplyMode
from app.formats.sequential_calls import SequentialCallsStage


def _reply_encoder(info: ReplyInfo, mode: ReplyMode) -> Encoder:
    """Return the encoder; Anthropic's format has no snapshots, so that mode gives deltas."""
    return AnthropicWholeEncoder(info) if mode == "whole" else AnthropicStreamEncoder(info)


def _reply_stage() -> Stage:
    return Pipe([ObjectArgumentsStage(), SequentialCallsStage()])


ANTHROPIC = Format(
    "anthropic",
    parse_messages,
    write_messages,
    _reply_encoder,
    AnthropicMessages,
    error=WRITE_ERROR,
    keeps_marks=True,
    policy=PromptPolicy(folds_last=True, optional_marks=True),
    reply_stage=_reply_stage,
    heartbeat=HEARTBEAT,
)
