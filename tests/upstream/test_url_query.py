"""A query in the base_url of an upstream is kept in the URL of each request, and never shown."""

from typing import Any

import httpx
import pytest

from tests.in_process_gateway import ModelServer, Running

QUERY = "api-version=2024-10-21&code=s3cretvalue"
ASK = {"model": "m", "max_tokens": 5, "messages": [{"role": "user", "content": "Hi"}]}


def settings(api: str, base_url: str) -> dict[str, Any]:
    return {"upstreams": {"s": {"base_url": base_url, "api": api}}, "models": {"m": {"upstreams": ["s"]}}}


@pytest.mark.parametrize(
    ("api", "path"), [("chat_completions", "/chat/completions"), ("responses", "/responses"), ("messages", "/messages")]
)
@pytest.mark.parametrize("base_url", ["http://model.test/v1", "http://model.test/v1/", "unix:/run/s.sock:/v1"])
def test_the_query_is_behind_the_path(api: str, path: str, base_url: str) -> None:
    server = ModelServer(lambda _: httpx.Response(400, json={"error": {"message": "No s3cretvalue"}}))
    with Running(settings(api, f"{base_url}?{QUERY}"), server) as gateway:
        answer = gateway.post("/v1/messages", ASK)
        models = gateway.get("/v1/models")
    assert str(server.requests[0].url).partition("/v1")[2] == f"{path}?{QUERY}"
    assert "s3cretvalue" not in answer.body.decode() + models.body.decode()


def test_v1_is_added_before_the_query() -> None:
    server = ModelServer(lambda _: httpx.Response(400, json={}))
    with Running(settings("messages", f"http://model.test/anthropic?{QUERY}"), server) as gateway:
        gateway.post("/v1/messages", ASK)
    assert str(server.requests[0].url) == f"http://model.test/anthropic/v1/messages?{QUERY}"
