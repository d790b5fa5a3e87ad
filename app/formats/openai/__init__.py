"""The message format of OpenAI's chat completions."""

from collections.abc import Sequence
from typing import Any

from pydantic import TypeAdapter, ValidationError

from app.chat.messages import Message
from app.formats.base import Encoder, Format, Options, ParsedMessages, ReplyInfo, ReplyMode, WrittenMessages
from app.formats.openai.parse import parse_messages
from app.formats.openai.schema import OpenAIMessages
from app.formats.openai.stream import ChunkEncoder, CompletionEncoder, error_body
from app.formats.openai.write import write_messages
from app.validation.violations import to_violations

_adapter: TypeAdapter[Any] = TypeAdapter(OpenAIMessages)


def _parse(messages: list[Any], options: Options) -> ParsedMessages:
    try:
        wire = _adapter.validate_python(messages)
    except ValidationError as error:
        return ParsedMessages((), to_violations(error, messages, "messages", OpenAIMessages))
    return ParsedMessages(*parse_messages(wire))


def _write(messages: Sequence[Message], options: Options) -> WrittenMessages:
    return WrittenMessages(*write_messages(messages))


def _reply_encoder(info: ReplyInfo, mode: ReplyMode) -> Encoder:
    """Return the encoder; OpenAI's format has no snapshots, so that mode gives deltas."""
    return CompletionEncoder(info) if mode == "whole" else ChunkEncoder(info)


OPENAI = Format("openai", _parse, _write, _reply_encoder, OpenAIMessages, __name__, error=error_body, keeps_marks=True)
