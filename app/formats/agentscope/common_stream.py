"""Replies in AgentScope's messages: what both versions have in common."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from app.chat.accumulator import MessageAccumulator, ReplyMessage
from app.chat.events import Finish
from app.chat.messages import Media, Message, Part, Reasoning, Text, ToolCall
from app.formats.agentscope.common_write import make_head
from app.formats.agentscope.notes import Json
from app.formats.base import ReplyInfo

_USUAL = frozenset({"prompt_tokens", "completion_tokens", "total_tokens"})


def local_time(created: int) -> str:
    """As AgentScope 1.x writes times, which say no zone; here UTC."""
    return f"{datetime.fromtimestamp(created, UTC):%Y-%m-%d %H:%M:%S}.000"


def iso_time(created: int) -> str:
    return datetime.fromtimestamp(created, UTC).isoformat()


def reply_head(info: ReplyInfo, created_at: str) -> Message:
    extra = {"message_id": info.response_id, "created_at": created_at}
    return make_head("assistant", info.options.agent_name, info.response_id, "", extra)


def to_piece(segment: ReplyMessage, top: Message) -> Message:
    """A segment as a piece of the reply."""
    part: Part
    if segment.kind == "reasoning_content":
        part = Reasoning(segment.text)
    elif segment.kind == "content":
        part = Text(segment.text)
    elif segment.media is not None:
        part = Media(segment.media.media, (segment.media.url,))
    else:
        part = ToolCall(segment.name, segment.text, segment.id, _pick(segment.extra, "extra_content"))
    of_call = ("arguments_valid", "extra_content") if segment.kind == "function_call" else ()
    extra = {key: value for key, value in segment.extra.items() if key not in of_call}
    extra |= {} if segment.media is None else segment.media.fields
    return Message("assistant", (part,), top.name, top.turn, extra={**top.extra, **extra})


def _pick(extra: Json, key: str) -> Json:
    return {key: extra[key]} if key in extra else {}


def usage_of(usage: dict[str, Any] | None) -> Json | None:
    """The two numbers; `metadata` has the server's own words where they say more."""
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
    """Why the reply ended, and the server's own word where it is not the usual one."""
    native = {} if finish.native_reason is None else {"native_finish_reason": finish.native_reason}
    return {"finish_reason": finish.reason, **native}


def collect_metadata(info: ReplyInfo, segmenter: MessageAccumulator, finish: Finish) -> Json:
    """What neither version has a field for, where there is any."""
    warnings = info.warnings_with(finish)
    said: Json = {"warnings": warnings} if warnings else {}
    said |= {"cached": True} if info.cached else {}
    return said | ({"extra": dict(segmenter.loose_extra)} if segmenter.loose_extra else {})


def merge_pieces(pieces: Sequence[Message]) -> list[Message]:
    """One thought and one text, then media and calls, as AgentScope 1.x has them: a snapshot never takes text back."""
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
    """Lists, such as the details of several thoughts, one behind the other."""
    out: Json = {}
    for one in pieces:
        for key, value in one.extra.items():
            known = out.get(key)
            out[key] = known + value if isinstance(known, list) and isinstance(value, list) else value
    return out
