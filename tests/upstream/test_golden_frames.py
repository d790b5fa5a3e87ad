"""What the client of each format is sent of replies that others wrote for servers of Responses and Messages."""

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from app.chat.events import Event, Extra, Failed, Finish, ReasoningDelta, TextDelta, ToolCallDelta
from app.formats import FORMATS
from app.formats.base import ReplyInfo
from app.upstream.reply.usage import normalize_usage

from tests.upstream.messages import replies
from tests.upstream.messages.recordings import GOLDENS, needs_goldens
from tests.upstream.responses import reader

Json = dict[str, Any]
INFO = ReplyInfo(response_id="resp-1", request_id="req-1", model="m", created=1767605400)


OWN_WORDS = frozenset(("message", "warnings", "usage"))
"""Where the cases have other words or counts than the gateway: those of failures and of warnings are examples, and
which counts a format has is tested elsewhere."""
OTHER_ORDER = {("unknown_event_and_block", "responses")}
"""The block stands behind the text, and so does its item; the case has it before."""


def read(case: Json) -> list[Event]:
    data = case["body"].encode()
    return replies.read(data) if case["api"] == "messages" else reader.read_events([data])


def make_events(case: Json) -> list[Event]:
    """Return the events of the case's body as the frames of the case have them: one delta of each message, the counts
    of its usage alone, and its words for a failure."""
    *events, last = read(case)
    neutral = case["neutral"]
    if isinstance(last, Failed):
        last = Failed(msgspec.structs.replace(last.fault, message=neutral["error"]["message"]))
    else:
        assert isinstance(last, Finish)
        last = msgspec.structs.replace(last, usage=normalize_usage(neutral["usage"]))
    return [*join(events), last]


def join(events: list[Event]) -> list[Event]:
    out: list[Event] = []
    for event in events:
        place = len(out) - 1
        while place > 0 and may_be_passed(out[place], event):
            place -= 1
        joined = join_two(out[place], event) if out else None
        if joined is None:
            out.append(event)
        else:
            out[place] = joined
    return out


def may_be_passed(last: Event, event: Event) -> bool:
    """Whether an event may stand before another one: the fields of its own message, and deltas of another call."""
    if isinstance(last, Extra):
        return last.index == -1
    return isinstance(last, ToolCallDelta) and isinstance(event, ToolCallDelta) and last.index != event.index


def join_two(last: Event, event: Event) -> Event | None:
    if isinstance(event, TextDelta) and isinstance(last, TextDelta) and event.refusal == last.refusal:
        return TextDelta(last.text + event.text, refusal=event.refusal)
    if isinstance(event, ReasoningDelta) and isinstance(last, ReasoningDelta):
        return ReasoningDelta(last.text + event.text)
    if isinstance(event, ToolCallDelta) and isinstance(last, ToolCallDelta) and event.index == last.index:
        return msgspec.structs.replace(last, arguments=last.arguments + event.arguments)
    return None


def write_stream(name: str, events: list[Event]) -> list[Json]:
    encoder = FORMATS[name].reply_encoder(INFO, "delta")
    return parse_frames(encoder.open() + encoder.feed(events))


def write_whole(name: str, events: list[Event]) -> Json | str:
    encoder = FORMATS[name].reply_encoder(INFO, "whole")
    if isinstance(events[-1], Failed):
        return ""
    data = encoder.open() + encoder.feed(events)
    found: Json = json.loads(data)
    return found


def add_error_event(frames: list[Json]) -> list[Json]:
    """Return the frames with the `error` event that the gateway sends before `response.failed`, for clients that read
    no other failure; the cases have none."""
    *others, last = frames
    if last["event"] != "response.failed":
        return frames
    data = last["data"]
    failure = {"type": "error", "sequence_number": data["sequence_number"], "param": None}
    failure["code"] = data["response"]["error"]["code"]
    moved = {**last, "data": {**data, "sequence_number": data["sequence_number"] + 1}}
    return [*others, {"event": "error", "data": failure}, moved]


def parse_frames(data: bytes) -> list[Json]:
    frames = []
    for text in data.decode().split("\n\n"):
        fields = dict(line.split(": ", 1) for line in text.splitlines() if not line.startswith(":"))
        if "data" in fields:
            read = fields["data"] if fields["data"] == "[DONE]" else json.loads(fields["data"])
            frames.append(({"event": fields["event"]} if "event" in fields else {}) | {"data": read})
    return frames


def find_differences(expected: Any, got: Any, place: str = "") -> list[str]:
    """Return where `got` lacks something of `expected`, or has another value for it. It may have more fields."""
    if isinstance(expected, dict) and isinstance(got, dict):
        hidden = OWN_WORDS | ({"content"} if expected.get("type") == "error" else set())  # AutoGen's words of a failure
        if (expected.get("code"), expected.get("status")) == ("insufficient_quota", 429):
            expected = {**expected, "status": 402}  # the cases are older than this status
        names = [name for name in expected if name not in hidden]
        return [found for name in names for found in find_differences(expected[name], got.get(name), f"{place}.{name}")]
    if isinstance(expected, list) and isinstance(got, list) and len(expected) == len(got):
        pairs = enumerate(zip(expected, got, strict=True))
        return [found for number, pair in pairs for found in find_differences(*pair, f"{place}[{number}]")]
    return [] if expected == got else [f"{place}: {expected!r}, not {got!r}"]


@needs_goldens
@pytest.mark.parametrize("path", sorted(GOLDENS.glob("replies/*.json")), ids=lambda path: path.stem)
def test_the_client_of_each_format_is_sent_the_frames_of_the_case(path: Path) -> None:
    case = json.loads(path.read_text())
    events = make_events(case)
    for name, frames in case["frames"].items():
        if isinstance(frames, str) or (case["name"], name) in OTHER_ORDER:
            continue
        delta = add_error_event(frames["delta"]) if name == "responses" else frames["delta"]
        assert find_differences(delta, write_stream(name, events)) == [], name
        assert find_differences(frames["whole"], write_whole(name, events)) == [], name
