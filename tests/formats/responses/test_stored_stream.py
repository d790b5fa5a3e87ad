"""The stream that is made of a stored Response: the events of the reply's own stream, with whole texts."""

import json
from typing import Any

from app.chat.events import Event, Extra, Finish, ReasoningDelta, TextDelta, ToolCallDelta
from app.formats.base import Options, ReplyInfo, ResponsesOptions
from app.formats.responses import RESPONSES
from app.formats.responses.stored_stream import write_stored_stream
from app.formats.responses.stream import ResponseEventEncoder

from tests.each_case import each_case

Json = dict[str, Any]
REASONING = ReasoningDelta("Hm.")
TEXT = TextDelta("So\u2028:")
REFUSAL = TextDelta("No.", refusal=True)
CALL = ToolCallDelta(0, '{"a": 1}', "call_0", "f")
CUSTOM_CALL = ToolCallDelta(0, '{"input": "ab"}', "call_0", "patch")
SEALED = Extra({"reasoning_details": [{"type": "reasoning.encrypted", "data": "A"}]}, -1)


def read(data: bytes) -> list[Json]:
    """The events of the frames, whose names are the types of the events."""
    events = []
    for frame in data.decode().split("\n\n")[:-1]:
        name, body = frame.split("\n")
        events.append(json.loads(body.removeprefix("data: ")))
        assert name == f"event: {events[-1]['type']}"
    return events


def respond(*events: Event, **options: Any) -> tuple[list[Json], Json]:
    """The events of the reply's own stream, and the Response that is stored of it."""
    responses = ResponsesOptions(custom=("patch",), **options)
    info = ReplyInfo("resp_1", "req-1", "m", 1, options=Options(responses=responses))
    encoder = RESPONSES.reply_encoder(info, "delta")
    assert isinstance(encoder, ResponseEventEncoder)
    encoder.completed_at = 5
    data = encoder.open() + b"".join(encoder.feed([event]) for event in events)
    assert encoder.response is not None
    return read(data), encoder.response


def replay(response: Json, last_number: int | None = None, starting_after: int | None = None) -> list[Json]:
    return read(write_stored_stream(response, last_number, starting_after))


def answer_with(*items: Json, **fields: Any) -> Json:
    return {"id": "resp_1", "status": "completed", "output": list(items), **fields}


@each_case(
    "events",
    [
        [],
        [REASONING, TEXT],
        [REASONING, SEALED, TEXT],
        [TEXT, SEALED],
        [REFUSAL],
        [CALL],
        [CUSTOM_CALL],
        [ToolCallDelta(0, '{"input": ""}', "call_0", "patch")],
        [REASONING, TEXT, CALL, ToolCallDelta(1, "{}", "call_1", "g")],
    ],
)
@each_case("options", [{}, {"summary": True}, {"summary": True, "sealed": True}, {"sealed": True}])
@each_case("reason", ["stop", "length"])
def test_a_response_is_sent_again_as_its_own_stream(events: list[Event], options: Json, reason: Any) -> None:
    live, response = respond(*events, Finish(reason, {"prompt_tokens": 1, "completion_tokens": 2}), **options)
    assert replay(response) == live


def test_the_stream_starts_with_a_response_that_is_in_progress() -> None:
    usage, details = {"total_tokens": 3}, {"reason": "max_output_tokens"}
    response = answer_with(
        CALL_ITEM, status="incomplete", usage=usage, incomplete_details=details, completed_at=5, error=None, model="m"
    )
    created, in_progress, *_, last = replay(response)
    assert (created["type"], in_progress["type"]) == ("response.created", "response.in_progress")
    assert created["response"] == {
        "id": "resp_1",
        "model": "m",
        "status": "in_progress",
        "output": [],
        "error": None,
        "incomplete_details": None,
        "usage": None,
        "completed_at": None,
    }
    assert in_progress["response"] == created["response"]
    assert (last["type"], last["response"]) == ("response.incomplete", response)


CALL_ITEM: Json = {
    "id": "fc_1",
    "type": "function_call",
    "status": "completed",
    "call_id": "c",
    "name": "f",
    "arguments": "{}",
}


