"""Recorded replies of servers of the Messages API, and a second reader of them that shares no code with the gateway's.

The recordings belong to others and are never committed: they lie beside those of `tests.streams.recordings`.
"""

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.streams.recordings import FOLDER as STREAMS

Json = dict[str, Any]
FOLDER = STREAMS.parent / "streams_messages"
GOLDENS = STREAMS.parent / "goldens" / "upstream_apis"


def _load_index() -> list[Json]:
    index = FOLDER / "INDEX.jsonl"
    rows = [json.loads(line) for line in index.read_text("utf-8").splitlines()] if index.exists() else []
    return [row for row in rows if row["status"] == 200]


REPLIES = _load_index()
"""The rows of every recorded reply with the status 200; empty when the folder is absent."""

needs_recordings = pytest.mark.skipif(
    not REPLIES, reason=f"no recorded replies in {FOLDER}: set PARLEY_STREAMS to the folder beside it"
)
needs_goldens = pytest.mark.skipif(
    not GOLDENS.is_dir(), reason=f"no cases in {GOLDENS}: set PARLEY_STREAMS to the folder beside it"
)


def read_body(row: Json) -> bytes:
    return Path(FOLDER, row["file"]).read_bytes()


@dataclass
class Told:
    """What a reply says."""

    text: str = ""
    thought: str = ""
    calls: list[tuple[str, str, Any]] = field(default_factory=list)
    """The id, the name and the input of each."""
    opaque: list[Any] = field(default_factory=list)
    """Signatures, encrypted data and blocks that are not for the client, in order."""
    annotations: int = 0
    tokens: tuple[int, int] | None = None
    end: str | None = None


def read_independently(row: Json, body: bytes) -> Told:
    """Read the blocks of a reply as the SDKs put them together."""
    if row["file"].endswith(".json"):
        message = json.loads(body)
    else:
        message = _join_events(body)
    told = Told(end=message.get("stop_reason"))
    for block in message["content"]:
        _read_block(block, told)
    usage = message.get("usage")
    if usage is not None:
        cached = (usage.get("cache_read_input_tokens") or 0) + (usage.get("cache_creation_input_tokens") or 0)
        told.tokens = (usage.get("input_tokens") or 0) + cached, usage.get("output_tokens") or 0
    return told


def _join_events(body: bytes) -> Json:
    message: Json = {"content": []}
    blocks: dict[int, Json] = {}
    for line in body.decode("utf-8").splitlines():
        if not line.startswith("data:") or line[5:].strip() == "[DONE]":
            continue
        event = json.loads(line[5:])
        kind = event["type"]
        if kind == "message_start":
            message = {**event["message"], "content": []}
        elif kind == "content_block_start":
            blocks[event["index"]] = {**event["content_block"], "_json": ""}
        elif kind == "content_block_delta":
            _add_delta(blocks[event["index"]], event["delta"])
        elif kind == "content_block_stop":
            block = blocks.pop(event["index"])
            text = block.pop("_json")
            message["content"].append({**block, "input": json.loads(text)} if text else block)
        elif kind == "message_delta":
            message |= event["delta"]
            usage = {name: value for name, value in (event.get("usage") or {}).items() if value is not None}
            message["usage"] = {**(message.get("usage") or {}), **usage}
    return message


def _add_delta(block: Json, delta: Json) -> None:
    match delta["type"]:
        case "text_delta":
            block["text"] = (block.get("text") or "") + delta["text"]
        case "thinking_delta":
            block["thinking"] = (block.get("thinking") or "") + delta["thinking"]
        case "signature_delta":
            block["signature"] = (block.get("signature") or "") + delta["signature"]
        case "input_json_delta":
            block["_json"] += delta["partial_json"]
        case "citations_delta":
            block["citations"] = [*(block.get("citations") or []), delta["citation"]]
        case "compaction_delta":
            block |= {name: value for name, value in delta.items() if name != "type"}


def _read_block(block: Json, told: Told) -> None:
    match block["type"]:
        case "text":
            told.text += block["text"]
            told.annotations += len(block.get("citations") or ())
        case "thinking":
            told.thought += block["thinking"]
            if block.get("signature"):
                told.opaque.append(block["signature"])
        case "redacted_thinking":
            told.opaque.append(block["data"])
        case "tool_use":
            told.calls.append((block["id"], block["name"], block["input"]))
        case _:
            told.opaque.append(block)
