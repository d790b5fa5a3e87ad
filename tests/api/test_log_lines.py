"""One line a request, and nothing in it that was said."""

import io
import json
import logging
from typing import Any

import httpx
import pytest
from app.observe.logs import ConsoleFormatter, JsonFormatter, log_format

from tests.each_case import each_case
from tests.in_process_gateway import HELLO, STOP, ModelServer, Running, streamed

PROMPT, KEY, REPLY = "pr0mpt", "s3cret", "r3ply"
USAGE = b'data: {"choices":[],"usage":{"prompt_tokens":3,"completion_tokens":2}}\n\n'
SETTINGS = {
    "upstreams": {"local": {"base_url": "http://model.test/v1", "api_key": KEY, "headers": {"x-a": KEY}}},
    "models": {"m": {"upstreams": ["local"]}},
}


def log_of(
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
    return streamed(HELLO.replace(b"Hello", REPLY.encode()), STOP.replace(b"data: [DONE]", USAGE + b"data: [DONE]"))


def refusing(_: httpx.Request) -> httpx.Response:
    return httpx.Response(401, json={"error": {"message": f"bad key {KEY} for {PROMPT}"}})


def breaking(_: httpx.Request) -> httpx.Response:
    return streamed(HELLO.replace(b"Hello", REPLY.encode()))


def test_a_request_that_works_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    (line,) = log_of(chat(metadata={"user": "7"}), replying, capsys)
    assert line.pop("time")[10] == "T"
    assert line.pop("ms") >= line.pop("first_token_ms") >= 0
    assert line == {
        "level": "info",
        "logger": "parley.request",
        "message": "request",
        "request_id": "mine-1",
        "endpoint": "chat",
        "model": "m",
        "stream": True,
        "metadata": {"user": "7"},
        "status": 200,
        "cache": "bypass",
        "finish_reason": "stop",
        "prompt_tokens": 3,
        "completion_tokens": 2,
        "upstream": "local",
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
    (line,) = log_of(chat(stream=stream, **fields), answer, capsys)
    assert (line["request_id"], line["status"], line["error"]) == ("mine-1", status, code)


@pytest.mark.parametrize(("stream", "status"), [(True, 200), (False, 502)])
def test_a_reply_that_breaks_is_one_line(stream: bool, status: int, capsys: pytest.CaptureFixture[str]) -> None:
    (line,) = log_of(chat(stream=stream), breaking, capsys)
    assert (line["status"], line["error"]) == (status, "upstream_incomplete")


@pytest.mark.parametrize("body", [b"pr0mpt", b'{"pr0mpt', b" " * 2000])
def test_a_body_that_cannot_be_read_is_one_line(body: bytes, capsys: pytest.CaptureFixture[str]) -> None:
    settings = {**SETTINGS, "server": {"max_body_bytes": 1024}}
    (line,) = log_of(body, replying, capsys, settings)
    assert (line["status"], line["error"]) in [(400, "invalid_request"), (413, "too_large")]


def test_above_info_requests_are_not_logged(capsys: pytest.CaptureFixture[str]) -> None:
    assert log_of(chat(), replying, capsys, {**SETTINGS, "server": {"log_level": "warning"}}) == []


def test_a_line_is_one_line_whatever_it_says() -> None:
    record = logging.LogRecord("parley.x", logging.ERROR, "", 0, "a\nb\r\n%s", ("c",), None)
    record.fields = {"metadata": {"x": "d\ne"}}
    assert "\n" not in JsonFormatter().format(record)
    assert json.loads(JsonFormatter().format(record))["message"] == "a\nb\r\nc"


def test_a_defect_keeps_its_traceback_on_the_line() -> None:
    try:
        raise ValueError("x")
    except ValueError as error:
        info = (type(error), error, error.__traceback__)
    record = logging.LogRecord("parley.x", logging.ERROR, "", 0, "defect", (), info)
    assert "ValueError: x" in json.loads(JsonFormatter().format(record))["exception"]


HOSTILE = "".join(map(chr, [*range(0x20), *range(0x7F, 0xA0), 0x2028, 0x2029, 0x202E, 0x2066, 0xD800, 0xDFFF]))


def a_record(message: str = "request", **fields: Any) -> logging.LogRecord:
    record = logging.LogRecord("parley.x", logging.INFO, "", 0, "%s", (message,), None)
    record.fields = fields
    return record


@each_case("formatter", [JsonFormatter(), ConsoleFormatter(color=False)])
@each_case("character", HOSTILE)
def test_no_line_holds_a_control_character(formatter: logging.Formatter, character: str) -> None:
    line = formatter.format(a_record(character, metadata={f"k{character}": [character]}, **{character: character}))
    assert character not in line
    assert line.encode().decode() == line


@each_case("character", HOSTILE)
def test_an_escaped_character_is_read_back_as_it_was(character: str) -> None:
    assert json.loads(JsonFormatter().format(a_record(character)))["message"] == character


@each_case(
    "value",
    [
        "x" * 20_000_000,
        dict.fromkeys(map(str, range(10_000)), "x" * 100_000),  # one text of them all: each its own took 1 GB
        {"x" * 1_000_000: "y"},
        [["x" * 10_000] * 1000] * 100,
        {"a": {"b": {"c": {"d": ["x"] * 10_000}}}},
        10**4000,
    ],
    ids=["text", "table", "key", "list", "deep", "number"],
)
@each_case("formatter", [JsonFormatter(), ConsoleFormatter(color=False)])
def test_a_line_is_short_whatever_a_caller_sends(formatter: logging.Formatter, value: Any) -> None:
    assert len(formatter.format(a_record("request", metadata=value))) < 200_000
    assert len(formatter.format(a_record("x" * 20_000_000))) < 10_000


def test_metadata_is_shortened_and_what_is_left_out_is_counted() -> None:
    metadata = {"long": "x" * 20_000, **{f"k{number}": "y" for number in range(100)}}
    line = json.loads(JsonFormatter().format(a_record("request", metadata=metadata)))
    assert line["metadata"]["long"].endswith("… (20000 characters)")
    assert line["metadata"]["…"] == "85 more"
    assert len(json.dumps(line)) < 2000


def test_what_cannot_be_json_is_written_as_text() -> None:
    line = JsonFormatter().format(a_record(a=float("nan"), b=float("inf"), c=10**100, d=object))
    assert "NaN" not in line and "Infinity" not in line
    assert json.loads(line)["d"] == "<class 'object'>"


def test_a_line_on_a_terminal_is_for_people() -> None:
    record = a_record("request", model="m", metadata={"user": "a b"}, stream=True, ms=1.5, path="/a=b")
    line = ConsoleFormatter(color=False).format(record)
    assert line[18:] == ' info    request  model=m metadata={"user": "a b"} stream=true ms=1.5 path="/a=b"'
    assert line[2] == line[5] == ":" and line[8] == "."


def test_a_traceback_on_a_terminal_is_indented_so_that_nothing_in_it_looks_like_a_line() -> None:
    record = logging.LogRecord(
        "parley.x", logging.ERROR, "", 0, "defect", (), (ValueError, ValueError("a\nb\x1b"), None)
    )
    first, *rest = ConsoleFormatter(color=False).format(record).split("\n")
    assert first.endswith("error   defect")
    assert rest == ["    ValueError: a", "    b\\u001b"]


@pytest.mark.parametrize(("level", "color"), [(logging.INFO, ""), (logging.WARNING, "33"), (logging.ERROR, "31")])
def test_colors_mark_what_matters(level: int, color: str) -> None:
    record = logging.LogRecord("parley.x", level, "", 0, "x", (), None)
    colored = ConsoleFormatter(color=True).format(record)
    assert (f"\x1b[{color}m{record.levelname.lower()}" in colored) == bool(color)
    assert "\x1b" not in ConsoleFormatter(color=False).format(record)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_the_format_follows_the_terminal_unless_it_is_set() -> None:
    assert log_format("auto", Terminal()) == "console"
    assert log_format("auto", io.StringIO()) == "json"
    assert log_format("json", Terminal()) == "json"
    assert log_format("console", io.StringIO()) == "console"


@pytest.mark.parametrize(
    ("method", "path", "status", "code"),
    [
        ("GET", "/v1/nowhere", 404, "not_found"),
        ("GET", "/v1/chat", 405, "method_not_allowed"),
        ("PUT", "/v1/models", 405, "method_not_allowed"),
        ("POST", "/v1/convert", 422, "invalid_request"),
        ("GET", "/v1/chat/nothing/events", 404, "not_found"),
        ("DELETE", "/v1/chat/nothing", 404, "not_found"),
        ("GET", "/v1/cache", 403, "permission"),
        ("GET", "/v1/models", 200, None),
    ],
)
def test_every_other_request_is_one_line_too(
    method: str, path: str, status: int, code: str | None, capsys: pytest.CaptureFixture[str]
) -> None:
    with Running(SETTINGS) as gateway:
        assert gateway.ask(method, f"{path}?q={PROMPT}", [b"{}"], {"x-request-id": "mine-1"}).status == status
    (line,) = map(json.loads, capsys.readouterr().err.splitlines())
    assert line.pop("ms") >= 0
    assert {name: line.get(name) for name in ("message", "request_id", "method", "path", "status", "error")} == {
        "message": "request",
        "request_id": "mine-1",
        "method": method,
        "path": path,
        "status": status,
        "error": code,
    }


@pytest.mark.parametrize(("level", "lines"), [("info", 0), ("debug", 2)])
def test_health_checks_that_succeed_are_lines_at_debug_only(
    level: str, lines: int, capsys: pytest.CaptureFixture[str]
) -> None:
    with Running({**SETTINGS, "server": {"log_level": level}}) as gateway:
        gateway.get("/healthz")
        gateway.get("/readyz")
    requests = [line for line in capsys.readouterr().err.splitlines() if '"message":"request"' in line]
    assert len(requests) == lines
