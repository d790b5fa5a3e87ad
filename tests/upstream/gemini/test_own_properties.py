"""A client of the Gemini API gets what the stages give, and the server's own chunks where they change nothing."""

import copy
import json
import random
from collections.abc import Iterator
from typing import Any

import pytest
from app.chat.events import Event, Failed
from app.formats.gemini.stream import GeminiStreamEncoder
from app.upstream.gemini import api as gemini

from tests.cuts import bytewise, random_cuts, whole
from tests.each_case import each_case
from tests.effort import LONG
from tests.streams.own_replies import PLAIN, PROFILES, STOP_WORD, OwnApi, describe, list_given, read, serve, stop_words
from tests.upstream.gemini.own_requests import PARTS
from tests.upstream.gemini.recordings import ROWS, read_body
from tests.upstream.gemini.replies import write_stream

Json = dict[str, Any]
GEMINI = OwnApi(gemini.make_reader, gemini.make_passing_reader, GeminiStreamEncoder, list, lambda _: iter(()))
INSERTED = (
    "<think>Hm. So what.</think>\n\n",
    "<think>never",
    "Hm</think>",
    "<thi",
    '<tool_call>\n{"name": "get_weather", "arguments": {"city": "A"}}\n</tool_call>',
    STOP_WORD,
)
STREAMS = [row for row in ROWS if row["status"] == 200 and row["file"].endswith(".sse")]


def read_chunks(body: bytes) -> list[Json]:
    lines = [line.strip() for line in body.decode().split("\n")]
    return [json.loads(line[5:]) for line in lines if line.startswith("data:")]


def list_texts(chunk: Json) -> list[Json]:
    candidates = chunk.get("candidates") or [{}]
    parts = (candidates[0].get("content") or {}).get("parts") or []
    return [part for part in parts if part.get("text") and not part.get("thought")]


def insert_texts(chunks: list[Json], rng: random.Random) -> Iterator[list[Json]]:
    """Yield the chunks as they are, and with each of the texts in one of theirs."""
    yield chunks
    places = [place for place, chunk in enumerate(chunks) if list_texts(chunk)]
    for inserted in INSERTED if places else ():
        changed = copy.deepcopy(chunks)
        part = list_texts(changed[rng.choice(places)])[0]
        at = rng.choice((0, rng.randrange(len(part["text"]) + 1)))
        part["text"] = part["text"][:at] + inserted + part["text"][at:]
        yield changed


def count_ends(chunks: list[Json]) -> int:
    candidates = [one for chunk in chunks for one in chunk.get("candidates") or ()]
    return sum(bool(one.get("finishReason")) for one in candidates)


def describe_calls(events: list[Event]) -> Any:
    """Describe events with the arguments of calls in one form of JSON: a client gets them as an object, of a failure a
    status and not the gateway's code."""
    parts, opaque, end = describe(events)
    end = "failed" if events and type(events[-1]) is Failed else end
    return [(*part[:3], json.loads(part[3])) if part[0] == "function_call" else part for part in parts], opaque, end


def check(chunks: list[Json], rng: random.Random, *, all_cuts: bool = False) -> None:
    for changed in insert_texts(chunks, rng):
        body = write_stream(*changed)
        for request, profile in PROFILES:
            wanted = describe_calls(list_given(GEMINI, body, request, profile))
            for parts in (whole(body), bytewise(body) if all_cuts else random_cuts(body, rng.randrange(99), 40)):
                sent, _ = serve(GEMINI, parts, request, profile, stop_words(request))
                got = describe_calls([event for events in read(GEMINI.make_reader("r"), [sent]) for event in events])
                assert got == wanted, (profile.inline_think, changed)
                assert count_ends(read_chunks(sent)) <= max(1, count_ends(changed))


def test_every_cut_of_a_changed_reply_gives_what_the_stages_give() -> None:
    check(PARTS, random.Random(1), all_cuts=True)


@pytest.mark.skipif(not STREAMS, reason="no recorded streams: set PARLEY_STREAMS to the folder beside")
@each_case("row", STREAMS if LONG else STREAMS[::7], ids=lambda value: "")
def test_recorded_replies_give_what_the_stages_give(row: Json) -> None:
    chunks = read_chunks(read_body(row))
    check(chunks, random.Random(row["file"]))


@pytest.mark.skipif(not STREAMS, reason="no recorded streams: set PARLEY_STREAMS to the folder beside")
@each_case("row", STREAMS, ids=lambda value: "")
def test_recorded_streams_are_the_servers_own(row: Json) -> None:
    body = read_body(row)
    sent, has_ended = serve(GEMINI, random_cuts(body, 1, 40), PLAIN, PROFILES[0][1])
    given = [{**one, "modelVersion": "m"} if "modelVersion" in one else one for one in read_chunks(body)]
    got = [{name: value for name, value in one.items() if name != "parley"} for one in read_chunks(sent)]
    assert has_ended or got == given or "error" in read_chunks(sent)[-1], row["file"]
