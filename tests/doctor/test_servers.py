"""What the doctor finds at model servers with faults, over sockets."""

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path
from typing import Any

import pytest
from app.config.settings import Settings
from app.doctor import Examination, Finding, examine_server, examine_settings

from tests.certificates import certificate
from tests.doctor.model_server import FaultyServer, json_reply
from tests.live.unreachable_server import unreachable
from tests.scripted_server import Reply, ScriptedServer

pytestmark = pytest.mark.anyio

SECRET = "sk-a-secret-of-the-upstream"
QUICK = Examination(seconds=5)


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def settings(url: str, **row: Any) -> Settings:
    upstream = {"base_url": url, "api_key": SECRET, **row.pop("upstream", {})}
    stores = {"cache": {"url": "null:"}, "usage": {"url": "null:"}}
    models = {"m": {"upstreams": ["local"], **row}}
    return Settings.model_validate({"upstreams": {"local": upstream}, "models": models, **stores})


async def examine(url: str, how: Examination = QUICK, **row: Any) -> dict[str, Finding]:
    """The findings about an upstream and its model by the name of the check."""
    findings = await examine_settings(settings(url, **row), how)
    assert SECRET not in repr(findings)
    return {finding.check: finding for finding in findings if not finding.subject.startswith(("cache", "usage"))}


def statuses(findings: dict[str, Finding]) -> dict[str, str]:
    return {check: finding.status for check, finding in findings.items()}


async def test_a_server_that_works_has_no_faults_and_gets_three_requests() -> None:
    async with FaultyServer("m", key=SECRET, date=format_datetime(datetime.now(UTC))) as server:
        findings = await examine(f"{server.url}/v1")
    assert set(statuses(findings).values()) == {"ok"}
    assert [*findings] == ["tcp", "clock", "key", "models", "apis", "reasoning", "max_tokens", "tools"]
    assert [body["max_tokens"] for body in server.questions] == [1024, 1_000_000, 1024]


@pytest.mark.parametrize(("models", "shown"), [(["m"], True), (["m", "other"], True), (["other"], False)])
async def test_the_context_of_a_configured_model_is_shown(models: list[str], shown: bool) -> None:
    async with FaultyServer(*models, key=SECRET, context=4096) as server:
        findings = await examine(f"{server.url}/v1")
    assert ("context" in findings) is shown
    assert not shown or findings["context"].message == "m: 4,096 tokens for a prompt and its reply"


async def test_the_context_of_the_only_model_of_a_server_that_is_not_configured_is_shown() -> None:
    for models in (("m",), ("m", "other")):
        async with FaultyServer(*models, context=4096) as server:
            findings = await examine_server(f"{server.url}/v1", None, QUICK)
        assert [finding.check for finding in findings].count("context") == (len(models) == 1)


async def test_nothing_listens() -> None:
    async with ScriptedServer() as server:
        url = server.url
    findings = await examine(f"{url}/v1")
    assert statuses(findings) == {"tcp": "problem"}
    assert findings["tcp"].message.endswith("connection refused")
    assert findings["tcp"].advice.startswith("start the server, or correct host and port in base_url")


async def test_the_name_does_not_exist() -> None:
    findings = await examine("http://model.invalid:8001/v1")
    assert statuses(findings) == {"dns": "problem"}
    assert findings["dns"].message == "the name model.invalid is not found"


async def test_the_machine_does_not_answer() -> None:
    async with unreachable() as url:
        findings = await examine(f"{url}/v1", Examination(seconds=0.3))
    assert statuses(findings) == {"tcp": "problem"}
    assert "within 0.3 s" in findings["tcp"].message


async def test_the_path_lacks_v1() -> None:
    async with FaultyServer("m") as server:
        findings = await examine(url := server.url)
    assert statuses(findings) == {"tcp": "ok", "path": "problem"}
    assert findings["path"].advice == f"base_url probably lacks /v1: set it to '{url}/v1'"


async def test_the_key_is_refused_and_not_shown() -> None:
    async with FaultyServer("m", key="another") as server:
        findings = await examine(f"{server.url}/v1")
    assert statuses(findings) == {"tcp": "ok", "key": "problem"}
    assert findings["key"].message.startswith("the server refuses the key (401)")


async def test_the_model_is_not_there() -> None:
    async with FaultyServer("Qwen/Qwen3-8B") as server:
        findings = await examine(f"{server.url}/v1", name="Qwen/Qwen3-8b")
    assert findings["models"].status == "problem"
    assert findings["models"].message == "it does not list 'Qwen/Qwen3-8b'; did you mean 'Qwen/Qwen3-8B'?"
    assert server.questions == []


async def test_the_server_is_too_slow() -> None:
    async with FaultyServer("m", hold=asyncio.Event()) as server:
        findings = await examine(f"{server.url}/v1", Examination(seconds=0.3))
    assert findings["http"].status == "problem"
    assert "overloaded" in findings["http"].advice
    async with FaultyServer("m", reasoning=Reply([b": wait\n\n", asyncio.Event()])) as server:
        findings = await examine(f"{server.url}/v1", Examination(seconds=0.3))
    assert findings["reply"].message == "no complete reply to a short question within 0.3 s"


