"""A client of Responses reads the same at the end of a text, of an item and of the reply as in the deltas before, also
where the server of that API has something else at one of these ends."""

import copy
from collections.abc import Iterator
from typing import Any

import pytest
from app.profiles import Profile

from tests.cuts import bytewise, whole
from tests.each_case import each_case
from tests.faults.known_replies import REPLIES, Frame, event, write_frames, write_stream
from tests.streams.own_replies import PLAIN, RESPONSES, Json, list_response_faults, read_frames, serve

_SUMMARY = {
    "response.reasoning_text.delta": "response.reasoning_summary_text.delta",
    "response.reasoning_text.done": "response.reasoning_summary_text.done",
    "response.content_part.added": "response.reasoning_summary_part.added",
    "response.content_part.done": "response.reasoning_summary_part.done",
}
BLANK: Json = {"type": "message", "id": "m9", "role": "assistant", "status": "completed"}


def with_summary(frames: list[Frame]) -> list[Frame]:
    """Return the frames of a reply with its reasoning as a summary."""
    found: list[Frame] = []
    for name, data in frames:
        value = copy.deepcopy(data)
        if value.get("item_id") == "rs0":
            name = value["type"] = _SUMMARY[name]
            value["summary_index"] = value.pop("content_index")
            if "part" in value:
                value["part"]["type"] = "summary_text"
        for item in (value.get("item", {}), *value.get("response", {}).get("output", ())):
            if item.get("type") == "reasoning" and item["content"]:
                item |= {"summary": [{**item["content"][0], "type": "summary_text"}], "content": []}
        found.append(Frame(name, value))
    return found


def list_ends(frames: list[Frame]) -> Iterator[tuple[int, str, Json]]:
    """Yield each place at which the frames repeat a text: its frame, its field, and what has it."""
    for at, (name, data) in enumerate(frames):
        if name.endswith("part.done"):
            yield at, "text", data["part"]
        elif name.endswith(".done") and name != "response.output_item.done":
            yield at, "arguments" if "arguments" in data else "text", data
        for item in (data.get("item"), *data.get("response", {}).get("output", ())):
            if item is None or name == "response.output_item.added":
                continue
            parts = item.get("summary") or item.get("content") or ()
            yield from ((at, "text", part) for part in parts)
            if "arguments" in item:
                yield at, "arguments", item


def get_output(frames: list[Frame]) -> tuple[list[Json], list[str]]:
    """Return the output that a client of Responses reads at the end, and what is wrong with the stream."""
    body = write_stream(frames)
    results = []
    for cut in (whole, bytewise):
        sent, _ = serve(RESPONSES, list(cut(body)), PLAIN, Profile(inline_think="off"))
        events = read_frames(sent)
        for number, sent_event in enumerate(events):
            sent_event["sequence_number"] = number  # the frames have none
        results.append((events[-1]["response"]["output"], list(list_response_faults(events))))
    assert results[0] == results[1]
    return results[0]


def read_texts(output: list[Json]) -> list[str]:
    parts = [part for item in output for part in (*item.get("summary", ()), *item.get("content", ()))]
    return [part["text"] for part in parts] + [item["arguments"] for item in output if "arguments" in item]


@pytest.mark.many_cases
@each_case("kind", REPLIES)
@each_case("summary", (False, True))
@each_case("change", ("empty", "missing"))
def test_a_text_that_is_missing_at_one_end_is_that_of_its_deltas(kind: str, summary: bool, change: str) -> None:
    def make() -> list[Frame]:
        frames = copy.deepcopy(write_frames("responses", REPLIES[kind]))
        return with_summary(frames) if summary else frames

    wanted = read_texts(get_output(make())[0])
    count = len(list(list_ends(make())))
    assert count
    for place in range(count):
        frames = copy.deepcopy(make())
        at, field, holder = list(list_ends(frames))[place]
        if change == "empty":
            holder[field] = ""
        elif frames[at].name.endswith("part.done"):
            frames[at].data.pop("part")
        else:
            holder.pop(field)
        output, faults = get_output(frames)
        assert (read_texts(output), faults) == (wanted, []), frames[at].name


