"""What a message of Anthropic's Messages has beside its content: how it ended, its usage, and in `parley` what the API
has no place for. A stream has it in its first and its last events."""

from collections.abc import Sequence
from typing import Any

import msgspec

from app.chat.accumulator import MessageAccumulator, ReplyMessage
from app.chat.context_edits import COMPACTION
from app.chat.events import Finish
from app.chat.token_usage import add_left_out
from app.formats.anthropic.context_edits import write_applied
from app.formats.anthropic.native import choose_own_reason, is_own_citation
from app.formats.base import USAGE_ESTIMATED, ReplyInfo, is_usage_estimated
from app.formats.sse import encode_json

Json = dict[str, Any]
_STOP_REASONS = {
    "stop": "end_turn",
    "length": "max_tokens",
    "tool_calls": "tool_use",
    "content_filter": "refusal",
    "tool_limit": "pause_turn",
    "tool_approval": "pause_turn",
}
_REFUSAL = {"type": "refusal", "category": None, "explanation": None}


def make_message_id(response_id: str) -> str:
    return f"msg_{response_id.removeprefix('chat-')}"


def rename_model(text: str, model: str) -> str:
    """Return the start of a message with the name of the model that the client asked for."""
    event = msgspec.json.decode(text)
    if not isinstance(event.get("message"), dict):
        return text
    return encode_json({**event, "message": {**event["message"], "model": model}}).decode()


def write_edits(info: ReplyInfo) -> Json:
    """Write what the gateway has cleared of the conversation."""
    applied = info.options.applied_edits
    return {} if applied is None else {"context_management": write_applied(applied)}


def write_warnings(warnings: Sequence[str]) -> Json:
    """Return what the gateway adds to a reply that is the server's own."""
    return {"parley": {"warnings": list(warnings)}} if warnings else {}


def describe_refusal(finish: Finish) -> Json:
    return _REFUSAL if finish.policy is None else {**_REFUSAL, "explanation": finish.policy.sentence}


def write_message(
    info: ReplyInfo,
    blocks: list[Json],
    reason: str | None,
    word: str | None,
    usage: Json,
    stop_details: Json | None = None,
) -> Json:
    details = {"stop_details": stop_details} if reason == "refusal" else {}
    return {
        "id": make_message_id(info.response_id),
        "type": "message",
        "role": "assistant",
        "model": info.model,
        "content": blocks,
        "stop_reason": reason,
        "stop_sequence": word,
        **details,
        "usage": usage,
    }


def choose_stop_reason(finish: Finish, messages: Sequence[ReplyMessage], info: ReplyInfo) -> tuple[str, str | None]:
    """Return (stop_reason, stop_sequence)."""
    if finish.reason == "stop":
        if any(message.refusal for message in messages):
            return "refusal", None
        if finish.stopped_by is not None and finish.stopped_by in info.options.stop_words:
            return "stop_sequence", finish.stopped_by
    if finish.native_reason == COMPACTION and not messages:
        return COMPACTION, None
    own = choose_own_reason(finish.native_reason, finish.reason) if info.options.passed else None
    return own or _STOP_REASONS[finish.reason], None


def write_usage(finish: Finish) -> Json:
    """Write the usage; the three counts of input tokens are a sum."""
    usage: Json = finish.usage or finish.estimated_usage or {}
    details = usage.get("prompt_tokens_details")
    details = details if isinstance(details, dict) else {}
    cached, written = _count(details.get("cached_tokens")), _count(details.get("cache_write_tokens"))
    prompt, completion = add_left_out(usage)
    out: Json = {
        "input_tokens": max(prompt - cached - written, 0),
        "cache_creation_input_tokens": written,
        "cache_read_input_tokens": cached,
        "output_tokens": completion,
    }
    details = usage.get("completion_tokens_details")
    thinking = _count(details.get("reasoning_tokens")) if isinstance(details, dict) else 0
    if thinking:
        out["output_tokens_details"] = {"thinking_tokens": thinking}
    if usage.get("cost") is not None:
        out["cost"] = usage["cost"]
    if isinstance(usage.get("iterations"), list):
        calls = zip(usage["iterations"], _ITERATIONS, strict=False)  # a summary may be all
        out["iterations"] = [_write_iteration(one, kind) for one, kind in calls]
    done = finish.server_tools
    if done is not None and (done.searches or done.fetches):
        out["server_tool_use"] = {"web_search_requests": done.searches, "web_fetch_requests": done.fetches}
    return out


_ITERATIONS = (COMPACTION, "message")
"""The calls to the model of a reply with a summary."""


def _write_iteration(usage: Json, kind: str) -> Json:
    written = write_usage(Finish("stop", usage))
    return {"type": kind, **{name: count for name, count in written.items() if name.endswith("_tokens")}}


def _count(value: Any) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0


_BESIDE = ("annotations", "citations", "search_results")
"""Keys of `extra` that Anthropic's blocks have no place for."""
_LOOSE = ("extra_content", *_BESIDE)
"""The same of fields that no message has followed."""


def list_warnings(finish: Finish, info: ReplyInfo) -> list[str]:
    warnings = info.warnings_with(finish)
    if is_usage_estimated(finish):
        warnings.append(USAGE_ESTIMATED)
    return warnings


def write_beside(
    info: ReplyInfo, warnings: Sequence[str], accumulator: MessageAccumulator, finish: Finish, *, native: bool
) -> Json:
    """Write `parley`: warnings, and the parts of the reply that Anthropic's message has no place for. `native`:
    citations of this API have theirs."""
    beside: Json = {"warnings": list(warnings)} if warnings else {}
    beside |= info.write_extensions(finish)
    media: list[Json] = []
    for message in accumulator.messages:
        if message.media is not None:
            media.append({"type": message.media.media, "url": message.media.url, **message.media.fields})
        fields = message.extra if message.kind != "function_call" else {}
        if fields.get("extra_content") is not None:
            beside["extra_content"] = fields["extra_content"]
        for key in _BESIDE:
            value = fields.get(key)
            if native and key == "annotations":
                value = [one for one in value or () if not is_own_citation(one)]
            if value:
                known = beside.get(key)
                both = isinstance(known, list) and isinstance(value, list)
                beside[key] = [*known, *value] if both else value  # type: ignore[misc]  # `both` says that it is a list
    loose = accumulator.loose_extra
    beside |= {key: loose[key] for key in _LOOSE if loose.get(key)}
    if media:
        beside["media"] = media
    return {"parley": beside} if beside else {}
