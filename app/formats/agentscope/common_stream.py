"""The common parts of the reply encoders of both AgentScope versions."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from msgspec.structs import replace

from app.chat.accumulator import MessageAccumulator, ReplyMessage
from app.chat.events import Finish
from app.chat.messages import Media, Message, Part, Reasoning, Text, ToolCall, ToolResult
from app.formats.agentscope.common_write import make_head
from app.formats.agentscope.notes import Json
from app.formats.base import ReplyInfo, is_cached

_USUAL = frozenset({"prompt_tokens", "completion_tokens", "total_tokens"})


def local_time(created: int) -> str:
    """Write a time as AgentScope 1.x does, without a time zone; it is UTC."""
    return f"{datetime.fromtimestamp(created, UTC):%Y-%m-%d %H:%M:%S}.000"


def iso_time(created: int) -> str:
    return datetime.fromtimestamp(created, UTC).isoformat()


def reply_head(info: ReplyInfo, created_at: str) -> Message:
    extra = {"message_id": info.response_id, "created_at": created_at}
    return make_head("assistant", info.options.agent_name, info.response_id, "", extra)


def to_piece(message: ReplyMessage, top: Message) -> Message:
    """Make a piece of the reply, with one part, from an accumulated message."""
    part: Part
    if message.result is not None:
        result = message.result
        is_error = True if result.is_error else None
        return Message("tool", (ToolResult(result.content, result.name, result.id, is_error),), extra=dict(top.extra))
    if message.kind == "reasoning_content":
        part = Reasoning(message.text)
    elif message.kind == "content":
        part = Text(message.text)
    elif message.media is not None:
        part = Media(message.media.media, (message.media.url,))
    else:
        fields = _pick(message.extra, "extra_content")
        part = ToolCall(message.name, message.text, message.id, fields, awaits_approval=awaits_approval(message))
    call_keys = ("arguments_valid", "extra_content") if message.kind == "function_call" else ()
    extra = {key: value for key, value in message.extra.items() if key not in call_keys}
    extra |= {} if message.media is None else message.media.fields
    return Message("assistant", (part,), top.name, top.turn, extra={**top.extra, **extra})


def awaits_approval(message: ReplyMessage) -> bool:
    return message.server is not None and message.server.approval


def _pick(extra: Json, key: str) -> Json:
    return {key: extra[key]} if key in extra else {}


def usage_of(usage: dict[str, Any] | None) -> Json | None:
    """Return AgentScope's two numbers; `metadata` has the server's usage if that has more fields."""
    if usage is None:
        return None
    out: Json = {
        "input_tokens": read_token_count(usage, "prompt_tokens"),
        "output_tokens": read_token_count(usage, "completion_tokens"),
    }
    return out if _USUAL.issuperset(usage) else out | {"metadata": usage}


def read_token_count(usage: dict[str, Any] | None, key: str) -> int:
    value = (usage or {}).get(key)
    return value if isinstance(value, int) else 0


def write_finish_fields(finish: Finish) -> Json:
    """Return the finish reason, and the server's own one if that differs."""
    native = {} if finish.native_reason is None else {"native_finish_reason": finish.native_reason}
    return {"finish_reason": finish.reason, **native}


def collect_metadata(info: ReplyInfo, accumulator: MessageAccumulator, finish: Finish) -> Json:
    """Return the metadata for which neither version has a field."""
    warnings = info.warnings_with(finish)
    metadata: Json = {"warnings": warnings} if warnings else {}
    metadata |= {"cached": True} if is_cached(info, finish) else {}
    metadata |= info.write_extensions(finish)
    return metadata | ({"extra": dict(accumulator.loose_extra)} if accumulator.loose_extra else {})


def merge_pieces(pieces: Sequence[Message]) -> list[Message]:
    """Merge the pieces into one reasoning and one text, then media and calls, as AgentScope 1.x orders them.

    So text that one snapshot has is never missing from the next.
    """
    out: list[Message] = []
    for kind in (Reasoning, Text):
        same = [one for one in pieces if isinstance(one.parts[0], kind)]
        if same:
            text = "".join(part.text for one in same for part in one.parts if isinstance(part, kind))
            out.append(replace(same[0], parts=(kind(text),), extra=_merge_extras(same)))
    for last in (Media, ToolCall):
        out += [one for one in pieces if isinstance(one.parts[0], last)]
    return out


def _merge_extras(pieces: Sequence[Message]) -> Json:
    """Merge extras; lists, such as the details of several reasonings, are concatenated."""
    out: Json = {}
    for one in pieces:
        for key, value in one.extra.items():
            known = out.get(key)
            out[key] = known + value if isinstance(known, list) and isinstance(value, list) else value
    return out
