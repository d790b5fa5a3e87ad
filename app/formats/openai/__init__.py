"""The message format of OpenAI's chat completions."""

from collections.abc import Sequence
from typing import Any

from pydantic import TypeAdapter, ValidationError

from app.chat.messages import Message
from app.formats.base import (
    Encoder,
    Format,
    GivenMessage,
    Options,
    ParsedMessages,
    ReplyInfo,
    ReplyMode,
    WrittenMessages,
)
from app.formats.entry_schemas import EntrySchema
from app.formats.openai.parse import parse_messages
from app.formats.openai.plain import PLAIN_MESSAGES
from app.formats.openai.schema import OpenAIMessage, OpenAIMessages
from app.formats.openai.stream import WRITE_ERROR, ChunkEncoder, CompletionEncoder, ScoredChunkEncoder
from app.formats.openai.write import write_messages
from app.formats.request_memory import validate_entries
from app.validation.violations import to_violations

_schema = EntrySchema(TypeAdapter(OpenAIMessages), TypeAdapter(OpenAIMessage), "role", PLAIN_MESSAGES)


def _parse(messages: list[Any], options: Options) -> ParsedMessages:
    try:
        wire = validate_entries(messages, _schema)
    except ValidationError as error:
        return ParsedMessages((), to_violations(error, messages, "messages", OpenAIMessages))
    return parse_messages(wire, messages)


def _write(messages: Sequence[Message], options: Options) -> WrittenMessages:
    return WrittenMessages(*write_messages(messages))


def _reply_encoder(info: ReplyInfo, mode: ReplyMode) -> Encoder:
    """Return the encoder; OpenAI's format has no snapshots, so that mode gives deltas."""
    if mode == "whole":
        return CompletionEncoder(info)
    return ScoredChunkEncoder(info) if info.options.logprobs else ChunkEncoder(info)


_PARTS = frozenset({"image_url", "input_audio", "file", "audio_url", "video_url", "refusal"})


def _recognizes(message: GivenMessage) -> bool:
    fields = message.fields
    return bool(
        fields.get("role") in ("tool", "developer")
        or "tool_calls" in fields
        or "tool_call_id" in fields
        or message.kinds & _PARTS
        or any(block.get("type") == "video" and "video" in block for block in message.blocks)
    )


OPENAI = Format(
    "openai",
    _parse,
    _write,
    _reply_encoder,
    OpenAIMessages,
    __name__,
    _recognizes,
    lambda message: "text" in message.kinds,
    error=WRITE_ERROR,
    keeps_marks=True,
    keeps_served_calls=True,
    cuts_failed="calls",  # vercel/ai, packages/openai-compatible: its `flush` hands over calls that have not ended
)
