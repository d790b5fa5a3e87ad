"""What a client of Anthropic's Messages or of OpenAI's Responses received, and what of a reply did not reach it.

The readers share no line with the encoders. A reply is compared with the same reply in the format `qwen`, which carries
everything.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from app.chat.events import Event, Failed
from app.errors import UpstreamFailed
from app.formats.anthropic import ANTHROPIC
from app.formats.base import Format, ReplyMode
from app.formats.responses import RESPONSES

from tests.frame_reader import ReceivedReply
from tests.reply_pipeline import INFO

Json = dict[str, Any]
FORMATS: Mapping[str, Format] = {"/v1/messages": ANTHROPIC, "/v1/responses": RESPONSES}
_STOPS = {"end_turn": "stop", "stop_sequence": "stop", "max_tokens": "length", "tool_use": "tool_calls"}
_CUTS = {"max_output_tokens": "length", "content_filter": "content_filter"}


@dataclass(slots=True)
class FaceReply:
    reasoning: str = ""
    text: str = ""
    refusal: str = ""
    calls: list[tuple[str, str]] = field(default_factory=list)
    """Name and arguments of each call."""
    finish_reason: str = ""
    tokens: dict[str, int] = field(default_factory=dict)
    failed: bool = False


def list_losses(reply_format: Format, batches: Sequence[list[Event]], whole: ReceivedReply) -> list[str]:
    """Name what of the reply does not reach a client of the format, in a stream or in one body. `whole` is the reply in
    the format `qwen`."""
    lost: list[str] = []
    for mode in ("delta", "whole"):
        data, failed = encode(reply_format, batches, mode)
        read = READERS[reply_format.name, mode]
        found = FaceReply(failed=True) if failed and mode == "whole" else read(data)
        lost += [loss for loss in _compare(found, whole, mode) if loss not in lost]
    return lost


def encode(reply_format: Format, batches: Sequence[list[Event]], mode: ReplyMode) -> tuple[bytes, bool]:
    """Return what the client gets, and whether it is a failure."""
    encoder = reply_format.reply_encoder(INFO, mode)
    stage = reply_format.make_stage(INFO, mode)
    data = encoder.open()
    for events in batches:
        staged = events if stage is None else stage.feed(events)
        last = staged[-1] if staged else None
        if isinstance(last, Failed):
            before = encoder.feed(staged[:-1]) if len(staged) > 1 else b""
            return data + before + encoder.fail(UpstreamFailed(last.fault).to_dict(INFO.request_id)), True
        data += encoder.feed(staged)
    return data, False


def _compare(found: FaceReply, whole: ReceivedReply, mode: ReplyMode) -> Iterator[str]:
    if found.failed is not (whole.error is not None):
        yield FAILED if found.failed else UNFAILED
        return
    if found.failed and mode == "whole":
        return  # what came before an error is in streams only
    if whole.error is None and found.finish_reason != whole.finish_reason:
        yield f"the finish reason: {whole.finish_reason} becomes {found.finish_reason}"
    if whole.error is not None:
        return
    for name, given, received in (
        ("reasoning", _join(whole, "reasoning_content"), found.reasoning),
        ("text", _join(whole, "content"), found.text + found.refusal),
        ("calls", _list_calls(whole), [(name, _value(arguments)) for name, arguments in found.calls]),
    ):
        if given != received:
            yield f"{name} of a reply that {_ENDS[whole.finish_reason]}"
    usage = whole.usage or {}
    yield from (f"the number of {name}" for name in _COUNTED if usage.get(name) and found.tokens[name] != usage[name])


def _join(whole: ReceivedReply, name: str) -> str:
    return "".join(message.get(name) or "" for message in whole.messages)


def _list_calls(whole: ReceivedReply) -> list[tuple[str, Any]]:
    calls = [message["function_call"] for message in whole.messages if "function_call" in message]
    return [(call["name"], _value(call["arguments"])) for call in calls]


FAILED, UNFAILED = "the reply: it becomes an error", "the error"
_ENDS = {
    "stop": "ended by itself",
    "tool_calls": "ended with calls",
    "length": "reached its length",
    "content_filter": "was filtered",
}
_COUNTED = ("prompt_tokens", "completion_tokens", "cached_tokens", "reasoning_tokens")


def _value(arguments: str) -> Any:
    try:
        return json.loads(arguments or "{}")
    except ValueError:
        return arguments


def _read_events(data: bytes) -> list[Json]:
    return [json.loads(line[6:]) for line in data.decode().split("\n") if line.startswith("data: ")]


def _read_messages_stream(data: bytes) -> FaceReply:
    blocks: list[Json] = []
    end: Json = {}
    for event in _read_events(data):
        match event["type"]:
            case "content_block_start":
                assert event["index"] == len(blocks)
                blocks.append({**event["content_block"], "json": ""})
            case "content_block_delta":
                block = blocks[event["index"]]
                for name, field_name in (("thinking", "thinking"), ("text", "text"), ("partial_json", "json")):
                    if name in event["delta"]:
                        block[field_name] += event["delta"][name]
            case "message_delta":
                end = {**event["delta"], "usage": event["usage"]}
            case "error":
                end = {"error": event["error"]}
    for block in blocks:
        if block["type"] == "tool_use":
            block["input"] = _value(block["json"])
    return _read_message({"content": blocks, **end})


def _read_message(body: Json) -> FaceReply:
    reply = FaceReply(failed="error" in body)
    for block in body.get("content", ()):
        match block["type"]:
            case "thinking":
                reply.reasoning += block["thinking"]
            case "text":
                reply.text += block["text"]
            case "tool_use":
                given = block["input"]
                reply.calls.append((block["name"], given if isinstance(given, str) else json.dumps(given)))
    reason = body.get("stop_reason")
    reply.finish_reason = "content_filter" if reason == "refusal" else _STOPS.get(reason or "", "")
    usage = body.get("usage") or {}
    cached = usage.get("cache_read_input_tokens") or 0
    written = usage.get("cache_creation_input_tokens") or 0
    reply.tokens = {
        "prompt_tokens": usage.get("input_tokens", 0) + cached + written,
        "completion_tokens": usage.get("output_tokens", 0),
        "cached_tokens": cached,
        "reasoning_tokens": (usage.get("output_tokens_details") or {}).get("thinking_tokens", 0),
    }
    return reply


def _read_response_stream(data: bytes) -> FaceReply:
    return _read_response(_read_events(data)[-1]["response"])


def _read_response(body: Json) -> FaceReply:
    reply = FaceReply(failed=body.get("status") not in ("completed", "incomplete"))
    for item in body.get("output", ()):
        match item["type"]:
            case "reasoning":
                reply.reasoning += "".join(part["text"] for part in item.get("content", ()))
            case "message":
                for part in item["content"]:
                    reply.text += part.get("text", "")
                    reply.refusal += part.get("refusal", "")
            case "function_call":
                reply.calls.append((item["name"], item["arguments"]))
    cut = (body.get("incomplete_details") or {}).get("reason")
    reply.finish_reason = _CUTS[cut] if cut else ("tool_calls" if reply.calls else "stop")
    usage = body.get("usage") or {}
    reply.tokens = {
        "prompt_tokens": usage.get("input_tokens", 0),
        "completion_tokens": usage.get("output_tokens", 0),
        "cached_tokens": (usage.get("input_tokens_details") or {}).get("cached_tokens", 0),
        "reasoning_tokens": (usage.get("output_tokens_details") or {}).get("reasoning_tokens", 0),
    }
    return reply


READERS: Mapping[tuple[str, str], Callable[[bytes], FaceReply]] = {
    ("anthropic", "delta"): _read_messages_stream,
    ("anthropic", "whole"): lambda data: _read_message(json.loads(data)),
    ("responses", "delta"): _read_response_stream,
    ("responses", "whole"): lambda data: _read_response(json.loads(data)),
}
