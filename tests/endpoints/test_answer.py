from typing import Any

from app.chat.events import AnswerPart, Event, Failed, Finish
from app.endpoints.answer import HELD_BYTES, AnswerOptions, make_answer_reader
from app.upstream.reply.sse import MalformedData

from tests.cuts import bytewise, whole
from tests.each_case import each_case

JSON = (b"Content-Type", b"application/json")
EVENTS = (b"content-type", b"text/event-stream; charset=utf-8")


def read(
    data: bytes, *headers: tuple[bytes, bytes], fine: bool = False, clean: bool = True, **options: Any
) -> list[Event]:
    reader = make_answer_reader(headers, AnswerOptions("e", **options))
    events: list[Event] = []
    for part in bytewise(data) if fine else whole(data):
        events += reader.assembler.feed(reader.events.feed(part))
        if reader.assembler.ended:
            return events
    events += reader.assembler.feed(reader.events.close(clean=clean))
    return events if reader.assembler.ended else events + reader.assembler.close()


def join(events: list[Event]) -> bytes:
    return b"".join([event.data for event in events if type(event) is AnswerPart])


def test_json_names_the_model_as_the_client_does() -> None:
    events = read(b'{"model": "up", "usage": {"prompt_tokens": 1, "total_tokens": 1}}', JSON)
    assert join(events) == b'{"model": "e", "usage": {"prompt_tokens": 1, "total_tokens": 1}}'
    assert type(events[0]) is AnswerPart
    assert (b"content-length", b"64") in events[0].headers
    assert type(events[-1]) is Finish
    assert events[-1].usage == {"prompt_tokens": 1, "completion_tokens": 0, "total_tokens": 1}


@each_case(
    ("data", "code"),
    [
        (b'{"data": [', "upstream_incomplete"),
        (b'{"data": [}', "upstream_protocol"),
        (b"<html><title>x</title>", "upstream_protocol"),
        (b"", "upstream_protocol"),
        (b'{"error": {"message": "the model is overloaded"}}', "overloaded"),
        (b'{"error": "batch size 64 > maximum allowed batch size 32"}', "server_error"),
        (b"[" * 100_000, "upstream_protocol"),
    ],
)
def test_json_that_is_no_answer_is_a_failure(data: bytes, code: str) -> None:
    events = read(data, JSON)
    assert [type(event) for event in events] == [Failed]
    assert type(events[0]) is Failed
    assert events[0].fault.code == code


def test_an_empty_error_in_an_answer_is_none() -> None:
    assert type(read(b'{"data": [], "error": null}', JSON)[-1]) is Finish


def test_long_json_is_passed_on_before_its_end() -> None:
    data = b'{"data": ["' + b"x" * HELD_BYTES + b'"], "model": "up"}'
    reader = make_answer_reader([JSON], AnswerOptions("e"))
    assembler = reader.assembler
    assert not assembler.started
    assert assembler.feed([data[:20]]) == []
    assert assembler.check_progress()
    (part,) = assembler.feed([data[20:-5]])
    (rest,) = assembler.feed([data[-5:]])
    assert join([part, rest]) == data.replace(b'"up"', b'"e"')
    assert assembler.feed([]) == []
    assert [type(event) for event in assembler.close()] == [Finish]


def test_long_json_that_is_cut_off_fails() -> None:
    events = read(b'{"data": ["' + b"x" * HELD_BYTES, JSON)
    assert [type(event) for event in events] == [AnswerPart, Failed]


@each_case("fine", [False, True])
def test_bytes_pass_as_they_are(fine: bool) -> None:
    events = read(
        b"\x00\xff\n", (b"content-type", b"audio/mpeg"), (b"content-length", b"3"), fine=fine, needs_json=False
    )
    assert join(events) == b"\x00\xff\n"
    assert type(events[0]) is AnswerPart
    assert dict(events[0].headers) == {b"content-type": b"audio/mpeg", b"content-length": b"3"}
    assert type(events[-1]) is Finish


def test_an_empty_answer_has_headers() -> None:
    assert [type(event) for event in read(b"", (b"content-type", b"text/plain"), needs_json=False)] == [
        AnswerPart,
        Finish,
    ]
    assert [type(event) for event in read(b"", needs_json=False)] == [Finish]


def test_the_length_of_a_compressed_answer_is_not_passed_on() -> None:
    headers = ((b"content-type", b"audio/mpeg"), (b"content-encoding", b"gzip"), (b"content-length", b"3"))
    events = read(b"abc", *headers, needs_json=False)
    assert type(events[0]) is AnswerPart
    assert events[0].headers == ((b"content-type", b"audio/mpeg"),)


BROKEN = MalformedData(b"", "the model server sent a broken gzip body")


@each_case("headers", [(JSON,), (EVENTS,), ((b"content-type", b"audio/mpeg"),)])
def test_bytes_that_cannot_be_read_are_a_failure(headers: Any) -> None:
    assembler = make_answer_reader(headers, AnswerOptions("e", needs_json=False)).assembler
    events = assembler.feed([BROKEN])
    end = (events or assembler.close())[-1]
    assert type(end) is Failed
    assert "gzip" in end.fault.message


def test_bytes_tell_no_usage_and_no_progress() -> None:
    assembler = make_answer_reader([(b"content-type", b"audio/mpeg")], AnswerOptions("e", needs_json=False)).assembler
    assert (assembler.read_usage(), assembler.check_progress()) == (None, False)
    assert not make_answer_reader([EVENTS], AnswerOptions("e")).assembler.check_progress()


def test_the_answer_of_another_model_has_its_name() -> None:
    assert AnswerOptions("e").for_model("f").model == "f"


def test_json_that_is_nested_too_deeply_is_no_answer() -> None:
    end = read(b"[" * 100_000 + b"]" * 100_000, JSON)[-1]
    assert type(end) is Failed
    assert end.fault.code == "upstream_protocol"
