"""The client on a transport of httpx, and what it does with answers that are no replies."""

import asyncio
import gzip
import json
from dataclasses import replace
from typing import Any

import httpx
import pytest
import respx
from app.config.settings import Settings
from app.errors import UpstreamFailed
from app.main import create_app
from app.upstream.http.client import MAX_ERROR_BYTES, Target, UpstreamClient
from app.upstream.http.transport import PushTransport

from tests.default_limits import upstream_target
from tests.each_case import each_case
from tests.httpx_upstream import MockUpstream
from tests.scripted_server import Reply, ScriptedServer

pytestmark = pytest.mark.anyio

URL = "http://model.test/v1/chat/completions"
STREAM = (
    b'data: {"choices":[{"delta":{"content":"Hi"}}]}\n\ndata: {"choices":[{"delta":{},"finish_reason":"stop"}]}\n\n'
)
SETTINGS = Settings.model_validate(
    {"upstreams": {"m": {"base_url": "http://model.test/v1"}}, "passthrough": "m", "server": {"log_level": "error"}}
)


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def target(url: str) -> Target:
    return upstream_target("m", f"{url}/v1", httpx.Headers({"host": "m"}), first_token_seconds=5, idle_seconds=5)


async def ask(router: respx.Router, **more: Any) -> httpx.Response:
    app = create_app(SETTINGS, transport=MockUpstream(router.async_handler))
    async with app.router.lifespan_context(app):
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://localhost") as caller:
            body = {"model": "x", "messages": [{"role": "user", "content": "Hello"}], **more}
            return await asyncio.wait_for(caller.post("/v1/chat", json=body), 5)


async def _pieces() -> Any:
    for byte in STREAM:
        yield bytes([byte])


@pytest.mark.parametrize("content", [STREAM, None], ids=["at once", "in pieces"])
@pytest.mark.parametrize("stream", [True, False])
async def test_respx_can_stand_in_for_the_network(content: bytes | None, stream: bool) -> None:
    router = respx.Router()
    route = router.post(URL).mock(side_effect=lambda _: httpx.Response(200, content=content or _pieces()))
    response = await ask(router, stream=stream)
    assert response.status_code == 200
    assert "Hi" in response.text
    assert ("response.completed" in response.text) is stream
    assert json.loads(route.calls[0].request.content)["model"] == "x"


@pytest.mark.parametrize(
    ("error", "status"),
    [(httpx.ConnectError("no"), 502), (httpx.ConnectTimeout("no"), 504), (httpx.ReadTimeout("no"), 504)],
)
async def test_what_httpx_raises_is_a_status(error: Exception, status: int) -> None:
    router = respx.Router()
    router.post(URL).mock(side_effect=error)
    assert (await ask(router)).status_code == status


async def test_an_error_that_is_mocked_is_read() -> None:
    router = respx.Router()
    router.post(URL).respond(400, json={"error": {"message": "too long", "code": "context_length_exceeded"}})
    response = await ask(router)
    assert (response.status_code, response.json()["error"]["code"]) == (400, "context_length_exceeded")


async def test_a_mocked_stream_that_breaks_ends_the_reply() -> None:
    async def broken() -> Any:
        yield b'data: {"choices":[{"delta":{"content":"Hi"}}]}\n\n'
        raise RuntimeError("not even an error of httpx")

    router = respx.Router()
    router.post(URL).mock(side_effect=lambda _: httpx.Response(200, content=broken()))
    assert "upstream_incomplete" in (await ask(router)).text


@each_case("status", [201, 202, 204, 206])
async def test_a_success_other_than_200_is_no_reply_and_no_list_of_models(status: int) -> None:
    router = respx.Router()
    router.post(URL).respond(status)
    router.get("http://model.test/v1/models").respond(status)
    client = UpstreamClient(MockUpstream(router.async_handler))
    for request in (client.open(target("http://model.test"), b"{}"), client.models(target("http://model.test"))):
        with pytest.raises(UpstreamFailed) as caught:
            await request
        fault = caught.value.fault
        assert (fault.code, fault.transient, fault.status) == ("upstream_protocol", False, status)
        assert fault.message.endswith(f"the model server answered {status} instead of 200")


