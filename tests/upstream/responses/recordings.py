"""Recorded replies of Responses servers, and a second reader of them that shares no code with the gateway's.

The recordings belong to others and are never committed: they lie beside those of `tests.streams.recordings`.
"""

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.streams.recordings import FOLDER as STREAMS

FOLDER = STREAMS.parent / "streams_responses"
GOLDENS = STREAMS.parent / "goldens" / "upstream_apis"


def _load_index() -> list[dict[str, Any]]:
    index = FOLDER / "INDEX.jsonl"
    rows = [json.loads(line) for line in index.read_text("utf-8").splitlines()] if index.exists() else []
    return [row for row in rows if row["status"] == 200]


REPLIES = _load_index()
"""The rows of every recorded reply with the status 200; empty when the folder is absent."""

needs_recordings = pytest.mark.skipif(
    not REPLIES, reason=f"no recorded replies in {FOLDER}: set PARLEY_STREAMS to the folder beside it"
)


def read_body(row: dict[str, Any]) -> bytes:
    return Path(FOLDER, row["file"]).read_bytes()


@dataclass
class Told:
    """What a reply says, without white space where items meet."""

    text: str = ""
    thought: str = ""
    calls: list[tuple[str, str, str]] = field(default_factory=list)
    details: list[Any] = field(default_factory=list)
    annotations: int = 0
    pictures: int = 0
    opaque: list[Any] = field(default_factory=list)
    """The phases, namespaces and callers, in the order of their items."""
    tokens: tuple[int, int] | None = None
    end: str = ""


def squeeze(text: str) -> str:
    return "".join(text.split())


def read_independently(row: dict[str, Any], body: bytes) -> Told:
    """Read the items of a reply: at their end in a stream, from `output` in a whole reply."""
    events: list[dict[str, Any]] = []
    if row["file"].endswith(".json"):
        response = json.loads(body)
        output, last = response.get("output") or [], response
    else:
        for line in body.decode("utf-8").splitlines():
            if line.startswith("data:") and line[5:].strip() != "[DONE]":
                events.append(json.loads(line[5:]))
        done = {event["output_index"]: event["item"] for event in events if event["type"].endswith("output_item.done")}
        ends = [event for event in events if event["type"] in ("response.completed", "response.incomplete")]
        last = ends[-1]["response"] if ends else {"status": "error"}
        output = [done[index] for index in sorted(done)]
        known = {item.get("id") for item in output}
        rest = [item for item in last.get("output") or [] if item.get("id") not in known]
        output += [item for item in rest if item["type"] not in {one["type"] for one in output} or not done]
        output += [item for item in rest if item["type"] == "mcp_list_tools" and item not in output]
    told = Told()
    deltas = "".join(
        e["delta"] for e in events if e["type"] in ("response.output_text.delta", "response.refusal.delta")
    )
    for item in output:
        _read_item(item, told)
    told.text = squeeze(told.text) or squeeze(deltas)
    told.thought = squeeze(told.thought or (last.get("reasoning") if isinstance(last.get("reasoning"), str) else ""))
    usage = last.get("usage")
    told.tokens = (usage["input_tokens"], usage["output_tokens"]) if usage else None
    told.end = str(last.get("status"))
    return told


def _read_item(item: dict[str, Any], told: Told) -> None:
    for name in ("phase", "namespace", "caller"):
        if item.get(name) and any(part.get("text") for part in item.get("content", [{"text": "of a call"}])):
            told.opaque.append(item[name])
    if item["type"] == "message":
        for part in item["content"]:
            told.text += part.get("text") or part.get("refusal") or ""
            told.annotations += len({json.dumps(one, sort_keys=True) for one in part.get("annotations") or []})
    elif item["type"] == "reasoning":
        parts = item.get("summary") or item.get("content") or []
        told.thought += "".join(part["text"] for part in parts)
        if item.get("encrypted_content"):
            told.details.append(item["encrypted_content"])
    elif item["type"] == "function_call":
        told.calls.append((item.get("call_id") or item["id"], item["name"], item["arguments"]))
    elif item["type"] == "custom_tool_call":
        told.calls.append((item["call_id"], item["name"], json.dumps({"input": item["input"]}, ensure_ascii=False)))
    else:
        told.details.append(item)
        told.pictures += item["type"] == "image_generation_call" and bool(item.get("result"))
