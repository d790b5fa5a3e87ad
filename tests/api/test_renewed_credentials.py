"""Keys for model servers that a command prints: what the server gets, and what callers see if there is none."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.each_case import each_case
from tests.in_process_gateway import Answer, ModelServer, Running, streamed

CHAT = {"model": "m", "stream": False, "messages": [{"role": "user", "content": "Hi"}]}


def with_command(output: str, **upstream: Any) -> dict[str, Any]:
    server = {"base_url": "http://model.test/v1", "api_key_command": ["sh", "-c", output], **upstream}
    return {"upstreams": {"local": server}, "models": {"m": {"upstreams": ["local"]}}}


def refuse_until(key: str) -> Callable[[httpx.Request], httpx.Response]:
    def answer(request: httpx.Request) -> httpx.Response:
        if request.headers["authorization"] != f"Bearer {key}":
            sent = request.headers["authorization"].removeprefix("Bearer ")
            return httpx.Response(401, json={"error": {"message": f"the key {sent} is not valid"}})
        return ModelServer.short_reply()

    return answer


@each_case(
    ("upstream", "header", "value"),
    [
        ({}, "authorization", "Bearer made-key"),
        ({"api": "responses"}, "authorization", "Bearer made-key"),
        ({"api": "messages"}, "x-api-key", "made-key"),
        ({"api": "messages", "auth": "bearer"}, "authorization", "Bearer made-key"),
    ],
)
def test_the_key_is_sent_where_the_api_wants_it(upstream: dict[str, Any], header: str, value: str) -> None:
    server = ModelServer()
    with Running(with_command("echo made-key", **upstream), server) as gateway:
        gateway.post("/v1/chat", CHAT)
        gateway.post("/v1/chat", CHAT)
    assert [request.headers.get_list(header) for request in server.requests] == [[value]] * 2


def test_an_endpoint_that_passes_and_a_list_of_models_have_it_too(tmp_path: Path) -> None:
    path = tmp_path / "key"
    path.write_text("filed-key\n")
    settings = with_command("")
    settings["upstreams"]["local"] = {"base_url": "http://model.test/v1", "api_key_file": str(path)}
    settings["models"]["m"]["endpoints"] = ["chat", "embeddings"]
    server = ModelServer(lambda _: httpx.Response(200, json={"data": [], "usage": {"prompt_tokens": 1}}))
    with Running(settings | {"passthrough": "local"}, server) as gateway:
        assert gateway.post("/v1/embeddings", {"model": "m", "input": "Hi"}).status == 200
        gateway.get("/v1/models")
    assert {request.url.path for request in server.requests} == {"/v1/embeddings", "/v1/models"}
    assert {request.headers["authorization"] for request in server.requests} == {"Bearer filed-key"}


def ask_late(gateway: Running) -> Answer:
    """Ask when the present key is old enough to be renewed at once."""
    (credential,) = gateway.context.credentials
    gateway.loop.run_until_complete(credential.get())
    credential._tried_at -= 60
    return gateway.post("/v1/chat", CHAT)


def test_a_key_that_the_server_refuses_is_renewed_and_the_request_sent_once_more(tmp_path: Path) -> None:
    count = tmp_path / "count"
    server = ModelServer(refuse_until("key-xx"))
    with Running(with_command(f"printf x >> {count}; echo key-$(cat {count})"), server) as gateway:
        assert ask_late(gateway).status == 200
        assert [request.headers["authorization"][-6:] for request in server.requests] == [" key-x", "key-xx"]


def test_a_key_that_is_refused_again_is_an_error_that_does_not_show_it(tmp_path: Path) -> None:
    count = tmp_path / "count"
    server = ModelServer(refuse_until("another"))
    with Running(with_command(f"printf x >> {count}; echo geheim-geheim-$(cat {count})"), server) as gateway:
        answer = ask_late(gateway)
        assert (answer.status, answer.json["error"]["code"]) == (502, "authentication")
        assert "the key [redacted] is not valid" in answer.json["error"]["message"]
        assert b"geheim" not in answer.body
    assert len(server.requests) == 2


def test_a_status_other_than_401_renews_nothing(tmp_path: Path) -> None:
    count = tmp_path / "count"
    server = ModelServer(lambda _: httpx.Response(403, json={"error": {"message": "no"}}))
    with Running(with_command(f"printf x >> {count}; echo key"), server) as gateway:
        assert ask_late(gateway).status == 502
    assert count.read_text() == "x" and len(server.requests) == 1


def test_without_a_key_the_next_server_is_asked_and_the_last_one_is_an_error(
    caplog: pytest.LogCaptureFixture,
) -> None:
    settings = with_command("echo geheim; exit 7")
    settings["upstreams"]["other"] = {"base_url": "http://other.test/v1"}
    settings["models"]["both"] = {"upstreams": ["local", "other"]}
    server = ModelServer(
        lambda _: streamed(b'data: {"choices":[{"index":0,"delta":{"content":"x"}}]}\n\n', b"data: [DONE]\n\n")
    )
    with Running(settings, server) as gateway:
        alone = gateway.post("/v1/chat", CHAT)
        assert (alone.status, alone.json["error"]["code"]) == (502, "authentication")
        assert alone.json["error"]["upstream"]["cause"] == "credential"
        assert alone.json["error"]["message"] == "the gateway has no valid credential for the model server"
        assert not server.requests
        for _ in range(4):
            assert gateway.post("/v1/chat", CHAT | {"model": "both"}).status == 200
    assert {request.url.host for request in server.requests} == {"other.test"}
    assert "geheim" not in caplog.text


def test_metrics_and_a_hangup(tmp_path: Path) -> None:
    count = tmp_path / "count"
    with Running(with_command(f"printf x >> {count}; echo key"), ModelServer()) as gateway:
        gateway.post("/v1/chat", CHAT)

        async def hang_up() -> None:
            gateway.context.on_hangup()
            async with asyncio.timeout(10):
                while count.read_text() != "xx":
                    await asyncio.sleep(0.01)
            await gateway.context.list_credentials()[0][1].get()

        gateway.loop.run_until_complete(hang_up())
        gateway.loop.run_until_complete(asyncio.sleep(0.1))
        lines = gateway.get("/metrics").body.decode()
        assert 'parley_credential_renewals_total{outcome="renewed",upstream="local"} 2.0' in lines
        assert 'parley_credential_last_renewal_successful{upstream="local"} 1.0' in lines
        assert 'parley_credential_expiry_timestamp_seconds{upstream="local"}' in lines
