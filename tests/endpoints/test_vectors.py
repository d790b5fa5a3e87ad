"""Vectors in base64 from a server that sends lists of numbers."""

import base64
import json
import struct
from collections.abc import Iterator
from typing import Any

import pytest
from app.chat.events import AnswerPart, Finish
from app.endpoints.answer import HELD_BYTES, AnswerOptions, make_answer_reader
from app.endpoints.vectors import MAX_VECTOR_BYTES, VectorEncoder

from tests.api.passing_gateway import Gateway, whole
from tests.cuts import bytewise
from tests.cuts import whole as uncut
from tests.each_case import each_case

VECTOR = [0.5, -0.25, 3, 1e-7]
USAGE = {"prompt_tokens": 2, "total_tokens": 2}


@pytest.fixture(scope="module")
def gateway() -> Iterator[Gateway]:
    with Gateway() as running:
        yield running


def encode(data: bytes, *, fine: bool = False) -> bytes:
    encoder = VectorEncoder()
    return b"".join([*(encoder.feed(part) for part in (bytewise(data) if fine else uncut(data))), encoder.close()])


def decode(value: Any) -> list[float]:
    packed = base64.b64decode(value, validate=True)
    return list(struct.unpack(f"<{len(packed) // 4}f", packed))


def answer_with(*vectors: Any) -> dict[str, Any]:
    rows = [{"object": "embedding", "index": at, "embedding": vector} for at, vector in enumerate(vectors)]
    return {"object": "list", "data": rows, "model": "up-e", "usage": USAGE}


@each_case("indent", [None, 1])
@each_case("fine", [False, True])
def test_lists_become_base64_and_all_else_stays(indent: int | None, fine: bool) -> None:
    answer = answer_with(VECTOR, [1.5])
    found = json.loads(encode(json.dumps(answer, indent=indent).encode(), fine=fine))
    vectors = [decode(row.pop("embedding")) for row in found["data"]]
    assert vectors == [pytest.approx(VECTOR), [1.5]]
    assert found == {**answer, "data": [{"object": "embedding", "index": at} for at in (0, 1)]}


@each_case(
    "data",
    [
        b'{"embedding": "AAAA"}',
        b'{"embedding": [[0.5], [1.5]]}',
        b'{"embedding": []}',
        b'{"embedding": [1, null]}',
        b'{"embedding": [1e300]}',
        b'{"text": "\\"embedding\\": [1]"}',
        b'{"embedding": {"float": [1]}}',
        b'{"embedding',
        b'{"embedding": [1, 2',
        b'{"embedding": [' + b"1," * (MAX_VECTOR_BYTES // 2) + b"1]}",
    ],
)
def test_what_is_no_vector_stays_as_it_came(data: bytes) -> None:
    assert encode(data) == data
    assert len(data) > 1000 or encode(data, fine=True) == data


def test_a_long_answer_is_passed_on_as_it_comes() -> None:
    data = json.dumps(answer_with(*[[0.5] * 1000] * 1000)).encode()
    reader = make_answer_reader([(b"content-type", b"application/json")], AnswerOptions("e", wants_base64=True))
    parts: list[bytes] = []
    held = 0
    for start in range(0, len(data), 65536):
        events = reader.assembler.feed(reader.events.feed(data[start : start + 65536]))
        held = start if not parts and not events else held
        parts += [event.data for event in events if type(event) is AnswerPart]
    last = reader.assembler.close()
    parts += [event.data for event in last if type(event) is AnswerPart]
    found = json.loads(b"".join(parts))
    assert held < 2 * HELD_BYTES
    assert type(last[-1]) is Finish
    assert {row["embedding"] for row in found["data"]} == {base64.b64encode(struct.pack("<f", 0.5) * 1000).decode()}


@each_case("path", ["/v1/embeddings", "/embeddings"])
def test_a_client_that_asks_for_base64_gets_it(gateway: Gateway, path: str) -> None:
    body = {"model": "e", "input": "a", "encoding_format": "base64"}
    answer = gateway.send(path, body, whole(answer_with(VECTOR)))
    assert gateway.sent[0][1] == {**body, "model": "up-e"}
    assert len(decode(answer.json["data"][0]["embedding"])) == 4
    assert answer.json["model"] == "e"
    assert int(answer.headers["content-length"]) == len(answer.body)


@each_case("given", [{}, {"encoding_format": "float"}, {"encoding_format": None}])
def test_other_clients_get_the_numbers_of_the_server(gateway: Gateway, given: dict[str, Any]) -> None:
    answer = gateway.send("/v1/embeddings", {"model": "e", "input": "a", **given}, whole(answer_with(VECTOR)))
    assert answer.json["data"][0]["embedding"] == VECTOR
