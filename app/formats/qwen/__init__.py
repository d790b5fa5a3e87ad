"""The message format of Qwen-Agent."""

from collections.abc import Callable, Sequence
from typing import Any

from pydantic import TypeAdapter, ValidationError

from app.chat.messages import Message, PromptPolicy
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
from app.formats.qwen.parse import parse_messages
from app.formats.qwen.schema import QwenMessage, QwenMessages
from app.formats.qwen.stream import QwenDeltaEncoder, QwenSnapshotEncoder, QwenWholeEncoder
from app.formats.qwen.write import write_messages
from app.formats.request_memory import validate_entries
from app.validation.violations import to_violations

_schema = EntrySchema(TypeAdapter(QwenMessages), TypeAdapter(QwenMessage))
_ENCODERS: dict[ReplyMode, Callable[[ReplyInfo], Encoder]] = {
    "delta": QwenDeltaEncoder,
    "snapshot": QwenSnapshotEncoder,
    "whole": QwenWholeEncoder,
}


def _parse(messages: list[Any], options: Options) -> ParsedMessages:
    try:
        wire = validate_entries(messages, _schema)
    except ValidationError as error:
        found = to_violations(error, messages, "messages", QwenMessages)
        rest = parse_messages([_validate_message(message) for message in messages])
        return ParsedMessages((), [*found, *rest.violations], rest.warnings)
    return parse_messages(wire, messages)


def _validate_message(message: Any) -> QwenMessage | None:
    try:
        return QwenMessage.model_validate(message)
    except ValidationError:
        return None


def _reply_encoder(info: ReplyInfo, mode: ReplyMode) -> Encoder:
    return _ENCODERS[mode](info)


def _write(messages: Sequence[Message], options: Options) -> WrittenMessages:
    return WrittenMessages(*write_messages(messages))


_CONTENT_KEYS = frozenset({"text", "image", "file", "audio", "video"})


def _recognizes(message: GivenMessage) -> bool:
    fields = message.fields
    if fields.get("role") == "function" or "function_call" in fields or "reasoning_content" in fields:
        return True
    return any("type" not in block and block.keys() & _CONTENT_KEYS for block in message.blocks)


QWEN_AGENT = PromptPolicy(name_media="with_tools", localized=True, folds_last=True, separates_users=True)
"""The changes that Qwen-Agent's model layer makes (docs/evidence/qwen-agent-parity.md)."""
QWEN = Format(
    "qwen",
    _parse,
    _write,
    _reply_encoder,
    QwenMessages,
    __name__,
    _recognizes,
    write_text=lambda text: {"text": text},
    text_joiner="",
    policy=QWEN_AGENT,
)
