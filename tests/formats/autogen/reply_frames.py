"""Replies as frames of AutoGen: recorded ones, and those of events."""

import asyncio
import json
from collections.abc import Iterable
from typing import Any

from app.chat.events import Event
from app.formats.autogen import AUTOGEN
from app.formats.base import Options, ReplyInfo, ReplyMode

from tests.formats.autogen.recorded_cases import cases
from tests.reply_pipeline import Recorded, replay

STREAMS = cases("autogen/streams")


Json = dict[str, Any]


def info(form: Any = "interleaved", **fields: Any) -> ReplyInfo:
    options = Options(autogen_stream=form)
    return ReplyInfo("chat-1", "req-1", "m", 1767225600, options=options, **fields)


def frames(data: bytes) -> list[Any]:
    blocks = data.decode().split("\n\n")
    assert blocks.pop() == ""
    assert all(block.startswith("data: ") and "\n" not in block for block in blocks)
    return [json.loads(block.removeprefix("data: ")) for block in blocks]


def encode_frames(batches: Iterable[list[Event]], form: str = "interleaved", mode: ReplyMode = "delta") -> list[Any]:
    encoder = AUTOGEN.reply_encoder(info(form), mode)
    return frames(encoder.open() + b"".join(encoder.feed(events) for events in batches))


def whole(events: list[Event], form: str = "interleaved", **fields: Any) -> Json:
    body: Json = json.loads(AUTOGEN.reply_encoder(info(form, **fields), "whole").feed(events))
    return body


def upstream(name: str, size: int = 10**9) -> list[list[Event]]:
    data = STREAMS[name]["upstream_sse"].encode()
    parts = [data[start : start + size] for start in range(0, len(data), size)]
    return asyncio.run(replay(Recorded(parts, headers={"content-type": "text/event-stream"})))


def renamed(items: list[Any]) -> list[Any]:
    """Ids in the order of their appearance, and no times."""
    names: dict[str, int] = {}
    out = []
    for item in items:
        item = {key: value for key, value in item.items() if key != "created_at"} if isinstance(item, dict) else item
        for key in ("id", "full_message_id"):
            if isinstance(item, dict) and key in item:
                item[key] = names.setdefault(item[key], len(names))
        out.append(item)
    return out


def without_result(items: list[Any]) -> list[Any]:
    if items[-1].get("type") == "error":
        assert items[-1]["source"] == "system"
        return [*items[:-1], {key: items[-1][key] for key in ("type", "content", "source")}]
    assert items[-1]["type"] == "TaskResult"
    return items[:-1]


NOT_AS_AUTOGEN = {
    "s08_content_and_toolcall_same_chunk": "AutoGen loses a call that comes with text in one chunk",
    "s13_usage_on_finish_chunk": "AutoGen forgets the reason of a finish that comes with the usage",
    "s15_toolcall_finish_stop": "AutoGen says stop where there are calls",
    "s16_reasoning_empty_string_with_content": "AutoGen closes the thinking after the text",
    "s17_all_index_zero": "AutoGen glues two calls of one index together",
    "s22_toolcall_no_args": "AutoGen leaves arguments empty and fails to parse them",
}
