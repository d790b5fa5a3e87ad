"""A client of the server's own API gets what the stages give, in order, and the server's own bytes where they change
nothing."""

import json
import random
from typing import Any

import pytest
from app.profiles import KINDS, find_profile

from tests.cuts import bytewise, random_cuts, whole
from tests.each_case import each_case
from tests.effort import LONG
from tests.streams.own_replies import (
    MESSAGES,
    PLAIN,
    PROFILES,
    RESPONSES,
    Json,
    OwnApi,
    insert_texts,
    list_mistakes,
    read_frames,
    serve,
    stop_words,
    write_stream,
)
from tests.upstream.messages import recordings as message_recordings
from tests.upstream.messages.replies import block, start, stop, text
from tests.upstream.responses import recordings as response_recordings

CALL: Json = {"type": "tool_use", "id": "toolu_1", "name": "f", "input": {}}
BARE: Json = {"type": "tool_use", "id": "toolu_2", "name": "g", "input": {}}
SEARCH: Json = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "q"}}
CITED: Json = {"type": "web_search_result_location", "url": "https://a.test/", "cited_text": "né", "title": "A"}
THOUGHT = [{"type": "thinking_delta", "thinking": one} for one in ("Let me", " see")]
MESSAGE = [
    start(),
    {"type": "ping"},
    *block(0, {"type": "thinking", "thinking": ""}, *THOUGHT, {"type": "signature_delta", "signature": "sig-1"}),
    *block(1, {"type": "redacted_thinking", "data": "secret"}),
    *text(2, "Well, ", "né 😀", " ok"),
    *block(3, SEARCH),
    *block(4, {"type": "text", "text": ""}, {"type": "citations_delta", "citation": CITED})[:2],
    {"type": "content_block_delta", "index": 4, "delta": {"type": "text_delta", "text": "It is so."}},
    {"type": "content_block_stop", "index": 4},
    *block(5, CALL, *({"type": "input_json_delta", "partial_json": part} for part in ('{"a":', ' "é"}'))),
    *block(6, BARE, {"type": "input_json_delta", "partial_json": ""}),
    *stop("tool_use"),
]


def list_item_events(index: int, item: Json, deltas: list[tuple[str, Json]]) -> list[Json]:
    place = {"output_index": index, "item_id": item["id"]}
    opened = {name: value for name, value in item.items() if name not in ("content", "summary", "arguments")}
    empty: Json = {"content": []} if "content" in item else {"arguments": ""} if "arguments" in item else {}
    empty |= {"summary": []} if "summary" in item else {}
    return [
        {"type": "response.output_item.added", "output_index": index, "item": opened | empty},
        *({"type": f"response.{name}", **place, **fields} for name, fields in deltas),
        {"type": "response.output_item.done", "output_index": index, "item": item},
    ]


def list_text_events(part: str, delta: str, place: str, number: int, kind: str, texts: list[str]) -> Any:
    at, whole_text = {place: number}, "".join(texts)
    yield f"{part}.added", {**at, "part": {"type": kind, "text": ""}}
    yield from ((f"{delta}.delta", {**at, "delta": one}) for one in texts)
    yield f"{delta}.done", {**at, "text": whole_text}
    yield f"{part}.done", {**at, "part": {"type": kind, "text": whole_text}}


def summary(number: int, *texts: str) -> list[tuple[str, Json]]:
    head = ("reasoning_summary_part", "reasoning_summary_text", "summary_index")
    return list(list_text_events(*head, number, "summary_text", list(texts)))


def answer(number: int, *texts: str) -> list[tuple[str, Json]]:
    return list(list_text_events("content_part", "output_text", "content_index", number, "output_text", list(texts)))


def number_events(events: list[Json]) -> list[Json]:
    return [{**event, "sequence_number": number} for number, event in enumerate(events)]


def make_response_events() -> list[Json]:
    thought: Json = {"type": "reasoning", "id": "rs_1", "encrypted_content": "gAAA"}
    thought["summary"] = [{"type": "summary_text", "text": one} for one in ("hm so", "and then")]
    parts = [{"type": "output_text", "text": one} for one in ("né 😀", " more")]
    said: Json = {"type": "message", "id": "msg_1", "role": "assistant", "phase": "commentary", "content": parts}
    last: Json = {"type": "message", "id": "msg_2", "role": "assistant", "content": [parts[0]]}
    call: Json = {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "f", "arguments": '{"a": "é"}'}
    deltas = [("function_call_arguments.delta", {"delta": one}) for one in ('{"a": ', '"é"}')]
    done = ("function_call_arguments.done", {"arguments": call["arguments"]})
    items: list[tuple[Json, list[tuple[str, Json]]]] = [
        (thought, [*summary(0, "hm", " so"), *summary(1, "and then")]),
        ({"type": "web_search_call", "id": "ws_1", "status": "completed"}, [("web_search_call.in_progress", {})]),
        (said, [*answer(0, "né ", "😀"), *answer(1, " more")]),
        (call, [*deltas, done]),
        (last, answer(0, "né ", "😀")),
    ]
    head: Json = {"id": "resp_up", "object": "response", "model": "up", "status": "in_progress", "output": []}
    end = {**head, "status": "completed", "output": [item for item, _ in items]}
    events = [event for index, (item, deltas) in enumerate(items) for event in list_item_events(index, item, deltas)]
    return number_events(
        [{"type": "response.created", "response": head}, *events, {"type": "response.completed", "response": end}]
    )


