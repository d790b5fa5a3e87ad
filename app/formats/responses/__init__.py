"""The items and events of OpenAI's Responses API."""

from collections.abc import Sequence
from typing import Any

from app.chat.messages import Message
from app.formats.base import (
    Encoder,
    ErrorWriter,
    Format,
    GivenMessage,
    Options,
    ParsedMessages,
    ReplyInfo,
    ReplyMode,
    WrittenMessages,
)
from app.formats.responses.parse import parse_items
from app.formats.responses.response import error_body
from app.formats.responses.schema import ResponsesItems
from app.formats.responses.stream import ResponseEncoder, ResponseEventEncoder, ScoredResponseEventEncoder
from app.formats.responses.whole_summary import FinishedSummary
from app.formats.responses.write import write_items


def _parse(messages: list[Any], options: Options) -> ParsedMessages:
    return parse_items({"messages": messages})


def _write(messages: Sequence[Message], options: Options) -> WrittenMessages:
    return WrittenMessages(*write_items(messages))


def _reply_encoder(info: ReplyInfo, mode: ReplyMode) -> Encoder:
    """Return the encoder; this format has no snapshots, so that mode gives deltas."""
    if mode == "whole":
        return ResponseEncoder(info)
    return ScoredResponseEventEncoder(info) if info.options.logprobs else ResponseEventEncoder(info)


def _make_stage(info: ReplyInfo, mode: ReplyMode) -> FinishedSummary | None:
    return FinishedSummary() if info.options.responses.compacts else None


_ERROR = ErrorWriter(error_body, statuses={422: 400})
_ITEMS = frozenset(
    {
        *("message", "reasoning", "function_call", "function_call_output", "custom_tool_call"),
        *("custom_tool_call_output", "item_reference", "web_search_call", "tool_search_call", "tool_search_output"),
        *("shell_call", "shell_call_output", "local_shell_call", "local_shell_call_output", "apply_patch_call"),
        *("apply_patch_call_output", "additional_tools", "configuration_update", "compaction_trigger"),
    }
)
_PARTS = frozenset({"input_text", "output_text", "input_image", "input_file", "input_video"})


def _recognizes(message: GivenMessage) -> bool:
    kind = message.fields.get("type")
    return (isinstance(kind, str) and kind in _ITEMS) or not message.kinds.isdisjoint(_PARTS)


RESPONSES = Format(
    *("responses", _parse, _write, _reply_encoder, ResponsesItems, __name__, _recognizes),
    error=_ERROR,
    keeps_served_calls=True,
    # Codex sends the request again, up to five times, after an incomplete Response, and drops a message with a refusal.
    # After a failed one with the code `invalid_prompt` it ends its turn and shows the message.
    fails_refused=True,
    reply_stage=_make_stage,
)
