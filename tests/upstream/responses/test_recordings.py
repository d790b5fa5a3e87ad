"""Every recorded reply of a Responses server, whole and cut, against a second reader."""

import json
import random
from typing import Any

import pytest
from app.chat.events import Failed, Finish

from tests.cuts import finely, random_cuts
from tests.each_case import each_case
from tests.effort import LONG
from tests.upstream.responses.reader import get_end, read_events, read_messages
from tests.upstream.responses.recordings import (
    GOLDENS,
    REPLIES,
    Told,
    needs_recordings,
    read_body,
    read_independently,
    squeeze,
)

STREAMS = [row for row in REPLIES if row["stream"]]
CASES = sorted(GOLDENS.glob("replies/responses_*.json"))
_IN_BACKGROUND = ("queued", "in_progress")


def read_with_gateway(parts: list[bytes]) -> tuple[Told, Finish | Failed]:
    events = read_events(parts)
    messages, loose = read_messages(events)
    told = Told()
    for message in messages:
        extra = message.get("extra", {})
        told.text += message.get("content", "")
        told.thought += message.get("reasoning_content", "")
        told.pictures += "media" in message
        told.annotations += len(extra.get("annotations", ()))
        told.details += [detail.get("data") or detail["item"] for detail in extra.get("reasoning_details", ())]
        opaque = extra.get("extra_content", {}).get("openai", {})
        told.opaque += [opaque[name] for name in ("phase", "namespace", "caller") if name in opaque]
        if call := message.get("function_call"):
            told.calls.append((extra["function_id"], call["name"], call["arguments"]))
    told.details += [detail.get("data") or detail["item"] for detail in loose.get("reasoning_details", ())]
    told.text, told.thought = squeeze(told.text), squeeze(told.thought)
    end = get_end(events)
    if isinstance(end, Finish) and end.usage:
        told.tokens = (end.usage["prompt_tokens"], end.usage["completion_tokens"])
    return told, end


def compare(row: dict[str, Any], parts: list[bytes], body: bytes) -> None:
    expected = read_independently(row, body)
    told, end = read_with_gateway(parts)
    if expected.end in _IN_BACKGROUND:
        assert isinstance(end, Failed) and end.fault.code == "upstream_protocol"
        return
    if row["end"] == "error":
        assert isinstance(end, Failed)
        return
    assert isinstance(end, Finish), end
    assert end.reason == ("length" if expected.end == "incomplete" else "tool_calls" if expected.calls else "stop")
    expected.end = ""
    if len(expected.opaque) > len(told.opaque):  # two texts in a row are one message, which keeps the last phase
        assert list(dict.fromkeys(told.opaque)) == list(dict.fromkeys(expected.opaque))[-len(told.opaque) :]
        expected.opaque = told.opaque
    assert told == expected


@needs_recordings
@each_case("row", REPLIES, ids=lambda row: row["file"])
def test_every_recorded_reply_comes_through_with_all_that_it_says(row: dict[str, Any]) -> None:
    body = read_body(row)
    compare(row, [body], body)
    compare(row, random_cuts(body, 1, 9), body)


@needs_recordings
@each_case("row", STREAMS if LONG else STREAMS[::8], ids=lambda row: row["file"])
def test_every_cut_of_a_recorded_stream_into_reads_gives_the_same_messages(row: dict[str, Any]) -> None:
    body = read_body(row)
    compare(row, finely(body), body)


@needs_recordings
@each_case("row", REPLIES, ids=lambda row: row["file"])
def test_a_reply_that_was_cut_off_gives_no_more_than_the_whole_one_and_a_typed_error(row: dict[str, Any]) -> None:
    body = read_body(row)
    whole, whole_end = read_with_gateway([body])
    places = random.Random(row["file"]).sample(range(len(body)), min(len(body), 200 if LONG else 4))
    for place in places:
        told, end = read_with_gateway([body[:place]])
        if isinstance(end, Finish):
            assert end == whole_end and told == whole, place
        else:
            assert end.fault.code in ("upstream_incomplete", "upstream_protocol") or isinstance(whole_end, Failed), (
                place
            )
            assert whole.text.startswith(told.text) and whole.thought.startswith(told.thought), place
            for known, cut in zip(whole.calls, told.calls, strict=False):
                assert known[:2] == cut[:2] and (known[2].startswith(cut[2])), place
            assert told.details == whole.details[: len(told.details)], place


@pytest.mark.skipif(not CASES, reason=f"no cases in {GOLDENS}")
@each_case("path", CASES, ids=lambda path: path.stem)
def test_the_cases_of_replies_give_their_messages_at_any_cut(path: Any) -> None:
    case = json.loads(path.read_text("utf-8"))
    body = (case["body"] if isinstance(case["body"], str) else json.dumps(case["body"])).encode()
    expected = case["neutral"]
    for parts in ([body], finely(body), random_cuts(body, 3, 20)):
        events = read_events(parts)
        messages, loose = read_messages(events)
        end = get_end(events)
        assert messages == expected["messages"]
        assert loose == expected.get("loose", {})
        if isinstance(end, Failed):
            error = expected["error"]
            assert (end.fault.code, end.fault.transient) == (error["kind"], error["transient"])
            continue
        assert (end.reason, end.native_reason) == (expected["finish_reason"], expected.get("native_finish_reason"))
        assert expected["usage"].items() <= (end.usage or {}).items()
