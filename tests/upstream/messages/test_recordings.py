"""Every recorded reply, whole and cut anywhere: all that it says comes through, or a typed error."""

import json
import random
from typing import Any

from app.chat.accumulator import MessageAccumulator
from app.chat.events import Event, Failed, Finish, ReasoningDelta, TextDelta
from app.chat.token_usage import read_token_usage

from tests.each_case import each_case
from tests.effort import LONG
from tests.upstream.messages.recordings import REPLIES, Told, needs_recordings, read_body, read_independently
from tests.upstream.messages.replies import read

Json = dict[str, Any]
CUTS = 200 if LONG else 12
"""How many places of each recording are tried; every byte of a hundred thousand would take an hour."""


def get_told(events: list[Event]) -> Told:
    accumulator = MessageAccumulator()
    accumulator.feed(events)
    told = Told()
    details: list[Any] = list(accumulator.loose_extra.get("reasoning_details", ()))
    for message in accumulator.messages:
        if message.kind == "function_call":
            told.calls.append((message.id, message.name, json.loads(message.text)))
        elif message.kind == "content":
            told.text += message.text
            told.annotations += len(message.extra.get("annotations", ()))
        else:
            told.thought += message.text
        details = details + message.extra.get("reasoning_details", [])
    told.opaque = [one.get("signature") or one.get("data") or one.get("item") for one in details]
    end = events[-1]
    assert isinstance(end, Finish)
    told.end = end.native_reason or end.reason
    usage = read_token_usage(end.usage)
    told.tokens = None if usage is None else (usage.input, usage.output)
    return told


def join_texts(events: list[Event]) -> str:
    return "".join(event.text for event in events if isinstance(event, TextDelta | ReasoningDelta))


@needs_recordings
@each_case("row", REPLIES)
def test_all_that_a_recorded_reply_says_comes_through_in_any_reads(row: Json) -> None:
    body = read_body(row)
    expected = read_independently(row, body)
    for size in (len(body), 1000, *((1,) if LONG else (17,))):
        told = get_told(read(body, size))
        assert told.text.strip() == expected.text.strip()
        assert (told.thought, told.calls, told.opaque) == (expected.thought, expected.calls, expected.opaque)
        assert told.annotations == expected.annotations
        assert told.end == (expected.end or "stop")
        assert expected.tokens is None or told.tokens == expected.tokens


@needs_recordings
@each_case("row", REPLIES)
def test_a_recording_that_is_cut_is_whole_or_ends_with_a_typed_error(row: Json) -> None:
    body = read_body(row)
    whole = read(body)
    texts, reason = join_texts(whole), getattr(whole[-1], "reason", None)
    chooser = random.Random(row["file"])
    for _ in range(CUTS):
        events = read(body[: chooser.randrange(len(body))], 100, clean=chooser.random() < 0.5)
        end = events[-1]
        if isinstance(end, Failed):
            assert end.fault.code in ("upstream_incomplete", "upstream_protocol")
        else:
            assert isinstance(end, Finish) and end.reason == reason
        assert texts.startswith(join_texts(events))