async def _breaking() -> Any:
    yield b'{"data": '
    raise httpx.ReadError("reset")


@each_case(
    ("answer", "code", "message"),
    [
        (httpx.PoolTimeout("busy"), "overloaded", "all connections to the model server are in use"),
        (httpx.ConnectError("no"), "server_error", "no connection to the model server"),
        (httpx.ReadError("reset"), "upstream_incomplete", "no answer from the model server"),
        (httpx.Response(200, content=_breaking()), "upstream_incomplete", "broke before its reply was finished"),
        (
            httpx.Response(200, content=b"\x1f", headers={"content-encoding": "br"}),
            "upstream_protocol",
            "cannot be read",
        ),
        (httpx.Response(429, json={"error": "too many requests"}), "rate_limit", "too many requests"),
    ],
)
async def test_a_list_that_cannot_be_had_says_why(answer: Exception | httpx.Response, code: str, message: str) -> None:
    router = respx.Router()
    router.get("http://model.test/v1/models").mock(side_effect=[answer])
    with pytest.raises(UpstreamFailed) as caught:
        await UpstreamClient(MockUpstream(router.async_handler)).models(target("http://model.test"))
    assert (caught.value.code, caught.value.fault.upstream) == (code, "m")
    assert caught.value.message.startswith("the model server lists no models: ") and message in caught.value.message


@each_case("error", [httpx.ConnectError("no"), httpx.ReadTimeout("slow"), httpx.RemoteProtocolError("odd")])
async def test_a_server_that_does_not_answer_has_no_status(error: Exception) -> None:
    router = respx.Router()
    router.get("http://model.test/v1/health").mock(side_effect=error)
    client = UpstreamClient(MockUpstream(router.async_handler))
    assert await client.status(target("http://model.test"), "GET", "/health", 1) is None


async def test_a_request_for_a_status_leaves_its_connection_to_the_next() -> None:
    replies = [Reply([b"ok"], headers={"content-length": "2"}) for _ in range(2)]
    async with ScriptedServer(*replies) as server:
        client = UpstreamClient()
        for _ in replies:
            assert await client.status(target(server.url), "GET", "/health", 5) == 200
            await asyncio.sleep(0.05)
        await client.aclose()
        assert len(server.connections) == 1


async def test_an_error_body_without_end_is_read_so_far_and_closed() -> None:
    reply = Reply([b'{"error": "full"}', asyncio.Event()], status=503)
    async with ScriptedServer(reply) as server:
        transport = PushTransport()
        with pytest.raises(UpstreamFailed) as caught:
            await UpstreamClient(transport, error_body_seconds=0.05).open(target(server.url), b"{}")
        assert (caught.value.status, caught.value.message) == (503, "full")
        await asyncio.wait_for(server.connections[0].closed.wait(), 1)


async def test_an_error_body_that_floods_is_cut() -> None:
    flood = [b"x" * 60_000] * 100
    async with ScriptedServer(Reply(flood, status=500, chunked=True)) as server:
        transport = PushTransport()
        with pytest.raises(UpstreamFailed):
            await asyncio.wait_for(UpstreamClient(transport).open(target(server.url), b"{}"), 5)
        assert server.connections[0].finished == 0
        await transport.aclose()


async def test_an_error_body_that_expands_is_cut() -> None:
    text = b'{"message": "no"}' + b" " * 10 * MAX_ERROR_BYTES + b"rate limit"
    packed = gzip.compress(text)
    headers = {"content-encoding": "gzip", "content-length": str(len(packed))}
    async with ScriptedServer(Reply([packed], status=500, headers=headers)) as server:
        transport = PushTransport()
        with pytest.raises(UpstreamFailed) as caught:
            await UpstreamClient(transport).open(target(server.url), b"{}")
        await transport.aclose()
    assert (caught.value.code, caught.value.message) == ("server_error", "no")


