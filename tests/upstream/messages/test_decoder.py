"""Deltas of one text are decoded into a `TextPart`, and their reply is the same as that of any other objects."""

import json
from typing import Any

import pytest
from app.upstream.messages.assembler import MessageAssembler
from app.upstream.messages.decoder import decode, decode_kept, decode_object
from app.upstream.messages.objects import TextPart
from hypothesis import given
from hypothesis import strategies as st

from tests.each_case import each_case
from tests.upstream.messages.replies import Json, start, stop

DELTAS = (
    {"text": "a"},
    {"thinking": "b"},
    {"partial_json": '{"c":'},
    {"signature": "d"},
    {"text": None},
    {"text": " "},
)
TYPES = ("text_delta", "thinking_delta", "input_json_delta", "signature_delta", "other_delta", None)
BLOCKS = ("text", "thinking", "tool_use", "server_tool_use", "redacted_thinking")
delta = st.builds(
    lambda index, type_, fields: {"type": "content_block_delta", "index": index, "delta": {"type": type_, **fields}},
    st.integers(0, 2),
    st.sampled_from(TYPES),
    st.sampled_from(DELTAS),
)
begin = st.builds(
    lambda index, type_: {"type": "content_block_start", "index": index, "content_block": {"type": type_, "name": "f"}},
    st.integers(0, 2),
    st.sampled_from(BLOCKS),
)
end = st.builds(lambda index: {"type": "content_block_stop", "index": index}, st.integers(0, 2))


@given(st.lists(begin | end | delta | delta, max_size=12))
def test_a_reply_is_the_same_whether_its_deltas_are_text_parts_or_not(middle: list[Json]) -> None:
    events = [json.dumps(one).encode() for one in (start(), *middle, *stop())]
    assert MessageAssembler("r").feed(list(map(decode, events))) == MessageAssembler("r").feed(
        list(map(decode_object, events))
    )


@each_case(
    ("value", "is_part"),
    [
        ({"type": "content_block_delta", "index": 1, "delta": {"type": "text_delta", "text": "a"}, "x": 1}, True),
        ({"type": "content_block_delta", "index": 1, "delta": {"type": "text_delta", "text": 5}}, False),
        ({"type": "content_block_delta", "delta": {"type": "text_delta", "text": "a"}}, False),
        ({"type": "content_block_delta", "index": 1, "delta": {"type": "signature_delta", "signature": "s"}}, False),
        ({"type": "content_block_delta", "index": 1, "delta": {"type": "text_delta"}, "data": "x"}, False),
        ({"type": "message_delta", "delta": {"stop_reason": "end_turn"}}, False),
    ],
)
def test_only_a_delta_of_one_text_is_a_text_part(value: Any, is_part: bool) -> None:
    data = json.dumps(value).encode()
    found = decode(data)
    assert (type(found) is TextPart) is is_part
    assert (found.data == data) if isinstance(found, TextPart) else (found == value)


@pytest.mark.parametrize("data", [b"[1]", b"5", b"{", b'{"a": %b}' % (b"[" * 300 + b"]" * 300)])
def test_what_is_no_object_or_too_deep_is_refused(data: bytes) -> None:
    with pytest.raises(ValueError):
        decode(data)


def test_an_object_is_kept_as_one_line() -> None:
    kept = decode_kept(b'{"a":\n "\xc3\xa9"}')
    assert not isinstance(kept, TextPart)
    assert kept.text == '{"a": "é"}'
