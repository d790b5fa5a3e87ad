"""Chunks are decoded the quick way only where that gives what the slow way gives."""

import json
from typing import Any

import msgspec
import pytest
from app.chat.events import ReasoningDelta, TextDelta
from app.upstream.chat_completions.chunk_decoder import ChunkDecoder, decode
from app.upstream.reply.chunk import Chunk, ChunkText, FunctionFragment, ToolCallFragment
from app.upstream.reply.sse import EventReader
from app.upstream.reply.usual_decoder import MIN_WAIT

from tests.each_case import each_case

Json = dict[str, Any]


def chunk(delta: Json) -> bytes:
    return json.dumps({"id": "x", "choices": [{"index": 0, "delta": delta}], "usage": None}).encode()


def call(text: str, **more: Any) -> Json:
    return {"tool_calls": [{"index": 0, "function": {"arguments": text, **more}}]}


def experienced(data: bytes) -> ChunkDecoder:
    """A decoder that has seen this chunk with other texts so often that it remembers what is around them."""
    decoder = ChunkDecoder()
    for number in range(MIN_WAIT):
        decoder.decode(data.replace(b'"a"', b'"%d"' % number))
    return decoder


@each_case(
    ("delta", "text"),
    [
        ({"content": "a"}, TextDelta("a")),
        ({"reasoning_content": "a"}, ReasoningDelta("a")),
        (call("a"), ToolCallFragment(0, function=FunctionFragment(arguments="a"))),
    ],
)
def test_the_text_of_a_chunk_like_earlier_ones_is_found(delta: Json, text: ChunkText) -> None:
    data = chunk(delta)
    assert ChunkDecoder().decode(data) == decode(data)
    decoder = experienced(data)
    assert decoder.decode(data) == text
    assert decoder.decode_event(b"data: %b\n\n" % data) == text


@each_case(
    "delta",
    [
        {"content": ""},
        {"content": None},
        {"content": 5},
        {"content": ["a"]},
        {"content": "a", "role": "assistant"},
        {"content": 'a", "refusal": "b'},
    ],
)
def test_another_chunk_is_decoded_as_a_whole(delta: Json) -> None:
    data = chunk(delta)
    found = experienced(chunk({"content": "a"})).decode(data)
    assert found == decode(data) or found == TextDelta(delta["content"])


@each_case("written", [rb'"\x"', b'"a" "b"', b'"\xff"', b"null", b'"'])
def test_what_is_no_string_is_not_taken_for_a_text(written: bytes) -> None:
    before, after = chunk({"content": "a"}).split(b'"a"')
    event = b"data: %b%b%b\n\n" % (before, written, after)
    assert experienced(before + b'"a"' + after).decode_event(event) is None


@each_case(
    "data",
    [
        b'{"x":{"content":"q"},"choices":[{"delta":{"c\\u006fntent":"a"}}]}',
        b'{"choices":[{"delta":{"content":"a"}}],"x":{"content":"a"}}',
        chunk(call("a", name="f")),
        b'{"choices":[{"delta":\n{"content":"a"}}]}',
    ],
    ids=["the only such key is elsewhere", "two such keys", "more than arguments", "two lines"],
)
def test_nothing_is_remembered_of_a_chunk_whose_text_could_be_elsewhere(data: bytes) -> None:
    decoder = experienced(data)
    for one in (data, data.replace(b'"q"', b'"r"')):
        assert decoder.decode_event(b"data: %b\n\n" % one) is None
        assert decoder.decode(one) == decode(one)


def test_what_the_text_is_filled_up_with_may_change() -> None:
    data = b'{"choices":[{"delta":{"content":"a"}}],"obfuscation":"%b"}'
    decoder = ChunkDecoder()
    for number in range(MIN_WAIT):
        decoder.decode(data.replace(b'"a"', b'"%d"' % number) % (b"x" * number))
    for filling in (b"", b"Qz", b"\xc3\xa9", b'\\"'):
        assert decoder.decode(data % filling) == TextDelta("a")
    for wrong in (b"\t", b"\\x", b'"'):
        with pytest.raises(ValueError):
            decoder.decode(data % wrong)


@each_case("data", [b"5", b"null", b"[]", b"[1]", b'" "', b'"[DONE]"'])
def test_json_that_holds_no_object_is_no_chunk(data: bytes) -> None:
    assert decode(data) is None


def test_json_that_is_nested_too_deeply_is_refused() -> None:
    with pytest.raises(ValueError, match="nested too deeply"):
        decode(b'{"x":' + b"[" * 5000 + b"]" * 5000 + b"}")


def test_many_events_of_one_read_are_decoded_together() -> None:
    data = chunk({"content": "a"})
    decoder = experienced(data)
    reader: EventReader[Chunk | ChunkText | None] = EventReader(decoder.decode, decoder)
    reader.feed(b": ping\n\n")
    texts = [f"t{number}" for number in range(5)]
    body = b"".join(b"data: %b\n\n" % data.replace(b'"a"', msgspec.json.encode(text)) for text in texts)
    assert reader.feed(body + b"data: [DONE]\n\n")[:5] == [TextDelta(text) for text in texts]
