"""The items and events of OpenAI's Responses API."""

from collections.abc import Sequence
from typing import Any

from app.chat.messages import Message
from app.formats.base import (
    Encoder,
    ErrorWriter,
    Format,
    Options,
    ParsedMessages,
    ReplyInfo,
    ReplyMode,
    WrittenMessages,
)
from app.formats.responses.parse import parse_items
from app.formats.responses.schema import ResponsesItems
from app.formats.responses.stream import ResponseEncoder, ResponseEventEncoder, error_body
from app.formats.responses.write import write_items


def _parse(messages: list[Any], options: Options) -> ParsedMessages:
    return parse_items({"messages": messages})


def _write(messages: Sequence[Message], options: Options) -> WrittenMessages:
    return WrittenMessages(*write_items(messages))


def _reply_encoder(info: ReplyInfo, mode: ReplyMode) -> Encoder:
    """Return the encoder; this format has no snapshots, so that mode gives deltas."""
    return ResponseEncoder(info) if mode == "whole" else ResponseEventEncoder(info)


_ERROR = ErrorWriter(error_body, statuses={422: 400}, tells_retry=True)
RESPONSES = Format("responses", _parse, _write, _reply_encoder, ResponsesItems, __name__, error=_ERROR)
