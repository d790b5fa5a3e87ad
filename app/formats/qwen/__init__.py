"""Qwen-Agent's message format, both ways."""

from collections.abc import Callable, Sequence
from typing import Any

from pydantic import TypeAdapter, ValidationError

from app.chat.messages import Message, PromptPolicy
from app.formats.base import Decoded, Encoded, Encoder, Format, Mode, Options, ReplyInfo
from app.formats.qwen.decode import decode
from app.formats.qwen.encode import DeltaEncoder, SnapshotEncoder, WholeEncoder
from app.formats.qwen.history import history
from app.formats.qwen.schema import QwenMessage, QwenMessages
from app.formats.violations import violations

_adapter: TypeAdapter[Any] = TypeAdapter(QwenMessages)
_ENCODERS: dict[Mode, Callable[[ReplyInfo], Encoder]] = {
    "delta": DeltaEncoder,
    "snapshot": SnapshotEncoder,
    "whole": WholeEncoder,
}


def _decode(messages: list[Any], options: Options) -> Decoded:
    try:
        wire = _adapter.validate_python(messages)
    except ValidationError as error:
        found = violations(error, messages, "messages", QwenMessages)
        _, more, warnings = decode([_sound(message) for message in messages])
        return Decoded((), [*found, *more], warnings)
    return Decoded(*decode(wire))


def _sound(message: Any) -> QwenMessage | None:
    try:
        return QwenMessage.model_validate(message)
    except ValidationError:
        return None


def _encoder(info: ReplyInfo, mode: Mode) -> Encoder:
    return _ENCODERS[mode](info)


def _encode(messages: Sequence[Message], options: Options) -> Encoded:
    return Encoded(*history(messages))


QWEN_AGENT = PromptPolicy(name_media="with_tools", localized=True, folds_last=True, separates_users=True)
"""Of Qwen-Agent's model layer (docs/qwen-agent-parity.md)."""
QWEN = Format("qwen", _decode, _encode, _encoder, QwenMessages, text_joiner="", policy=QWEN_AGENT)
