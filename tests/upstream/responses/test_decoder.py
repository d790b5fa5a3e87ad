"""Decoding one event of a Responses server."""

import pytest
from app.upstream.responses.decoder import decode
from app.upstream.responses.event import ResponseEvent

from tests.each_case import each_case


def test_an_event_has_the_fields_that_are_read_and_no_others() -> None:
    event = decode(
        b'{"type":"response.output_text.delta","delta":"a","output_index":1,"obfuscation":"xx","logprobs":[]}'
    )
    assert event == ResponseEvent("response.output_text.delta", "a", 1)


@each_case(
    ("data", "delta", "ragged"),
    [
        (b'{"type":"t","delta":"\\ud83d"}', "\ud83d", True),
        (b'{"type":"t","delta":"a\xff"}', "a\ufffd", False),
        (b'{"type":"t","delta":{"a":1}}', None, False),
    ],
)
def test_what_the_strict_decoder_refuses_is_read_leniently(data: bytes, delta: str | None, ragged: bool) -> None:
    event = decode(data)
    assert event is not None and (event.type, event.delta, event.ragged) == ("t", delta, ragged)


def test_an_item_keeps_no_half_of_a_surrogate_pair() -> None:
    event = decode(b'{"type":"t","output_index":2.0,"item":{"a":["\\ud83d"]}}')
    assert event is not None and event.item == {"a": ["\ufffd"]} and event.output_index == 2


def test_an_object_without_a_type_and_an_error_are_kept_whole() -> None:
    whole, error = decode(b'{"output":[],"a":1}'), decode(b'{"type":"error","code":"x"}')
    assert whole is not None and whole.whole == {"output": [], "a": 1}
    assert error is not None and error.whole == {"type": "error", "code": "x"}


def test_json_that_is_no_object_is_nothing_and_too_deep_json_is_an_error() -> None:
    assert decode(b"[1]") is None and decode(b"7") is None
    with pytest.raises(ValueError, match="nested"):
        decode(b'{"type":"t","item":' + b'{"a":' * 300 + b"1" + b"}" * 301)
