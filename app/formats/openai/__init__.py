"""OpenAI's chat messages, both ways."""

from collections.abc import Sequence
from typing import Any

from pydantic import TypeAdapter, ValidationError

from app.chat.messages import Message
from app.formats.base import Decoded, Encoded, Encoder, Format, Mode, Options, ReplyInfo
from app.formats.openai.decode import decode
from app.formats.openai.encode import ChunkEncoder, CompletionEncoder, error_body
from app.formats.openai.history import history
from app.formats.openai.schema import OpenAIMessages
from app.formats.violations import violations

_adapter: TypeAdapter[Any] = TypeAdapter(OpenAIMessages)


def _decode(messages: list[Any], options: Options) -> Decoded:
    try:
        wire = _adapter.validate_python(messages)
    except ValidationError as error:
        return Decoded((), violations(error, messages, "messages", OpenAIMessages))
    return Decoded(*decode(wire))


def _encode(messages: Sequence[Message], options: Options) -> Encoded:
    return Encoded(*history(messages))


def _encoder(info: ReplyInfo, mode: Mode) -> Encoder:
    """Chunks are what is new by nature: a snapshot is asked for in vain."""
    return CompletionEncoder(info) if mode == "whole" else ChunkEncoder(info)


OPENAI = Format("openai", _decode, _encode, _encoder, OpenAIMessages, error=error_body, keeps_marks=True)
