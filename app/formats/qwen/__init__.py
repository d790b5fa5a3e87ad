"""The message format of Qwen-Agent."""

from collections.abc import Callable, Sequence
from typing import Any

from pydantic import TypeAdapter, ValidationError

from app.chat.messages import Message, PromptPolicy
from app.formats.base import Encoder, Format, Options, ParsedMessages, ReplyInfo, ReplyMode, WrittenMessages
from app.formats.plain import parse_plain_messages
from app.formats.qwen.parse import parse_messages
from app.formats.qwen.schema import QwenMessage, QwenMessages
from app.formats.qwen.stream import QwenDeltaEncoder, QwenSnapshotEncoder, QwenWholeEncoder
from app.formats.qwen.write import write_messages
from app.validation.violations import to_violations

_adapter: TypeAdapter[Any] = TypeAdapter(QwenMessages)
_ENCODERS: dict[ReplyMode, Callable[[ReplyInfo], Encoder]] = {
    "delta": QwenDeltaEncoder,
    "snapshot": QwenSnapshotEncoder,
    "whole": QwenWholeEncoder,
}


def _parse(messages: list[Any], options: Options) -> ParsedMessages:
    plain = parse_plain_messages(messages)
    if plain is not None and is_in_order(plain):
        return ParsedMessages(plain, plain=True)
    try:
        wire = _adapter.validate_python(messages)
    except ValidationError as error:
        found = to_violations(error, messages, "messages", QwenMessages)
        _, more, warnings = parse_messages([_validate_message(message) for message in messages])
        return ParsedMessages((), [*found, *more], warnings)
    return ParsedMessages(*parse_messages(wire))


def is_in_order(messages: Sequence[Message]) -> bool:
    """Whether only the first message is a system message, and the first one that is not is the user's."""
    roles = [message.role for message in messages]
    start = 1 if roles[:1] == ["system"] else 0
    return roles[start : start + 1] == ["user"] and "system" not in roles[start:]


def _validate_message(message: Any) -> QwenMessage | None:
    try:
        return QwenMessage.model_validate(message)
    except ValidationError:
        return None


def _reply_encoder(info: ReplyInfo, mode: ReplyMode) -> Encoder:
    return _ENCODERS[mode](info)


def _write(messages: Sequence[Message], options: Options) -> WrittenMessages:
    return WrittenMessages(*write_messages(messages))


QWEN_AGENT = PromptPolicy(name_media="with_tools", localized=True, folds_last=True, separates_users=True)
"""The changes that Qwen-Agent's model layer makes (docs/evidence/qwen-agent-parity.md)."""
QWEN = Format("qwen", _parse, _write, _reply_encoder, QwenMessages, text_joiner="", policy=QWEN_AGENT)
