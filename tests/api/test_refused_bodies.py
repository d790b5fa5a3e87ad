"""A body that is refused has no effect on later requests, and what is no JSON is refused alike everywhere."""

import logging
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from agent_bodies import WRITERS, find_path, make_conversation

from tests.each_case import each_case
from tests.in_process_gateway import SERVER, ModelServer, Running

PATHS = (*WRITERS, "/v1/messages/count_tokens", "/v1/responses/input_tokens")
NO_JSON = (b"NaN", b"Infinity", b"-Infinity", b'{"a":[NaN]}', b'"\\ud8"', b"01", b"\xff", b"[" * 250 + b"]" * 250)


@pytest.fixture(scope="module")
def gateway() -> Iterator[Running]:
    settings: dict[str, Any] = {**SERVER, "state": {"url": "memory:"}}
    settings["upstreams"] = {**SERVER["upstreams"], "own": {"base_url": "http://own.test/v1", "api": "messages"}}
    settings["models"] = {**SERVER["models"], "own": {"upstreams": ["own"]}}
    with Running(settings, ModelServer()) as running:
        yield running


def write(path: str, rounds: int, model: str = "m") -> bytes:
    endpoint = path.removesuffix("/count_tokens").removesuffix("/input_tokens")
    return WRITERS[endpoint](make_conversation(rounds, 5), model)


def add(body: bytes, field: str, value: bytes) -> bytes:
    return body[:-1] + b',"%b":%b}' % (field.encode(), value)


@each_case("path", PATHS)
@each_case("value", NO_JSON)
def test_what_is_no_json_is_refused_and_the_next_request_is_answered(gateway: Running, path: str, value: bytes) -> None:
    answers = [
        gateway.post(find_path(path, "m"), raw).status
        for raw in (
            write(path, 6),
            add(write(path, 7), "x_unknown", value),
            add(write(path, 7), "metadata", value),
            write(path, 7),
            write(path, 8),
        )
    ]
    assert answers[0] == answers[3] == answers[4] == 200
    assert set(answers[1:3]) <= {400, 422}


@each_case("path", ["/v1/messages", "/v1/messages/count_tokens", "/v1/responses", "/v1/responses/input_tokens"])
@each_case("model", ["m", "own"])
@each_case(
    ("value", "place"),
    [
        (b"1e999", ""),
        (b"-1e999", ""),
        (b"9" * 30, ""),
        (b'{"a":[1,1e400]}', ".a[1]"),
        (b'{"a":1e400}', ".a"),
    ],
)
def test_a_number_that_no_server_could_be_sent_is_refused_in_any_field(
    gateway: Running, path: str, model: str, value: bytes, place: str
) -> None:
    for field in ("x_unknown", "service_tier"):
        answer = gateway.post(path, add(write(path, 1, model), field, value))
        assert answer.status in (400, 422)
        assert f"{field}{place}: must be a " in answer.body.decode()


@each_case("value", NO_JSON)
def test_what_is_no_json_is_refused_where_conversations_are_converted(gateway: Running, value: bytes) -> None:
    body = b'{"to":"openai","messages":[{"role":"user","content":"Hi","extra":{"a":%b}}]}' % value
    assert gateway.post("/v1/convert", body).status in (400, 422)


def test_a_defect_of_the_memory_is_a_line_in_the_log_without_content(
    gateway: Running, caplog: pytest.LogCaptureFixture
) -> None:
    def fail() -> None:
        raise KeyError("a secret of the body")

    with caplog.at_level(logging.WARNING, "parley.memory"):
        for _ in range(2):
            with pytest.raises(KeyError) as raised:
                fail()
            gateway.context.requests.report(raised.value)
    [record] = caplog.records
    assert "its body was read as a whole: KeyError in fail, line " in record.getMessage()
    assert "secret" not in caplog.text
    assert b'parley_request_memory_failures_total{error="KeyError"} 2.0' in gateway.get("/metrics").body


EQUAL = (b"1", b"true", b"1.0", b"0", b"false", b"0.0", b"-0.0", b'{"a":1,"b":2}', b'{"b":2,"a":1}')


def test_a_response_repeats_the_tools_of_its_own_request(gateway: Running) -> None:
    body = msgspec.json.decode(write("/v1/responses", 6))
    for value in EQUAL:
        tool = {"type": "function", "name": "f", "parameters": {"type": "object", "default": msgspec.Raw(value)}}
        answer = gateway.post("/v1/responses", msgspec.json.encode({**body, "tools": [tool], "stream": False}))
        assert answer.status == 200
        assert b'"default":%b}' % value in answer.body.replace(b" ", b"")