WORDS = b'{"error": {"message": "rate limit: 10 requests per minute"}}'
BROTLI = bytes.fromhex("8b1d80") + WORDS + b"\x03"
"""WORDS as the package brotli 1.2 compresses them."""


@each_case(
    ("body", "encoding", "message"),
    [
        (WORDS, "gzip", "rate limit: 10 requests per minute"),
        (WORDS, "br", "rate limit: 10 requests per minute"),
        (WORDS, "zstd", "rate limit: 10 requests per minute"),
        (gzip.compress(WORDS), "gzip", "rate limit: 10 requests per minute"),
        (b"<html><title>Too many</title>\xe4\xbd", "br", "the model server answered with a web page (Too many)"),
        (BROTLI, "br", "Content-Encoding 'br'; only identity, gzip and deflate can be read"),
        (b"[\xff" + BROTLI, "br", "Content-Encoding 'br'; only identity, gzip and deflate can be read"),
        (gzip.compress(WORDS)[:10] + b"x" * 40, "gzip", "gave a reason that cannot be read"),
    ],
)
async def test_an_error_is_read_though_its_encoding_is_wrong_or_says_that_it_cannot_be(
    body: bytes, encoding: str, message: str
) -> None:
    headers = {"content-encoding": encoding, "content-length": str(len(body))}
    async with ScriptedServer(Reply([body], status=429, headers=headers)) as server:
        transport = PushTransport()
        with pytest.raises(UpstreamFailed) as caught:
            await UpstreamClient(transport).open(target(server.url), b"{}")
        await transport.aclose()
    assert caught.value.code == "rate_limit"
    assert message in caught.value.message


@pytest.mark.parametrize(
    "reply",
    [
        Reply([b"[]"], headers={"content-length": "2"}),
        Reply([b"{"], headers={"content-length": "1"}),
        Reply(status=404, headers={"content-length": "0"}),
    ],
)
async def test_a_server_without_a_list_of_models_lists_none_or_says_so(reply: Reply) -> None:
    async with ScriptedServer(reply) as server:
        client = UpstreamClient()
        try:
            assert await client.models(target(server.url)) == []
        except UpstreamFailed as error:
            assert "lists no models" in error.message
        await client.aclose()


async def test_a_list_of_models_with_odd_values_is_read() -> None:
    body = b'{"data": [{"id": "a", "price": NaN}, 5, {"id": "\\ud83c"}]}'
    async with ScriptedServer(Reply([body], headers={"content-length": str(len(body))})) as server:
        client = UpstreamClient()
        assert await client.models(target(server.url)) == [{"id": "a", "price": None}, {"id": "\ufffd"}]
        await client.aclose()


async def test_the_request_for_a_list_of_models_that_does_not_end_is_aborted_and_closed() -> None:
    async with ScriptedServer(Reply([b'{"data": ', asyncio.Event()])) as server:
        transport = PushTransport()
        with pytest.raises(UpstreamFailed):
            slow = replace(target(server.url), base_url=server.url, connect_seconds=0.05)
            await UpstreamClient(transport).models(slow)
        await transport.aclose()
        await asyncio.wait_for(server.connections[0].closed.wait(), 1)


def test_the_limits_for_a_whole_reply_are_those_of_the_target_of_the_request() -> None:
    server = upstream_target("u", "http://model.test/v1", first_token_seconds=1.0, whole_reply_seconds=9.0)
    assert server.for_whole_reply().first_token_seconds == 9.0
    assert server.for_whole_reply() is server.for_whole_reply()
    assert server.with_timeout(4.0).for_whole_reply().first_token_seconds == 4.0
    assert server.for_whole_reply().with_timeout(0.5).first_token_seconds == 0.5
