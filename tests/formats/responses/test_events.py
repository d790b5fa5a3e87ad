"""The events of a reply and their sequence numbers."""

import json
from typing import Any

from app.formats.responses.events import EventWriter, NoEvents

Json = dict[str, Any]


def read(frames: bytes) -> list[Json]:
    events = [json.loads(frame.partition(b"data: ")[2]) for frame in frames.split(b"\n\n") if frame]
    assert all(frame.startswith(b"event: ") for frame in frames.split(b"\n\n") if frame)
    return events


def test_events_are_numbered_from_those_that_begin_a_reply_on() -> None:
    events = EventWriter([])
    item = {"id": "msg_1", "type": "message"}
    data = events.start_item(item) + events.write_of_item("response.output_text.done", text="a\u2028")
    data += events.write_delta(events.make_delta("response.output_text.delta", logprobs=[]), "100 %\u2028")
    assert b"\\u2028" in data and "\u2028".encode() not in data
    started, done, delta = read(data)
    assert started == {
        "type": "response.output_item.added",
        "sequence_number": 2,
        "output_index": 0,
        "item": item,
    }
    place = {"item_id": "msg_1", "output_index": 0}
    assert done == {"type": "response.output_text.done", "sequence_number": 3, **place, "text": "a\u2028"}
    assert delta == {
        "type": "response.output_text.delta",
        "sequence_number": 4,
        **place,
        "logprobs": [],
        "delta": "100 %\u2028",
    }
    [ended] = read(events.end_item(item))
    assert (ended["type"], ended["output_index"], events.output) == ("response.output_item.done", 0, [item])
    assert (events.last_number, len(events.output)) == (5, 1)


def test_a_heartbeat_takes_a_number_that_every_writer_of_the_reply_leaves_to_it() -> None:
    keepalives: list[int] = []
    first, second = EventWriter(keepalives), EventWriter(keepalives)
    template = first.make_delta("response.output_text.delta")
    data = first.write_heartbeat() + first.write_delta(template, "a")
    assert [event["type"] for event in read(data)] == ["keepalive", "response.output_text.delta"]
    assert keepalives == [2]
    assert second.write_delta(template, "a") == data
    assert read(second.write_heartbeat())[0]["sequence_number"] == 4
    assert [event["sequence_number"] for event in read(first.write("response.completed"))] == [4, 5]


def test_the_number_after_events_of_a_server_follows_its_last_one() -> None:
    events = EventWriter([])
    assert events.write_passed("response.created", '{"sequence_number": 0}') == (
        b'event: response.created\ndata: {"sequence_number": 0}\n\n'
    )
    assert "é\\u2028".encode() in events.write_passed("x", '"é\u2028"'), "no line reader may split it"
    events.write_passed("response.in_progress", '{"type": "x", "sequence_number" : 41}')
    assert events.find_number() == events.find_number() == 42
    events.write_passed("response.in_progress", "{}")
    assert events.find_number() == 43, "where the server's event has none, it counts on"
    events.continue_from(7)
    assert read(events.write("response.completed"))[0]["sequence_number"] == 7


def test_behind_an_event_of_a_server_without_a_number_events_have_none() -> None:
    events = EventWriter([])
    events.continue_from(None)
    assert read(events.write("response.completed")) == [{"type": "response.completed"}]


def test_a_reply_that_is_one_response_has_items_and_no_events() -> None:
    events = NoEvents([])
    item = {"id": "msg_1"}
    written = [events.start_item(item), events.make_delta("x"), events.write_of_item("x"), events.end_item(item)]
    assert (written, events.output, events.item_id) == ([b""] * 4, [item], "msg_1")
