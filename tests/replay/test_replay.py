"""Reports that are played back: in front of a scripted model server, the gateway answers as it did."""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from app.cli import main
from app.replay.report import ReportError, make_settings, read_report

from tests.each_case import each_case
from tests.in_process_gateway import HELLO, STOP, ModelServer, streamed
from tests.replay.recorded_report import record
from tests.restored_logging import restored_logging

CALL = (
    b'data: {"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"c1","type":"function","function":'
    b'{"name":"f","arguments":"{\\"a\\":"}}]}}]}\n\n'
    b'data: {"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":" 1}"}}]}}]}\n\n'
    b'data: {"choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]}\n\ndata: [DONE]\n\n'
)
TOOLS = [{"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": {}}}}]
QUESTION = {"model": "m", "messages": [{"role": "user", "content": "I am alice@example.com"}]}


@pytest.fixture(autouse=True)
def keep_logging() -> Iterator[None]:
    """A gateway in this process configures the log."""
    with restored_logging():
        yield


@each_case(
    ("url", "body"),
    [
        ("/v1/chat", {"stream": True}),
        ("/v1/chat", {"stream": False, "reply_format": "autogen"}),
        ("/v1/chat", {"stream": True, "reply_format": "agentscope2"}),
        ("/v1/chat/completions", {"stream": True, "model": "mm"}),
        ("/v1/chat/completions", {"stream": False}),
        ("/v1/messages", {"stream": True, "max_tokens": 10}),
        ("/v1/responses", {"stream": True}),
        ("/v1/responses", {"stream": False}),
    ],
)
def test_the_report_of_any_request_gives_the_same_frames(url: str, body: Any, tmp_path: Path, capsys: Any) -> None:
    request = {**QUESTION, **body}
    if url == "/v1/responses":
        request["input"] = request.pop("messages")
    file = record(tmp_path, ModelServer(lambda _: streamed(HELLO, HELLO, STOP)), url, request)
    capsys.readouterr()
    status = main(["replay", str(file)])
    said = capsys.readouterr().out
    assert (status, said) == (0, "the response is the same\n"), said


@each_case(
    ("answer", "more"),
    [
        (lambda _: streamed(CALL), {"tools": TOOLS}),
        (lambda _: httpx.Response(500, json={"error": {"message": "broken"}}), {}),
        (lambda _: httpx.Response(400, json={"error": {"message": "context length exceeded"}}), {}),
        (lambda _: streamed(HELLO), {}),
        (lambda _: streamed(HELLO, b"data: {broken\n\n"), {}),
        (lambda _: streamed(b"data: [DONE]\n\n"), {}),
        (lambda _: streamed(HELLO[:20], HELLO[20:], STOP), {}),
        (
            lambda _: streamed(
                'data: {"choices":[{"delta":{"content":"h\u00e9"}}]}\n\n'.encode()[:41], b'\xa9"}}]}\n\n', STOP
            ),
            {},
        ),
    ],
)
def test_faults_of_a_model_server_give_the_same_frames(answer: Any, more: Any, tmp_path: Path, capsys: Any) -> None:
    for stream in (True, False):
        body = {**QUESTION, **more, "stream": stream}
        file = record(tmp_path, ModelServer(answer), "/v1/chat/completions", body)
        capsys.readouterr()
        assert main(["replay", str(file)]) == 0, capsys.readouterr().out


def test_a_server_that_failed_before_another_one_answered_fails_again(tmp_path: Path, capsys: Any) -> None:
    def answer(request: httpx.Request) -> httpx.Response:
        return httpx.Response(503) if request.url.host == "first.test" else ModelServer.short_reply()

    settings = {
        "upstreams": {"a": {"base_url": "http://first.test/v1"}, "b": {"base_url": "http://second.test/v1"}},
        "models": {"m": {"upstreams": [{"name": "a", "priority": 1}, {"name": "b", "priority": 2}]}},
    }
    file = record(tmp_path, ModelServer(answer), "/v1/chat/completions", {**QUESTION, "stream": True}, **settings)
    report = json.loads(file.read_text())
    assert [(one["upstream"], one["reply"]["status"]) for one in report["exchanges"]] == [("a", 503), ("b", 200)]
    capsys.readouterr()
    assert main(["replay", str(file)]) == 0, capsys.readouterr().out