async def test_the_clocks_differ() -> None:
    async with FaultyServer("m", date=format_datetime(datetime.now(UTC) - timedelta(hours=2))) as server:
        findings = await examine(f"{server.url}/v1")
    assert findings["clock"].status == "warning"
    assert "s behind this machine's" in findings["clock"].message


async def test_no_requests_are_sent_to_models_if_they_are_not_wanted() -> None:
    async with FaultyServer("m") as server:
        findings = await examine(f"{server.url}/v1", Examination(seconds=5, probe=False))
    assert [*findings] == ["tcp", "key", "models"]
    assert server.questions == []


async def test_a_model_that_is_only_passed_through_is_tried_if_it_is_named_or_alone() -> None:
    async with FaultyServer("a", "b", tools=json_reply(400, {})) as server:
        passing = {"upstreams": {"local": {"base_url": f"{server.url}/v1"}}, "passthrough": "local"}
        stores = {"cache": {"url": "null:"}, "usage": {"url": "null:"}}
        configured = Settings.model_validate(passing | stores)
        findings = await examine_settings(configured, QUICK)
        assert [finding.status for finding in findings if finding.check == "probes"] == ["warning"]
        assert server.questions == []
        findings = await examine_settings(configured, Examination(seconds=5, model="b"))
    assert {body["model"] for body in server.questions} == {"b"}
    (tools,) = [finding for finding in findings if finding.check == "tools"]
    assert tools.settings == (
        "[models.b]",
        'upstreams = ["local"]',
        "",
        "[models.b.profile]",
        "native_tools = false",
    )


async def test_a_server_that_is_not_configured_gets_the_lines_for_it() -> None:
    async with FaultyServer("org/m.1", owner="vllm", key=SECRET) as server:
        findings = await examine_server(f"{(url := server.url)}/v1/", SECRET, QUICK)
    assert SECRET not in repr(findings)
    assert findings[-1].settings == (
        "# at the top of the file:",
        'passthrough = "server"',
        "",
        "[upstreams.server]",
        f'base_url = "{url}/v1"',
        'kind = "vllm"',
        'api_key = "${PARLEY_UPSTREAM_API_KEY}"',
    )
    assert {finding.status for finding in findings} == {"ok"}


async def test_the_kind_of_a_configured_server_is_suggested() -> None:
    async with FaultyServer("m", owner="sglang") as server:
        findings = await examine(f"{server.url}/v1")
        same = await examine(f"{server.url}/v1", upstream={"kind": "sglang"})
    assert (findings["kind"].status, findings["kind"].settings) == ("warning", ("[upstreams.local]", 'kind = "sglang"'))
    assert "kind" not in same


@contextlib.asynccontextmanager
async def over_tls(context: ssl.SSLContext) -> AsyncIterator[str]:
    def accept(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.close()

    server = await asyncio.start_server(accept, "127.0.0.1", 0, ssl=context)
    async with server:
        yield f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"


@pytest.mark.parametrize(
    ("name", "expired", "trusted", "message"),
    [
        ("IP:127.0.0.1", False, False, "TLS certificate self-signed or of an unknown issuer"),
        ("IP:127.0.0.1", True, True, "TLS certificate expired"),
        ("DNS:a.test,DNS:b.test", False, True, "TLS certificate of another host name: it names a.test, b.test, not"),
    ],
)
async def test_a_certificate_that_is_refused(
    name: str, expired: bool, trusted: bool, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    context = certificate(tmp_path, name, expired=expired)
    if trusted:
        monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "server.pem"))
    async with over_tls(context) as url:
        findings = await examine(url)
    assert statuses(findings) == {"tcp": "ok", "tls": "problem"}
    assert findings["tls"].message.startswith(message)
    assert findings["tls"].advice


async def test_a_certificate_that_expires_soon_is_a_warning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    end = datetime.now(UTC) + timedelta(days=3, hours=1)
    context = certificate(tmp_path, "IP:127.0.0.1", end=end.strftime("%Y%m%d%H%M%SZ"))
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "server.pem"))
    async with over_tls(context) as url:
        findings = await examine(url)
    assert findings["tls"].status == "warning"
    assert findings["tls"].message.endswith("the certificate is valid for 3 more days")


async def test_plain_http_where_tls_is_expected_and_the_other_way_round() -> None:
    def refuse(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        writer.close()

    async with await asyncio.start_server(refuse, "127.0.0.1", 0) as server:
        findings = await examine(f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1")
    assert (findings["tls"].status, findings["tls"].advice) == ("problem", "write http:// in base_url")
    async with ScriptedServer(Reply([b"\x15\x03\x01\x00\x02\x02\x46"], status=None)) as alerting:
        findings = await examine(f"{alerting.url}/v1")
    assert (findings["http"].status, findings["http"].advice) == ("problem", "write https:// in base_url")
