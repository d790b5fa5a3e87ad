"""Recorded replies of the Gemini API and of Vertex, and a second reader of them that shares no code with the gateway's.

The recordings belong to others and are never committed: they lie beside those of `tests.streams.recordings`.
"""

import json
import random
import re
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import pytest
from app.chat.events import Failed, Finish, TextDelta
from app.upstream.faults import from_response

from tests.effort import LONG
from tests.upstream.gemini.recordings import FOLDER, ROWS, read_body
from tests.upstream.gemini.replies import read, read_told

Json = dict[str, Any]
REPLIES = [row for row in ROWS if row["status"] == 200]
needs_recordings = pytest.mark.skipif(
    not REPLIES, reason=f"no recorded replies in {FOLDER}: set PARLEY_STREAMS to the folder beside it"
)
FAILING = ("UNEXPECTED_TOOL_CALL", "MALFORMED_FUNCTION_CALL")
FILTERED = ("SAFETY", "RECITATION", "MODEL_ARMOR")


@dataclass
class Told:
    """What a reply says."""

    text: str = ""
    thought: str = ""
    calls: list[tuple[str, Any]] = field(default_factory=list)
    """The name and the arguments of each; None for those that come piece by piece."""
    signed_calls: int = 0
    items: int = 0
    images: int = 0
    end: Any = None
    usage: Json = field(default_factory=dict)
    blocked: bool = False
    failed: bool = False


def read_independently(body: bytes) -> Told:
    """Read the parts of all chunks, as the SDKs put them together."""
    told = Told()
    for chunk in list_chunks(body.decode("utf-8")):
        told.failed = told.failed or "error" in chunk
        told.blocked = told.blocked or bool((chunk.get("promptFeedback") or {}).get("blockReason"))
        told.usage |= {name: value for name, value in (chunk.get("usageMetadata") or {}).items() if value is not None}
        for candidate in chunk.get("candidates") or ():
            if candidate.get("index", 0) == 0:
                told.end = candidate.get("finishReason") or told.end
                for part in (candidate.get("content") or {}).get("parts") or ():
                    _read_part(part, told)
    return told


def list_chunks(text: str) -> list[Json]:
    text = text.strip().removeprefix("\ufeff")
    if text[:1] in "[{":
        value = json.loads(text)
        return value if isinstance(value, list) else [value]
    chunks = [json.loads(line[5:]) for line in re.split("\r\n|\n|\r", text) if line.startswith("data:")]
    start = re.search(r"^\{", text, re.MULTILINE)
    return [*chunks, json.loads(text[start.start() :])] if start else chunks


def _read_part(part: Json, told: Told) -> None:
    call = part.get("functionCall")
    if call is not None:
        if call.get("name"):
            told.calls.append((call["name"], None if call.get("willContinue") else call.get("args") or {}))
            told.signed_calls += bool(part.get("thoughtSignature"))
    elif part.get("text") is not None and part.get("thought"):
        told.thought += part["text"]
    elif part.get("text") is not None:
        told.text += part["text"]
    elif str((part.get("inlineData") or {}).get("mimeType")).startswith(("image/", "audio/")):
        told.images += 1
    elif part.keys() - {"thoughtSignature", "thought"}:
        told.items += 1


@needs_recordings
@pytest.mark.parametrize("part", range(4))
def test_every_recording_gives_what_the_independent_reader_reads_at_any_cut(part: int) -> None:
    differing = {}
    for number, row in enumerate(REPLIES[part::4]):
        body = read_body(row)
        told = read_independently(body)
        sizes = (1, 7, 64, 1024, len(body)) if LONG else (len(body), (1, 7, 64, 1024)[number % 4])
        for size in sizes:
            found = find_differences(told, body, size)
            if found:
                differing[f"{row['file']}, {size}"] = found
    assert differing == {}


def find_differences(told: Told, body: bytes, size: int) -> list[str]:
    events = read(body, size)
    result = read_told(events)
    message = result["message"] if "message" in result else result["before"]
    calls = [(call["name"], json.loads(call["arguments"])) for call in message.get("tool_calls", ())]
    wanted = [(name, calls[place][1] if given is None else given) for place, (name, given) in enumerate(told.calls)]
    details = message.get("reasoning_details", [])
    pairs: list[tuple[str, Any, Any]] = [
        ("text", message.get("content", ""), told.text),
        ("thought", message.get("reasoning_content", "").strip(), told.thought.strip()),
        ("calls", calls, wanted),
        ("signed", sum("extra_content" in call for call in message.get("tool_calls", ())), told.signed_calls),
        ("items", len(details), told.items),
        ("images", len(message.get("images", ())), told.images),
        ("end", result.get("finish_reason") or result["error"], find_end(told)),
    ]
    if "message" in result and told.usage.get("promptTokenCount"):
        usage = told.usage
        prompt = usage["promptTokenCount"] + usage.get("toolUsePromptTokenCount", 0)
        pairs.append(("prompt", result["usage"]["prompt_tokens"], prompt))
        if usage.get("candidatesTokenCount"):
            answer = usage["candidatesTokenCount"] + usage.get("thoughtsTokenCount", 0)
            pairs.append(("answer", result["usage"]["completion_tokens"], answer))
    return [f"{name}: {ours!r} is not {theirs!r}" for name, ours, theirs in pairs if ours != theirs]


def find_end(told: Told) -> str:
    if told.failed:
        return "upstream_incomplete"  # the only one that is recorded was cancelled
    if told.end is None:
        return "content_filter" if told.blocked else "upstream_incomplete"
    if told.end in FILTERED or told.end == 3:
        return "content_filter"
    if told.end in ("MAX_TOKENS", 2):
        return "length"
    if told.end in FAILING:
        return "tool_use_failed"
    if told.end == "OTHER" and told == Told(end="OTHER", usage=told.usage):
        return "server_error"
    return "tool_calls" if told.calls else "stop"


@needs_recordings
def test_a_recorded_stream_that_breaks_anywhere_ends_with_a_fault_behind_the_beginning_of_what_it_says() -> None:
    places = random.Random(2)
    streams = [row for row in REPLIES if row["file"].endswith(".sse")]
    for row in streams:
        body = read_body(row)
        whole = read_independently(body)
        for _ in range(20 if LONG else 3):
            events = read(body[: places.randrange(len(body))], broken=True)
            assert isinstance(events[-1], Failed), row["file"]
            text = "".join([event.text for event in events if isinstance(event, TextDelta)])
            assert whole.text.startswith(text), row["file"]
            assert not any(isinstance(event, Finish) for event in events)


@needs_recordings
def test_recorded_errors_have_the_code_of_their_meaning() -> None:
    codes = {404: {"not_found"}, 403: {"permission"}, 429: {"rate_limit", "insufficient_quota"}}
    codes[400] = {"invalid_request", "authentication", "permission", "context_length_exceeded"}
    for row in ROWS:
        if row["status"] != 200:
            fault = from_response(row["status"], {}, read_body(row), datetime.now(UTC))
            assert fault.code in codes[row["status"]], row["file"]
