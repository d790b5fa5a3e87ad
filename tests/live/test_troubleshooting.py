"""Model servers that are down in each way, over sockets: what the caller and the log get is what the docs say."""

import asyncio
import contextlib
import json
import logging
import re
import ssl
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from app.config.settings import Settings
from app.observe import logs
from app.upstream import causes
from app.upstream.causes import Cause

from tests.certificates import certificate
from tests.live.gateway import DONE, end, say, serving, serving_with
from tests.live.raw_client import checked, reply_of
from tests.live.unreachable_server import unreachable
from tests.scripted_server import Reply, ScriptedServer

pytestmark = pytest.mark.anyio

PAGE = Path(__file__).parents[2] / "docs/operate/troubleshooting.md"
SECRET = "Zx9!plain/key"
HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n"
LOG = {"log_level": "warning", "commit_seconds": 30}


def documented(title: str) -> tuple[Any, Any]:
    """The caller's JSON and the log line under a heading of the page."""
    section = PAGE.read_text().partition(f"### {title}\n")[2].partition("\n#")[0]
    error_body, line = re.findall(r"```json\n(.*?)```", section, re.DOTALL)
    return json.loads(error_body), json.loads(line)


@contextlib.contextmanager
def logged() -> Iterator[list[dict[str, Any]]]:
    lines: list[dict[str, Any]] = []

    class Keeper(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            about = {"level": record.levelname.lower(), "logger": record.name, "message": record.getMessage()}
            lines.append(about | record.__dict__["fields"])

    keeper = Keeper()
    logs.log.addHandler(keeper)
    try:
        yield lines
    finally:
        logs.log.removeHandler(keeper)


@contextlib.asynccontextmanager
async def over_tls(context: ssl.SSLContext, scheme: str = "https") -> AsyncIterator[str]:
    def accept(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.close()

    server = await asyncio.start_server(accept, "127.0.0.1", 0, ssl=context)
    async with server:
        yield f"{scheme}://127.0.0.1:{server.sockets[0].getsockname()[1]}"


@contextlib.asynccontextmanager
async def nothing() -> AsyncIterator[str]:
    """A port where nothing listens any more."""
    async with ScriptedServer() as server:
        url = server.url
    yield url


@contextlib.asynccontextmanager
async def nowhere() -> AsyncIterator[str]:
    yield "http://model.invalid:8001"


@contextlib.asynccontextmanager
async def scripted(reply: Reply, scheme: str = "http") -> AsyncIterator[str]:
    async with ScriptedServer(reply) as server:
        yield server.url.replace("http:", f"{scheme}:")


async def failure(url: str, stream: bool = False, path: str = "/v1/chat", **row: Any) -> tuple[Any, dict[str, Any]]:
    """The caller's JSON and the line of the log."""
    row = {"first_token_seconds": 0.5, "connect_seconds": 0.5, "api_key": SECRET} | row
    with logged() as lines:
        async with serving(url, server=LOG, upstream_row=row) as gateway:
            _, raw = await reply_of(gateway.address, stream=stream, model="qwen3")
    (line,) = lines
    return json.loads(raw), line


def normal(value: Any) -> Any:
    """Without what differs each time."""
    text = re.sub(r"127\.0\.0\.1:\d+", "127.0.0.1:8001", json.dumps(value))
    text = re.sub(r'"r1"', '"req-5a0c"', text)
    return json.loads(re.sub(r'"ms": [0-9.]+', '"ms": 1.0', text))


async def test_what_the_docs_say_of_a_server_that_is_down_is_true() -> None:
    async with nothing() as url:
        error_body, line = await failure(url)
    assert (normal(error_body), normal(line)) == documented("Nothing listens there")
    assert SECRET not in json.dumps([error_body, line])


def down(word: str, folder: Path) -> contextlib.AbstractAsyncContextManager[str]:
    match word:
        case "connection_refused":
            return nothing()
        case "name_not_found":
            return nowhere()
        case "tls_unknown_issuer":
            return over_tls(certificate(folder, "IP:127.0.0.1"))
        case "first_byte_timeout":
            return scripted(Reply(hold=asyncio.Event()))
        case _:
            return scripted(Reply([], status=None, abrupt=True))


@pytest.mark.parametrize(
    ("word", "code", "status", "retryable"),
    [
        ("connection_refused", "server_error", 502, True),
        ("name_not_found", "server_error", 502, True),
        ("tls_unknown_issuer", "server_error", 502, False),
        ("first_byte_timeout", "timeout", 504, True),
        ("connection_reset", "upstream_incomplete", 502, True),
    ],
)
async def test_the_error_of_a_server_that_is_down_names_the_cause_and_not_its_address(
    word: str, code: str, status: int, retryable: bool, tmp_path: Path
) -> None:
    async with down(word, tmp_path) as url:
        error_body, line = await failure(url, connect_seconds=5)
    error = error_body["error"]
    assert (error["code"], error["status"], error["retryable"]) == (code, status, retryable)
    assert (error["upstream"]["cause"], line["cause"], line["attempts"][-1]["cause"]) == (word, word, word)
    assert not re.search(r"127\.0\.0\.1|\.invalid|:\d{4}|/v1", json.dumps(error_body))
    assert SECRET not in json.dumps([error_body, line])


def test_the_docs_list_every_cause() -> None:
    known = [cause for cause in vars(causes).values() if isinstance(cause, Cause)]
    table = PAGE.read_text().partition("\n## Causes\n")[2]
    rows = re.findall(r"^\| `(\w+)` \| (.*?) \| (.*?) \|$", table, re.MULTILINE)
    assert rows == [(cause.word, cause.text, cause.advice) for cause in known]


@pytest.mark.parametrize(
    ("word", "name", "expired"),
    [("tls_certificate_expired", "IP:127.0.0.1", True), ("tls_host_name_mismatch", "DNS:other.example", False)],
)
async def test_the_error_of_a_refused_certificate_names_the_reason(
    word: str, name: str, expired: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    context = certificate(tmp_path, name, expired=expired)
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "server.pem"))
    async with over_tls(context) as url:
        error_body, line = await failure(url, connect_seconds=5)
    assert (error_body["error"]["upstream"]["cause"], line["cause"]) == (word, word)


async def test_a_server_without_tls_has_its_own_error() -> None:
    def accept(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        writer.close()

    async with await asyncio.start_server(accept, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        error_body, _ = await failure(f"https://127.0.0.1:{port}", connect_seconds=5)
    assert error_body["error"]["upstream"]["cause"] == "tls_not_spoken"


async def test_a_server_that_expects_tls_has_its_own_error(tmp_path: Path) -> None:
    async with over_tls(certificate(tmp_path, "IP:127.0.0.1"), "http") as url:
        error_body, _ = await failure(url)
    assert error_body["error"]["upstream"]["cause"] in ("tls_expected", "connection_reset", "closed_without_answer")


@pytest.mark.parametrize(
    ("reply", "word"),
    [
        (Reply([], status=None), "closed_without_answer"),
        (Reply([b"SSH-2.0-OpenSSH\r\n\r\n"], status=None), "protocol_error"),
        (Reply([b"\x15\x03\x01\x00\x02\x02\x46"], status=None), "tls_expected"),
        (Reply([HEAD + b"content-length: 900\r\n\r\n" + say("half")], status=None), "closed_early"),
        (Reply([say("half")]), "reply_not_finished"),
        (Reply([say("half")], abrupt=True), "connection_reset"),
        (Reply([b'data: {"error": {"message": "out of memory"}}\n\n']), "error_in_reply"),
        (Reply([b"<html>"]), "not_a_reply"),
        (Reply([b"{}"], status=500, headers={"content-length": "2"}), "error_status"),
    ],
)
@pytest.mark.parametrize("stream", [True, False])
async def test_each_failure_is_reported_with_name_and_cause(reply: Reply, word: str, stream: bool) -> None:
    with logged() as lines:
        async with ScriptedServer(reply) as server, serving(server, server=LOG) as gateway:
            status, raw = await reply_of(gateway.address, stream=stream)
            address = f"{server.url}/v1"
    error = checked(raw)[-1].data["error"] if stream and status == 200 else json.loads(raw)["error"]
    assert (error["upstream"]["name"], error["upstream"]["cause"]) == ("local", word)
    (line,) = lines
    assert (line["level"], line["upstream"], line["cause"]) == ("warning", "local", word)
    assert (line["address"], line["attempts"][-1]["cause"]) == (address, word)
    assert "out of memory" not in str(line)


async def test_a_connect_timeout_differs_from_a_slow_answer() -> None:
    async with unreachable() as url:
        error_body, line = await failure(url, connect_seconds=0.1)
    assert (error_body["error"]["upstream"]["cause"], line["cause"]) == ("connect_timeout", "connect_timeout")


async def test_a_server_that_another_one_stands_in_for_leaves_a_warning() -> None:
    async with nothing() as down, ScriptedServer(Reply([say("a"), end(), DONE])) as two:
        rows = {"one": {"base_url": f"{down}/v1"}, "two": {"base_url": f"{two.url}/v1"}}
        tree = {
            "upstreams": rows,
            "models": {"m": {"upstreams": ["one", {"name": "two", "priority": 2}]}},
            "server": LOG,
        }
        with logged() as lines:
            async with serving_with(Settings.model_validate(tree | {"cache": {"url": "null:"}})) as gateway:
                status, raw = await reply_of(gateway.address, stream=True)
    assert (status, checked(raw)[-1].type) == (200, "response.completed")
    (line,) = lines
    assert (line["level"], line["status"], line["upstream"], line["cause"]) == (
        "warning",
        200,
        "one",
        "connection_refused",
    )
    assert [(one["upstream"], one.get("cause")) for one in line["attempts"]] == [
        ("one", "connection_refused"),
        ("two", None),
    ]


async def test_a_request_that_the_server_refuses_is_no_warning() -> None:
    refusal = Reply([b'{"error": "bad"}'], status=400, headers={"content-length": "16"})
    with logged() as lines:
        async with ScriptedServer(refusal) as server, serving(server, server=LOG) as gateway:
            await reply_of(gateway.address)
    assert lines == []


async def test_every_caller_of_one_call_gets_the_same_error() -> None:
    gate = asyncio.Event()
    cut = Reply([say("a")], hold=gate)
    tree: dict[str, Any] = {"server": LOG, "models": {"m": {"upstreams": ["local"]}}}
    async with ScriptedServer(cut) as server:
        address = f"{server.url}/v1"
        tree["upstreams"] = {"local": {"base_url": address}}
        with logged() as lines:
            async with serving_with(Settings.model_validate(tree | {"cache": {"url": "memory:"}})) as gateway:
                asked = [asyncio.create_task(reply_of(gateway.address, stream=True)) for _ in range(2)]
                await server.request()
                await asyncio.sleep(0.1)
                gate.set()
                raws = [raw for _, raw in await asyncio.gather(*asked)]
        assert len(server.requests) == 1
    upstreams = [checked(raw)[-1].data["error"]["upstream"] for raw in raws]
    assert [(one["name"], one["cause"]) for one in upstreams] == [("local", "reply_not_finished")] * 2
    assert [line["address"] for line in lines] == [address] * 2
