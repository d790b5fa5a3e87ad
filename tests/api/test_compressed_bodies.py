"""Requests whose body is compressed: what is read, and what is refused, within the limits of any body."""

import gzip
import json
import zlib
from collections.abc import Iterator
from typing import Any

import pytest
import zstandard

from tests.each_case import each_case
from tests.in_process_gateway import SERVER, Answer, ModelServer, Running

MAX_BYTES = 400_000
USER = {"role": "user", "content": "Hi"}
BODIES: dict[str, Any] = {
    "/v1/chat": {"messages": [USER], "stream": False},
    "/v1/chat/completions": {"messages": [USER]},
    "/v1/messages": {"max_tokens": 9, "messages": [USER]},
    "/v1/messages/count_tokens": {"messages": [USER]},
    "/v1/responses": {"input": "Hi"},
    "/v1/responses/input_tokens": {"input": "Hi"},
    "/v1/convert": {"from": "openai", "to": "qwen", "messages": [USER]},
}
COMPRESS: dict[str, Any] = {
    "gzip": gzip.compress,
    "x-gzip": gzip.compress,
    "deflate": zlib.compress,
    "zstd": zstandard.compress,
    "ZSTD": zstandard.compress,
    "identity": bytes,
    "identity, gzip": gzip.compress,
    "": bytes,
}


@pytest.fixture(scope="module")
def gateway() -> Iterator[Running]:
    server = {"max_body_bytes": MAX_BYTES, "max_request_memory_bytes": 32 * 1024 * 1024}
    with Running({**SERVER, "server": server}, ModelServer()) as running:
        yield running


def ask(gateway: Running, path: str, data: bytes, encoding: str, pieces: int = 1) -> Answer:
    size = -(-len(data) // pieces)
    parts = [data[at : at + size] for at in range(0, len(data), size)]
    return gateway.ask("POST", path, parts, {"content-type": "application/json", "content-encoding": encoding})


def write_body(path: str, **more: Any) -> bytes:
    model = {} if path == "/v1/convert" else {"model": "m"}
    return json.dumps({**model, **BODIES[path], **more}).encode()


@each_case("path", BODIES)
def test_a_compressed_body_is_read_at_every_endpoint(path: str) -> None:
    with Running(SERVER, ModelServer()) as gateway:
        expected = ask(gateway, path, write_body(path), "").status
        for encoding, compress in COMPRESS.items():
            for pieces in (1, 5):
                answer = ask(gateway, path, compress(write_body(path)), encoding, pieces)
                assert answer.status == expected == 200, (encoding, answer.body)


def test_a_large_body_is_read_up_to_the_limit(gateway: Running) -> None:
    for size, status in ((300_000, 200), (500_000, 413), (50_000_000, 413)):
        body = write_body("/v1/chat", messages=[{"role": "user", "content": "a" * size}])
        for encoding in ("gzip", "deflate", "zstd"):
            answer = ask(gateway, "/v1/chat", COMPRESS[encoding](body), encoding)
            assert answer.status == status, (size, encoding, answer.body)
            if status == 413:
                assert answer.json["error"]["message"] == f"the body has more than {MAX_BYTES} bytes"


def test_the_memory_of_a_compressed_body_is_given_back(gateway: Running) -> None:
    for size in (300_000, 500_000):
        body = write_body("/v1/chat", messages=[{"role": "user", "content": "a" * size}])
        for _ in range(100):
            ask(gateway, "/v1/chat", gzip.compress(body), "gzip")
    assert gateway.context.budget.held_bytes == 0


@each_case("encoding", ["gzip", "deflate", "zstd"])
@each_case("data", [b"{}", b"", b"\x1f\x8b\x08", b"\x28\xb5\x2f\xfd"])
def test_a_body_that_is_not_what_it_says_is_an_error_of_the_request(encoding: str, data: bytes) -> None:
    with Running(SERVER, ModelServer()) as gateway:
        for path in ("/v1/chat", "/v1/messages", "/v1/responses"):
            answer = ask(gateway, path, data, encoding) if data else ask(gateway, path, b" ", encoding)
            assert (answer.status, answer.json["error"]["code"]) == (400, "invalid_request"), path


@each_case("encoding", ["br", "compress", "gzip, zstd", "zstd, gzip", "aes128gcm"])
def test_an_encoding_that_cannot_be_read_is_refused_with_those_that_can(encoding: str) -> None:
    with Running(SERVER, ModelServer()) as gateway:
        for path in BODIES:
            answer = ask(gateway, path, write_body(path), encoding)
            assert (answer.status, answer.headers["accept-encoding"]) == (415, "gzip, deflate, zstd"), path
            assert encoding in answer.json["error"]["message"]
