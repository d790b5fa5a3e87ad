"""One line of JSON a request, and nothing in it that was said."""

import json
import logging
from typing import Any

import httpx
import pytest
from app.observe.logs import JsonLines

from tests.inprocess import SAID, STOP, ModelServer, Running, streamed

PROMPT, KEY, REPLY = "pr0mpt", "s3cret", "r3ply"
USAGE = b'data: {"choices":[],"usage":{"prompt_tokens":3,"completion_tokens":"x"}}\n\n'
SETTINGS = {
    "upstreams": {"local": {"base_url": "http://model.test/v1", "api_key": KEY, "headers": {"x-a": KEY}}},
    "models": {"m": {"upstreams": ["local"]}},
}


def asked(
    body: Any, answer: Any, capsys: pytest.CaptureFixture[str], settings: dict[str, Any] = SETTINGS
) -> list[dict[str, Any]]:
    """The log lines of one request."""
    headers = {"authorization": f"Bearer {KEY}", "x-request-id": "mine-1"}
    with Running(settings, ModelServer(answer)) as gateway:
        gateway.post("/v1/chat", body, headers)
    text = capsys.readouterr().err
    assert not any(secret in text for secret in (PROMPT, KEY, REPLY)), text
    return [json.loads(line) for line in text.splitlines()]


def chat(**fields: Any) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": PROMPT}], **fields}


def replying(_: httpx.Request) -> httpx.Response:
    return streamed(SAID.replace(b"Hello", REPLY.encode()), STOP.replace(b"data: [DONE]", USAGE + b"data: [DONE]"))


def refusing(_: httpx.Request) -> httpx.Response:
    return httpx.Response(401, json={"error": {"message": f"bad key {KEY} for {PROMPT}"}})


def breaking(_: httpx.Request) -> httpx.Response:
    return streamed(SAID.replace(b"Hello", REPLY.encode()))


def test_a_request_that_works_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    (line,) = asked(chat(metadata={"user": "7"}), replying, capsys)
    assert line.pop("time")[10] == "T"
    assert line.pop("ms") >= 0
    assert line == {
        "level": "info",
        "logger": "parley.request",
        "message": "request",
        "request_id": "mine-1",
        "face": "chat",
        "model": "m",
        "stream": True,
        "metadata": {"user": "7"},
        "status": 200,
        "cache": "bypass",
        "finish_reason": "stop",
        "prompt_tokens": 3,
    }


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize(
    ("fields", "answer", "status", "code"),
    [
        ({}, refusing, 502, "authentication"),
        ({"model": "x"}, replying, 404, "unknown_model"),
        ({PROMPT: PROMPT}, replying, 422, "invalid_request"),
        ({"generate_cfg": {"extra_body": {"model": PROMPT}}}, replying, 422, "invalid_request"),
    ],
)
def test_a_request_that_fails_is_one_line(
    fields: Any, answer: Any, status: int, code: str, stream: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    (line,) = asked(chat(stream=stream, **fields), answer, capsys)
    assert (line["request_id"], line["status"], line["error"]) == ("mine-1", status, code)


@pytest.mark.parametrize(("stream", "status"), [(True, 200), (False, 502)])
def test_a_reply_that_breaks_is_one_line(stream: bool, status: int, capsys: pytest.CaptureFixture[str]) -> None:
    (line,) = asked(chat(stream=stream), breaking, capsys)
    assert (line["status"], line["error"]) == (status, "upstream_incomplete")


@pytest.mark.parametrize("body", [b"pr0mpt", b'{"pr0mpt', b" " * 2000])
def test_a_body_that_cannot_be_read_is_one_line(body: bytes, capsys: pytest.CaptureFixture[str]) -> None:
    settings = {**SETTINGS, "server": {"max_body_bytes": 1024}}
    (line,) = asked(body, replying, capsys, settings)
    assert (line["status"], line["error"]) in [(400, "invalid_request"), (413, "too_large")]


def test_above_info_requests_are_not_logged(capsys: pytest.CaptureFixture[str]) -> None:
    assert asked(chat(), replying, capsys, {**SETTINGS, "server": {"log_level": "warning"}}) == []


def test_a_line_is_one_line_whatever_it_says() -> None:
    record = logging.LogRecord("parley.x", logging.ERROR, "", 0, "a\nb\r\n%s", ("c",), None)
    record.fields = {"metadata": {"x": "d\ne"}}
    assert "\n" not in JsonLines().format(record)
    assert json.loads(JsonLines().format(record))["message"] == "a\nb\r\nc"


def test_a_defect_keeps_its_traceback_on_the_line() -> None:
    try:
        raise ValueError("x")
    except ValueError as error:
        info = (type(error), error, error.__traceback__)
    record = logging.LogRecord("parley.x", logging.ERROR, "", 0, "defect", (), info)
    assert "ValueError: x" in json.loads(JsonLines().format(record))["exception"]
