"""JSON values of replies of the Gemini API become chunks."""

import json
from typing import Any

import pytest
from app.upstream.gemini.decoder import decode

from tests.each_case import each_case
from tests.upstream.gemini.replies import chunk, read, read_told, write_stream

Json = dict[str, Any]


def tell(*chunks: Json) -> Json:
    return read_told(read(write_stream(*chunks)))


def test_a_list_of_chunks_is_the_same_reply() -> None:
    chunks = [chunk({"text": "a"}), chunk({"text": "b"}, end="STOP", usage={"promptTokenCount": 1})]
    data = b"[" + b",\r\n".join(json.dumps(one).encode() for one in chunks) + b"]"
    assert read_told(read(data, 3)) == tell(*chunks)


def test_half_a_character_is_no_error() -> None:
    data = b'data: {"candidates": [{"content": {"parts": [{"text": "\\ud83d"}]}, "finishReason": "STOP"}]}\n\n'
    assert read_told(read(data))["message"] == {"content": "\ufffd"}


@each_case(("data", "values"), [(b"1", []), (b'""', []), (b'"busy"', [{"message": "busy"}])])
def test_what_is_no_object_says_nothing_or_is_a_message(data: bytes, values: list[object]) -> None:
    assert decode(data) == values


@each_case("data", [b"[1]", b"{", b'{"a": "\\ud83d"', b"[" * 300 + b"]" * 300])
def test_anything_else_is_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match="."):
        decode(data)
