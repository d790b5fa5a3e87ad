"""Server-sent events as servers write them, correct or not."""

from itertools import pairwise
from typing import Any

import msgspec
import pytest
from app.upstream.reply.sse import DONE, MAX_EVENT_BYTES, ErrorEvent, EventReader, MalformedData
from hypothesis import given
from hypothesis import strategies as st

from tests.each_case import each_case


def read(*lines: str) -> list[Any]:
    reader = EventReader(msgspec.json.decode)
    return reader.feed("".join(f"{line}\n" for line in lines).encode())


def test_an_event_that_is_larger_than_any_reply_is_malformed() -> None:
    reader = EventReader(msgspec.json.decode)
    (found,) = reader.feed(b"data: " + b"x" * MAX_EVENT_BYTES)
    assert isinstance(found, MalformedData)
    assert str(MAX_EVENT_BYTES).encode() in found.data


@pytest.mark.parametrize("lines", [["event: error"], ["event: error", "data:  "]])
def test_an_error_that_says_nothing_is_none(lines: list[str]) -> None:
    assert read(*lines, "") == []


def test_data_that_is_no_error_after_all_is_read_line_by_line() -> None:
    assert read("event: error", 'data: {"a":1}', "data:  ", 'data: {"b":2}', "event: message", "") == [
        {"a": 1},
        {"b": 2},
    ]
    assert read("event: error", "data: [DONE]", "event: message", "") == [DONE]


def test_data_of_an_error_is_one_error() -> None:
    (found,) = read("event: error", "data: no", "data: way", "")
    assert isinstance(found, ErrorEvent)
    assert found.data == b"no\nway"


def test_a_line_that_is_no_json_is_malformed_and_the_next_one_is_read() -> None:
    found, after = read("data: {", 'data: {"b":2}', "")
    assert isinstance(found, MalformedData)
    assert (found.data, after) == (b"{", {"b": 2})


@each_case(
    ("lines", "found"),
    [
        (['data: data: {"a": 1}', "", "data: data:data: [DONE]", ""], [{"a": 1}, DONE]),
        (["data: : ping", "", 'data: {"a": 1}', ""], [{"a": 1}]),
        (["data: event: message", "data: id: 5", "data: retry:1", 'data: data: {"a": 1}', ""], [{"a": 1}]),
        (["data: data:", ""], []),
    ],
)
def test_a_line_that_was_framed_twice_is_read(lines: list[str], found: list[Any]) -> None:
    assert read(*lines) == found


lines = st.sampled_from(
    [b'data: {"a": 1}\n\n', b'data: {"b": 2}\r\n\r\n', b'data: {"c":\n', b"data: 3}\n", b"\n", b"\r", b"event: error\n"]
    + [b'event: x\ndata: {"f": 5}\n\n', b'event: x.failed\ndata: {"g": 6}\n\n', b"event: x\n", b'data: {"h": 7}\n']
    + [b": ping\n\n", b'{"d": 4}\n', b"{\n", b"}\n\n", b"\xef\xbb\xbf", b'data: {"e": "\r"}\n\n', b"data: [DONE]\n\n"]
)


@given(st.lists(lines, max_size=8).map(b"".join), st.lists(st.integers(0, 80), max_size=6))
def test_any_cut_of_a_body_gives_the_same_values(body: bytes, places: list[int]) -> None:
    cuts = sorted({0, len(body), *(place for place in places if place < len(body))})
    parts = [body[start:end] for start, end in pairwise(cuts)]
    assert read_parts(parts) == read_parts([body]) == read_parts([body[at : at + 1] for at in range(len(body))])


def read_parts(parts: list[bytes]) -> Any:
    reader = EventReader(msgspec.json.decode)
    items = [item for part in parts for item in reader.feed(part)] + reader.close(clean=True)
    shown = [item if isinstance(item, dict | int) else (type(item), getattr(item, "data", b"")) for item in items]
    ends = [place for place, item in enumerate(shown) if isinstance(item, tuple)]
    return shown[: ends[0] + 1] if ends else shown, ends and None or reader.junk


def test_an_error_is_told_by_its_name_after_events_of_other_names() -> None:
    reader = EventReader(msgspec.json.decode)
    usual, failed = b'event: x.delta\ndata: {"a":1}\n\n', b'event: x.failed\ndata: {"b":2}\n\n'
    for body in (usual, usual + usual):
        assert all(item == {"a": 1} for item in reader.feed(body))
    for body in (failed, usual + failed):
        *_, error = reader.feed(body)
        assert isinstance(error, ErrorEvent)
        assert error.data == b'{"b":2}'


def test_the_data_of_a_named_event_may_have_several_lines() -> None:
    reader = EventReader(msgspec.json.decode)
    assert reader.feed(b'event: x\ndata: {"a":1}\n\n') == [{"a": 1}]
    assert reader.feed(b'event: x\ndata: {"a":\ndata: 2}\n\n') == [{"a": 2}]
    assert reader.feed(b'event: x\ndata: {"a":3}\nid: 4\n\nevent: x\ndata: {"a":4}\n\n') == [{"a": 3}, {"a": 4}]


def test_a_byte_order_mark_is_skipped_only_at_the_start() -> None:
    marked = b'\xef\xbb\xbfdata: {"a":1}\n\n'
    for parts in ([marked + marked], [marked[:2], marked[2:] + marked], [marked, marked]):
        assert read_parts(parts)[0] == [{"a": 1}]
    assert read_parts([b'data: {"b":2}\n\n', marked])[0] == [{"b": 2}]


def test_a_document_without_an_end_is_malformed() -> None:
    reader = EventReader(msgspec.json.decode)
    assert reader.feed(b'{\n"a":\n') == []
    (found,) = reader.close(clean=True)
    assert isinstance(found, MalformedData)
    assert found.data == b'{\n"a":'


@pytest.mark.parametrize(
    ("body", "errors", "junk"),
    [
        *((beginning, [], b"") for beginning in (b"eve", b"event: error\nda", b": ping\n\nret", b"\xef\xbb")),
        (b"Bad Gate", [], b"Bad Gate"),
        (b'event: error\ndata: {"message": "n', [], b""),
        (b'event: error\ndata: {"message": "no"}', [b'{"message": "no"}'], b""),
        (b"event: error\ndata: no wa", [b"no wa"], b""),
    ],
)
def test_the_beginning_of_a_field_or_of_an_error_is_nothing(body: bytes, errors: list[bytes], junk: bytes) -> None:
    reader = EventReader(msgspec.json.decode)
    found = reader.feed(body) + reader.close(clean=True)
    assert [item.data for item in found if isinstance(item, ErrorEvent)] == errors
    assert (len(found), reader.junk) == (len(errors), junk)


def test_a_line_end_between_two_reads_is_one_line_end() -> None:
    reader = EventReader(msgspec.json.decode)
    parts = [b'data: {"a":1}\r', b"\n", b"\r", b"\n", b'data: {"b":2}\r\n\r\n']
    assert [item for part in parts for item in reader.feed(part)] == [{"a": 1}, {"b": 2}]


def test_blank_lines_between_events_are_nothing() -> None:
    reader = EventReader(msgspec.json.decode)
    reader.feed(b": ping\n\n")
    assert reader.feed(b'data: {"a":1}\n\n\n\ndata: {"b":2}\n\n\n\n') == [{"a": 1}, {"b": 2}]