def test_the_first_frame_that_differs_is_named(tmp_path: Path, capsys: Any) -> None:
    file = record(tmp_path, ModelServer(), "/v1/chat/completions", {**QUESTION, "stream": True})
    report = json.loads(file.read_text())
    report["exchanges"][0]["reply"]["reads"][0][1] = HELLO.decode().replace("Hello", "Hallo")
    file.write_text(json.dumps(report))
    capsys.readouterr()
    assert main(["replay", str(file)]) == 1
    said = capsys.readouterr().out
    assert "differs at choices[0].delta.content" in said
    assert "Hello" in said.split("now:")[0]
    assert "Hallo" in said.split("now:")[1]


def test_another_status_is_named(tmp_path: Path, capsys: Any) -> None:
    file = record(tmp_path, ModelServer(), "/v1/chat/completions", QUESTION)
    report = json.loads(file.read_text())
    report["exchanges"][0]["reply"]["status"] = 400
    file.write_text(json.dumps(report))
    assert main(["replay", str(file)]) == 1
    assert "the status differs: 200 in the report, 400 now" in capsys.readouterr().out


def test_a_report_has_no_key_no_address_no_caller_and_no_personal_data(tmp_path: Path) -> None:
    log = {"keep": "all", "content": "full", "url": f"sqlite:///{tmp_path}/requests.db"}
    body = {**QUESTION, "user": "key-of-the-upstream", "stream": True}
    text = record(tmp_path, ModelServer(), "/v1/chat/completions", body, request_log=log).read_text()
    for secret in ("key-of-the-upstream", "model.test", "alice", "admin"):
        assert secret not in text
    assert "[EMAIL]" in text


@each_case(
    ("change", "words"),
    [
        ({"parley_report": 2}, "is of version 2"),
        ({"client": 1}, "is no report"),
        ({"models": {"m": {"profile": {"unknown": 1}}}}, "cannot be used with this version"),
        ({"models": {"m": {"profile": {"inline_think": "never"}}}}, "cannot be used with this version"),
    ],
)
def test_what_is_no_report_is_refused(change: Any, words: str, tmp_path: Path) -> None:
    file = record(tmp_path, ModelServer(), "/v1/chat", QUESTION)
    file.write_text(json.dumps({**json.loads(file.read_text()), **change}))
    with pytest.raises(ReportError, match=words):
        make_settings(read_report(file), {"local": "http://127.0.0.1:1/v1"})
    assert main(["replay", str(file)]) == 2


def test_settings_that_no_report_has_are_not_taken(tmp_path: Path) -> None:
    file = record(tmp_path, ModelServer(), "/v1/chat", QUESTION)
    report = json.loads(file.read_text())
    report["upstreams"]["local"] = {"base_url": "http://evil.test", "proxy": "http://evil.test"}
    report["models"]["m"]["profile"] = {"tokenizer": "/etc/passwd"}
    report["models"]["m"]["tools"] = ["shell"]
    file.write_text(json.dumps(report))
    settings = make_settings(read_report(file), {"local": "http://127.0.0.1:1/v1"})
    assert settings.upstreams["local"].url == "http://127.0.0.1:1/v1"
    assert settings.upstreams["local"].proxy is None
    assert settings.models["m"].profile == {}
    assert settings.models["m"].tools == ()


def test_a_log_with_figures_only_has_nothing_to_play(tmp_path: Path, capsys: Any) -> None:
    log = {"keep": "all", "content": "none", "url": f"sqlite:///{tmp_path}/requests.db"}
    file = record(tmp_path, ModelServer(), "/v1/chat", QUESTION, request_log=log)
    assert main(["replay", str(file)]) == 2
    assert "does not have the whole request" in capsys.readouterr().err


def test_a_file_that_is_not_there_is_named(tmp_path: Path, capsys: Any) -> None:
    assert main(["replay", str(tmp_path / "none.json")]) == 2
    assert "none.json" in capsys.readouterr().err


def test_another_gateway_is_asked(tmp_path: Path, capsys: Any) -> None:
    file = record(tmp_path, ModelServer(), "/v1/chat", QUESTION)
    assert main(["replay", str(file), "--against", "http://127.0.0.1:1"]) == 2
    assert "ConnectError" in capsys.readouterr().err


def test_the_model_servers_alone_are_served(tmp_path: Path) -> None:
    from app.replay.model_server import serving

    report = read_report(record(tmp_path, ModelServer(), "/v1/chat/completions", QUESTION))

    async def ask() -> list[bytes]:
        async with serving(report) as server, httpx.AsyncClient(trust_env=False) as client:
            url = f"{server.addresses['local']}/chat/completions"
            return [(await client.post(url, json={})).content for _ in range(2)]

    assert asyncio.run(ask()) == [HELLO + STOP] * 2
