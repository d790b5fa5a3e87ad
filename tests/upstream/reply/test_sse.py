"""Server-sent events as servers write them, correct or not."""

from typing import Any

import msgspec
import pytest
from app.upstream.reply.sse import DONE, MAX_EVENT_BYTES, ErrorEvent, EventReader, MalformedData


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


def test_a_line_that_is_no_json_ends_the_reading_of_its_event() -> None:
    (found,) = read("data: {", 'data: {"b":2}', "")
    assert isinstance(found, MalformedData)
    assert found.data == b"{"
