import json
from typing import Any

from app.chat.events import AnswerPart, Event, Failed, Fault, Finish
from app.endpoints.streamed import EventSplitter, StreamedAnswer
from app.upstream.reply.sse import MAX_EVENT_BYTES, MalformedData

from tests.cuts import bytewise, whole
from tests.each_case import each_case

HEADERS = ((b"content-type", b"text/event-stream"),)
CUT_OFF = Fault("upstream_incomplete", "the connection was closed", True)


def read(
    data: bytes,
    choices: int | None = None,
    *,
    fine: bool = False,
    hides_usage: bool = False,
    fault: Fault | None = None,
) -> list[Event]:
    splitter, answer = EventSplitter(), StreamedAnswer(HEADERS, choices, hides_usage=hides_usage)
    events: list[Event] = []
    for part in bytewise(data) if fine else whole(data):
        events += answer.feed(splitter.feed(part))
        if answer.ended:
            return events
    events += answer.feed(splitter.close(clean=fault is None))
    return events if answer.ended else events + answer.close(fault=fault)


def join(events: list[Event]) -> bytes:
    return b"".join([event.data for event in events if type(event) is AnswerPart])


def chunk(index: int = 0, reason: str | None = None, **fields: Any) -> bytes:
    choices = [{"index": index, "text": "x", "finish_reason": reason}]
    return b"data: " + json.dumps({"model": "up", "choices": choices, **fields}).encode() + b"\n\n"


@each_case("fine", [False, True])
@each_case(
    "data",
    [
        chunk() + chunk(reason="stop"),
        chunk() + b"data: [DONE]\n\n",
        b": hello\n\n" + chunk(reason="length") + b"data: [DONE]",
        (chunk() + chunk(reason="stop")).replace(b"\n", b"\r\n"),
    ],
)
def test_a_completion_that_ends_passes_one_to_one(data: bytes, fine: bool) -> None:
    events = read(data, fine=fine, choices=1)
    assert join(events).rstrip() == data.rstrip()
    assert type(events[-1]) is Finish


@each_case(
    ("data", "choices"),
    [
        (chunk(), 1),
        (chunk(reason="stop"), 2),
        (chunk(reason="stop") + chunk(1), 2),
        (b"data: [DONE]\n\n", 1),
        (b"", 1),
        (b": hello\n\n", 1),
    ],
)
def test_a_completion_without_the_end_of_each_choice_fails(data: bytes, choices: int) -> None:
    end = read(data, choices=choices)[-1]
    assert type(end) is Failed
    assert end.fault.code == "upstream_incomplete"


@each_case(
    "event",
    [b'data: {"error": {"message": "CUDA error"}}\n\n', b'event: error\ndata: {"message": "CUDA error"}\n\n'],
)
def test_an_error_in_a_stream_ends_it(event: bytes) -> None:
    events = read(chunk() + event + chunk(), choices=1)
    assert join(events) == chunk()
    assert type(events[-1]) is Failed
    assert "CUDA error" in events[-1].fault.message


def test_an_event_that_is_no_json_ends_a_stream() -> None:
    assert type(read(b"data: {\n\n", choices=1)[-1]) is Failed


@each_case("hides_usage", [True, False])
def test_a_usage_that_the_client_did_not_ask_for_is_kept_back(hides_usage: bool) -> None:
    usage = b'data: {"choices": [], "usage": {"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3}}\n\n'
    events = read(chunk(reason="stop") + usage + b"data: [DONE]\n\n", choices=1, hides_usage=hides_usage)
    assert (usage in join(events)) is not hides_usage
    assert type(events[-1]) is Finish
    assert events[-1].usage is not None
    assert events[-1].usage["completion_tokens"] == 2


def test_pictures_of_a_stream_are_counted() -> None:
    data = b'data: {"type": "image_edit.partial_image"}\n\ndata: {"type": "image_edit.completed"}\n\n'
    end = read(data)[-1]
    assert type(end) is Finish
    assert end.usage == {"images": 1}


def test_a_stream_without_any_event_fails() -> None:
    assert type(read(b"")[-1]) is Failed


def test_choices_that_cannot_be_read_are_none() -> None:
    assert type(read(b'data: {"choices": 3}\n\n', choices=1)[-1]) is Failed


def test_a_stream_may_have_only_so_many_choices() -> None:
    data = b'data: {"choices": [' + b",".join(b'{"index": %d}' % n for n in range(10_001)) + b"]}\n\n"
    assert type(read(data, choices=1)[-1]) is Failed


def test_a_last_event_may_lack_its_empty_line_only_in_a_body_that_ended() -> None:
    data = chunk() + b"data: [DONE]"
    assert join(read(data, choices=1)) == data + b"\n\n"
    end = read(data, choices=1, fault=CUT_OFF)[-1]
    assert type(end) is Failed
    assert end.fault is CUT_OFF


def test_a_completion_that_has_come_to_its_end_may_be_cut_off() -> None:
    assert type(read(chunk(reason="stop"), choices=1, fault=CUT_OFF)[-1]) is Finish
    assert type(read(b'data: {"a": 1}\n\n', fault=CUT_OFF)[-1]) is Failed


def test_only_the_first_part_has_headers() -> None:
    assert [part.headers for part in read(chunk() * 3) if type(part) is AnswerPart] == [HEADERS, (), ()]


def test_an_event_that_is_too_long_ends_a_stream() -> None:
    (event,) = EventSplitter().feed(b"data: " + b"x" * MAX_EVENT_BYTES)
    (end,) = StreamedAnswer(HEADERS).feed([event])
    assert type(end) is Failed
    assert f"{MAX_EVENT_BYTES} bytes" in end.fault.message


def test_nothing_passes_after_a_failure() -> None:
    answer = StreamedAnswer(HEADERS)
    assert [type(event) for event in answer.feed([chunk(), MalformedData(b"", "broken"), chunk()])] == [
        AnswerPart,
        Failed,
    ]
    assert answer.feed([chunk()]) == []


def test_a_stream_shows_no_progress_beside_its_events() -> None:
    assert not StreamedAnswer(HEADERS).check_progress()
    assert StreamedAnswer(HEADERS).feed([]) == []