def test_a_custom_call_that_ends_without_its_input_has_that_of_its_deltas() -> None:
    call: Json = {"type": "custom_tool_call", "id": "ctc_1", "call_id": "c1", "name": "run"}
    place: Json = {"output_index": 0, "item_id": "ctc_1"}
    response: Json = {"id": "r", "object": "response", "model": "m"}
    for given in ("", "ls", "ls -l", "rm"):
        item = {**call, "input": given}
        frames = [
            event("response.created", response={**response, "status": "in_progress", "output": []}),
            event("response.output_item.added", output_index=0, item={**call, "input": ""}),
            event("response.custom_tool_call_input.delta", **place, delta="ls "),
            event("response.custom_tool_call_input.delta", **place, delta="-l"),
            event("response.output_item.done", output_index=0, item=item),
            event("response.completed", response={**response, "status": "completed", "output": [item]}),
        ]
        output, faults = get_output(frames)
        assert faults == [] and [one["input"] for one in output] == ["ls -l"]


def blank_reply(*, ends: bool, summary: bool = False) -> list[Frame]:
    """Return a reply with a blank message before its call, which its last event does not list."""
    first, *rest = copy.deepcopy(write_frames("responses", REPLIES["one call"]))
    for frame in rest:
        if "output_index" in frame.data:
            frame.data["output_index"] += 1
    item: Json = {"type": "reasoning", "id": "rs9", "summary": []} if summary else BLANK
    index, part = ("summary_index", {"type": "summary_text"}) if summary else ("content_index", {"type": "output_text"})
    names = ("reasoning_summary_part", "reasoning_summary_text") if summary else ("content_part", "output_text")
    place: Json = {"item_id": item["id"], "output_index": 0, index: 0}
    blank = [
        event("response.output_item.added", output_index=0, item={**item, "content": []}),
        event(f"response.{names[0]}.added", **place, part={**part, "text": ""}),
        event(f"response.{names[1]}.delta", **place, delta="\n\n"),
    ]
    if ends:
        ended = {**part, "text": "\n\n"}
        blank += [
            event(f"response.{names[1]}.done", **place, text="\n\n"),
            event(f"response.{names[0]}.done", **place, part=ended),
            event("response.output_item.done", output_index=0, item={**item, "content": [ended]}),
        ]
    return [first, *blank, *rest]


@each_case("ends", (False, True))
@each_case("lacks_id", (False, True))
def test_a_blank_message_that_was_streamed_is_in_the_output(ends: bool, lacks_id: bool) -> None:
    frames = blank_reply(ends=ends)
    for frame in frames if lacks_id else ():  # the server's own events end there
        if frame.name == "response.output_item.added" and frame.data["item"]["type"] == "function_call":
            del frame.data["item"]["id"]
    output, faults = get_output(frames)
    assert faults == [] and sorted(item["type"] for item in output) == ["function_call", "message"]
    assert "\n\n" in read_texts(output)


def test_blank_reasoning_that_was_streamed_is_in_the_output() -> None:
    output, faults = get_output(blank_reply(ends=False, summary=True))
    assert faults == [] and sorted(item["type"] for item in output) == ["function_call", "reasoning"]


def test_white_space_of_the_servers_own_events_is_not_streamed_again() -> None:
    frames = copy.deepcopy(write_frames("responses", REPLIES["text"]))
    at = next(at for at, frame in enumerate(frames) if frame.name == "response.output_text.delta")
    delta: Any = frames[at].data
    frames.insert(at, Frame(frames[at].name, {**delta, "delta": "\n\n"}))
    del delta["output_index"]  # the server's own events end here
    output, faults = get_output(frames)
    assert faults == [] and read_texts(output)[-1] == f"\n\n{REPLIES['text'].text}"
