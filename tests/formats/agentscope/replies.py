"""Replies of a model server as a caller of AgentScope's formats reads them, and the checks that every reply passes."""

import json
from typing import Any

import anyio
from app.chat.events import Event, Failed
from app.errors import UpstreamFailed
from app.formats.base import Format, Options, ReplyInfo, ReplyMode
from msgspec.structs import replace

from tests.formats.agentscope.cases import Json
from tests.reply_pipeline import INFO, Recorded, replay

FRIDAY = replace(INFO, options=Options(agent_name="Friday"))
IDS = ("id", "reply_id", "session_id", "block_id")
TIMES = ("created_at", "timestamp", "finished_at")


def body_of(golden: Json) -> list[bytes]:
    """One read for each chunk."""
    chunks = golden["input"]["upstream_chunks"]
    lines = [f"data: {json.dumps(chunk)}\n\n".encode() for chunk in chunks]
    return lines if "error" in chunks[-1] else [*lines, b"data: [DONE]\n\n"]


def batches_of(parts: list[bytes]) -> list[list[Event]]:
    return anyio.run(replay, Recorded(parts))


def stream(form: Format, batches: list[list[Event]], mode: ReplyMode = "delta", info: ReplyInfo = FRIDAY) -> list[Json]:
    encoder = form.reply_encoder(info, mode)
    return frames(encoder.open() + b"".join(encoder.feed(events) for events in batches))


def whole(form: Format, batches: list[list[Event]], info: ReplyInfo = FRIDAY) -> Json:
    encoder = form.reply_encoder(info, "whole")
    data = encoder.open() + b"".join(encoder.feed(events) for events in batches)
    last = batches[-1][-1]
    if isinstance(last, Failed):
        assert not data
        data = encoder.fail(UpstreamFailed(last.fault).to_dict(info.request_id))
    body: Json = json.loads(data)
    return body


def frames(data: bytes) -> list[Json]:
    """Frames are one line of data each, and nothing else."""
    blocks = data.decode().split("\n\n")
    assert blocks.pop() == ""
    assert all(block.startswith("data: ") and "\n" not in block for block in blocks)
    return [json.loads(block.removeprefix("data: ")) for block in blocks]


def renamed(found: Any, names: dict[str, str] | None = None) -> Any:
    """Ids by order of appearance, times blank."""
    names = {} if names is None else names
    if isinstance(found, list):
        return [renamed(one, names) for one in found]
    if not isinstance(found, dict):
        return found
    out = {}
    for key, value in found.items():
        if key in IDS and isinstance(value, str):
            value = names.setdefault(value, f"#{len(names)}")
        out[key] = "" if key in TIMES else renamed(value, names)
    return out


def grown(before: Json, after: Json) -> bool:
    """A snapshot takes nothing back: every block that was there is there, and begins as it did."""
    late = {_key(block): block for block in after["content"]}
    return all(_key(block) in late and _text(late[_key(block)]).startswith(_text(block)) for block in before["content"])


def _key(block: Json) -> str:
    return str(block.get("id") or block["type"])


def _text(block: Json) -> str:
    return str(block.get("text") or block.get("thinking") or block.get("raw_input") or "")


def built(events: list[Json]) -> list[Json]:
    """The blocks that the events of 2.x make; every block is started once, ended once and grows only between."""
    blocks: dict[str, Json] = {}
    open_: set[str] = set()
    for event in events:
        name, _, step = event["type"].rpartition("_")
        if name not in ("THINKING_BLOCK", "TEXT_BLOCK", "TOOL_CALL"):
            continue
        id_ = event.get("block_id") or event["tool_call_id"]
        if step == "START":
            assert id_ not in blocks
            open_.add(id_)
            blocks[id_] = {"kind": name, "name": event.get("tool_call_name"), "text": ""}
        elif step == "DELTA":
            assert id_ in open_
            assert event["delta"]
            blocks[id_]["text"] += event["delta"]
        else:
            open_.remove(id_)
    assert not open_
    return list(blocks.values())
