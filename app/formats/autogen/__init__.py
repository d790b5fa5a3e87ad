"""The messages and events of AutoGen (AgentChat 0.4 to 0.7.5, and the model messages of its core)."""

import re
from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec.structs import replace
from pydantic import ValidationError

from app.chat.messages import Message
from app.formats.autogen.parse import parse_items
from app.formats.autogen.reply_items import error_item
from app.formats.autogen.schema import AutogenMessages, all_items
from app.formats.autogen.stream import AgentEventEncoder, AutogenWholeEncoder, InterleavedEncoder
from app.formats.autogen.stream_compat import CompatEncoder, ModelViewEncoder
from app.formats.autogen.write import write_items
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
from app.formats.server_asks import mark_waiting_calls
from app.validation.violations import to_violations

_STREAMS: dict[str, type[AgentEventEncoder]] = {
    "interleaved": InterleavedEncoder,
    "compat": CompatEncoder,
    "model": ModelViewEncoder,
}


def _parse(messages: list[Any], options: Options) -> ParsedMessages:
    try:
        items = all_items.validate_python(messages)
    except ValidationError as error:
        return ParsedMessages((), to_violations(error, messages, "messages", AutogenMessages))
    parsed = ParsedMessages(*parse_items(items, messages, options.agent))
    waiting = {id_ for item in messages for id_ in _list_waiting(item.get("metadata"))}
    if not waiting:
        return parsed
    return replace(parsed, messages=mark_waiting_calls(parsed.messages, waiting), has_waiting=True)


def _list_waiting(metadata: Any) -> list[str]:
    """Return the ids of the calls that an item's metadata says wait for approval."""
    text = metadata.get("approval") if metadata else None
    try:
        return msgspec.json.decode(text, type=list[str]) if isinstance(text, str) else []
    except msgspec.MsgspecError:
        return []


def _reply_encoder(info: ReplyInfo, mode: ReplyMode) -> Encoder:
    """Return the encoder; AutoGen's format has no snapshots, so that mode gives deltas."""
    stream = _STREAMS[info.options.autogen_stream](info)
    return AutogenWholeEncoder(stream) if mode == "whole" else stream


def _write(messages: Sequence[Message], options: Options) -> WrittenMessages:
    return WrittenMessages(*write_items(messages, options.agent, options.agent_name))


_TYPE = re.compile(r"[A-Z]\w*(Message|Event|Result)(\[\w*\])?$")
_WITHOUT_SOURCE = frozenset({"SystemMessage", "FunctionExecutionResultMessage"})


def _recognizes(message: GivenMessage) -> bool:
    kind = message.fields.get("type")
    if not isinstance(kind, str) or not _TYPE.match(kind):
        return False
    return "source" in message.fields or kind in _WITHOUT_SOURCE


AUTOGEN = Format(
    "autogen",
    _parse,
    _write,
    _reply_encoder,
    AutogenMessages,
    __name__,
    _recognizes,
    write_text=lambda text: text,
    error=error_item,
)