RESPONSE = make_response_events()
SAMPLES = [(MESSAGES, MESSAGE), (RESPONSES, RESPONSE)]


@each_case(("api", "events"), SAMPLES)
def test_every_cut_of_a_changed_reply_gives_what_the_stages_give(api: OwnApi, events: list[Json]) -> None:
    rng = random.Random(1)
    for name, changed in [("as it is", events), *insert_texts(api, events, rng)]:
        body = write_stream(changed)
        for request, profile in PROFILES:
            cuts = [whole(body), bytewise(body) if LONG else random_cuts(body, 1, 60)]
            mistakes = list(list_mistakes(api, body, cuts, request, profile, stop_words(request)))
            assert not mistakes, (name, profile.inline_think, mistakes[0])


@each_case(("api", "events"), SAMPLES)
def test_a_reply_that_no_stage_changes_is_the_servers_own(api: OwnApi, events: list[Json]) -> None:
    body = write_stream(events)
    for request, profile in PROFILES:
        sent, has_ended = serve(api, bytewise(body), request, profile)
        assert not has_ended
        assert read_frames(sent)[1:-1] == events[1:-1]


@each_case(("api", "events"), SAMPLES)
@each_case("lacks", ["index", "type", "id", "name"])
def test_from_an_event_on_that_lacks_a_field_events_are_complete(api: OwnApi, events: list[Json], lacks: str) -> None:
    complete = write_stream(events)
    for place, event in enumerate(events):
        changed = strip(event, lacks)
        if changed == event:
            continue
        frames = [f"event: {one['type']}\ndata: {json.dumps(changed if one is event else one)}\n\n" for one in events]
        body = "".join(frames).encode()
        sent, has_ended = serve(api, whole(body), PLAIN, PROFILES[0][1])
        assert has_ended, (place, event)
        faults = list(api.list_faults(read_frames(sent)))
        assert not faults, (place, event, faults)
        if lacks == "type" and "delta" in event.get("type", ""):  # no inference loses anything of it
            mistakes = list(list_mistakes(api, complete, [whole(body)], PLAIN, PROFILES[0][1]))
            assert not mistakes, (place, event, mistakes[0])


def strip(event: Json, lacks: str) -> Json:
    """Return an event of a block or an item without one of its fields."""
    event = json.loads(json.dumps(event))
    if "index" not in event and "output_index" not in event:
        return event
    inner = event.get("content_block") or event.get("item") or {}
    if lacks in ("index", "type"):
        for name in ("index", "output_index") if lacks == "index" else ("type",):
            event.pop(name, None)
    elif inner.get("type") in ("tool_use", "function_call"):
        for name in ("id", "call_id") if lacks == "id" else ("name",):
            inner.pop(name, None)
    return event


ROWS = [
    *((MESSAGES, row, message_recordings) for row in message_recordings.REPLIES if row["file"].endswith(".sse")),
    *((RESPONSES, row, response_recordings) for row in response_recordings.REPLIES if row["file"].endswith(".sse")),
]
needs_recordings = pytest.mark.skipif(not ROWS, reason="no recorded streams: set PARLEY_STREAMS to the folder beside")


@needs_recordings
@each_case(("api", "row", "folder"), ROWS if LONG else ROWS[::8], ids=lambda value: "")
def test_recorded_replies_are_the_servers_own_with_the_profile_of_each_kind(
    api: OwnApi, row: Json, folder: Any
) -> None:
    body = folder.read_body(row)
    name = "messages" if api is MESSAGES else "responses"
    plain, _ = serve(api, whole(body), PLAIN, PROFILES[0][1])
    for profile in {find_profile(kind, name).inline_think: find_profile(kind, name) for kind in KINDS}.values():
        sent, has_ended = serve(api, whole(body), PLAIN, profile)
        assert not has_ended and sent == plain


@needs_recordings
@each_case(("api", "row", "folder"), ROWS if LONG else ROWS[5::60], ids=lambda value: "")
def test_recorded_replies_with_inserted_texts_give_what_the_stages_give(api: OwnApi, row: Json, folder: Any) -> None:
    events = read_frames(folder.read_body(row))
    for name, changed in insert_texts(api, events, random.Random(row["file"])):
        body = write_stream(changed)
        for request, profile in PROFILES:
            cuts = [random_cuts(body, seed, 40) for seed in range(3 if LONG else 1)]
            mistakes = list(list_mistakes(api, body, cuts, request, profile, stop_words(request)))
            assert not mistakes, (name, profile.inline_think, mistakes[0])