@each_case(
    ("status", "kind"),
    [("completed", "completed"), ("incomplete", "incomplete"), ("failed", "failed"), ("cancelled", "failed")],
)
def test_the_last_event_is_that_of_the_status(status: str, kind: str) -> None:
    assert replay(answer_with(status=status))[-1]["type"] == f"response.{kind}"


def test_a_call_comes_whole_after_an_item_without_arguments() -> None:
    events = replay(answer_with(CALL_ITEM))[2:-1]
    head = {"output_index": 0, "item_id": "fc_1"}
    arguments = "response.function_call_arguments"
    assert events == [
        {
            "type": "response.output_item.added",
            "sequence_number": 2,
            "output_index": 0,
            "item": CALL_ITEM | {"arguments": "", "status": "in_progress"},
        },
        {"type": f"{arguments}.delta", "sequence_number": 3, **head, "delta": "{}"},
        {"type": f"{arguments}.done", "sequence_number": 4, **head, "arguments": "{}", "name": "f"},
        {"type": "response.output_item.done", "sequence_number": 5, "output_index": 0, "item": CALL_ITEM},
    ]


def test_each_item_has_its_place_in_the_output() -> None:
    events = replay(answer_with(CALL_ITEM, CALL_ITEM | {"id": "fc_2"}))[2:-1]
    assert [event["output_index"] for event in events] == [0] * 4 + [1] * 4
    assert [event["item_id"] for event in events if "item_id" in event] == ["fc_1"] * 2 + ["fc_2"] * 2


def test_a_text_that_is_empty_has_no_delta() -> None:
    part = {"type": "output_text", "text": "", "annotations": [], "logprobs": []}
    events = replay(answer_with({"id": "msg_1", "type": "message", "content": [part]}))[2:-1]
    assert [event["type"].removeprefix("response.") for event in events] == [
        "output_item.added",
        "content_part.added",
        "output_text.done",
        "content_part.done",
        "output_item.done",
    ]


def test_a_part_that_has_no_text_comes_as_it_is() -> None:
    part = {"type": "output_audio", "data": "aGk="}
    added, *events, _ = replay(answer_with({"id": "msg_1", "type": "message", "content": [part]}))[2:-1]
    assert added["item"] == {"id": "msg_1", "type": "message", "content": []}
    place = {"output_index": 0, "item_id": "msg_1", "content_index": 0}
    assert events == [
        {"type": "response.content_part.added", "sequence_number": 3, **place, "part": part},
        {"type": "response.content_part.done", "sequence_number": 4, **place, "part": part},
    ]


def test_several_parts_of_an_item_have_their_places() -> None:
    parts = [{"type": "summary_text", "text": "One."}, {"type": "summary_text", "text": "Two."}]
    events = replay(answer_with({"id": "rs_1", "type": "reasoning", "summary": parts}))
    assert [(event["summary_index"], event["delta"]) for event in events if "delta" in event] == [
        (0, "One."),
        (1, "Two."),
    ]


def test_an_item_of_another_type_is_added_and_done_as_it_is() -> None:
    item = {"id": "cmp_1", "type": "compaction", "encrypted_content": "parley1.e30"}
    added, done = replay(answer_with(item))[2:-1]
    assert (added["type"], done["type"]) == ("response.output_item.added", "response.output_item.done")
    assert added["item"] == done["item"] == item


@each_case("starting_after", range(8))
def test_a_client_gets_the_events_after_the_last_one_that_it_read(starting_after: int) -> None:
    events = replay(answer_with(CALL_ITEM))
    assert [event["sequence_number"] for event in events] == list(range(7))
    assert replay(answer_with(CALL_ITEM), starting_after=starting_after) == events[starting_after + 1 :]


def test_a_client_that_read_a_part_of_the_original_stream_gets_its_last_event() -> None:
    response = answer_with(CALL_ITEM)
    last = {"type": "response.completed", "sequence_number": 40, "response": response}
    for starting_after in (0, 2, 39):
        assert replay(response, last_number=40, starting_after=starting_after) == [last]
    for starting_after in (40, 41):
        assert replay(response, last_number=40, starting_after=starting_after) == []


def test_a_client_that_read_nothing_of_the_original_stream_gets_every_event() -> None:
    response = answer_with(CALL_ITEM)
    assert replay(response, last_number=40) == replay(response)
