"""A session stays at the server that has its beginning in its cache."""

import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.each_case import each_case
from tests.in_process_gateway import ModelServer, Running

SERVERS: dict[str, Any] = {
    name: {"base_url": f"http://{name}.test/v1", "kind": "vllm"} for name in ("one", "two", "three")
}
SETTINGS: dict[str, Any] = {
    "upstreams": SERVERS | {"router": {"base_url": "http://router.test/v1", "kind": "openrouter"}},
    "models": {"m": {"upstreams": [*SERVERS], "cache": False}, "r": {"upstreams": ["router"], "cache": False}},
}


@pytest.fixture
def models() -> ModelServer:
    return ModelServer()


@pytest.fixture
def gateway(models: ModelServer) -> Iterator[Running]:
    with Running(SETTINGS, models) as running:
        yield running


def ask(gateway: Running, path: str, body: dict[str, Any], headers: dict[str, str] | None = None) -> None:
    answer = gateway.ask("POST", path, [json.dumps({"model": "m", **body}).encode()], headers or {})
    assert answer.status == 200, answer.body


def turns(text: str) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": text}], "max_tokens": 9}


CHAT, MESSAGES, RESPONSES = "/v1/chat/completions", "/v1/messages", "/v1/responses"


@each_case(
    ("path", "fields", "headers"),
    [
        (MESSAGES, {}, {"x-claude-code-session-id": "s#"}),
        (MESSAGES, {"metadata": {"user_id": "user_1_account__session_#"}}, {}),
        (RESPONSES, {}, {"session_id": "s#"}),
        (RESPONSES, {"prompt_cache_key": "k#"}, {}),
        (RESPONSES, {"user": "u#"}, {}),
        (CHAT, {"prompt_cache_key": "k#"}, {}),
        (CHAT, {"user": "u#"}, {}),
        (CHAT, {}, {"x-session-affinity": "s#"}),
        ("/v1/chat", {"generate_cfg": {"extra_body": {"prompt_cache_key": "k#"}}}, {}),
    ],
)
def test_a_session_has_one_server_and_sessions_have_several(
    gateway: Running, models: ModelServer, path: str, fields: dict[str, Any], headers: dict[str, str]
) -> None:
    def fill(value: Any, session: int) -> Any:
        return json.loads(json.dumps(value).replace("#", str(session)))

    used: list[set[str]] = []
    for session in range(20):
        models.requests.clear()
        for turn in ("a", "b", "c"):  # the beginning differs, so it is not the beginning that decides
            text = f"{session} {turn}"
            body = {"input": text} if path == RESPONSES else turns(text)
            if path == "/v1/chat":
                del body["max_tokens"]
            ask(gateway, path, body | fill(fields, session), fill(headers, session))
        used.append({request.url.host for request in models.requests})
    assert all(len(hosts) == 1 for hosts in used)
    assert len(set().union(*used)) == 3


def test_the_sessions_of_a_lost_server_move_and_come_back() -> None:
    down: set[str] = set()

    def answer(request: httpx.Request) -> httpx.Response:
        return httpx.Response(503) if request.url.host in down else ModelServer.short_reply()

    models = ModelServer(answer)

    def serve(gateway: Running) -> dict[int, str]:
        hosts = {}
        for session in range(30):
            ask(gateway, CHAT, turns("x"), {"session-id": str(session)})
            hosts[session] = models.requests[-1].url.host
        return hosts

    with Running(SETTINGS, models) as gateway:
        before = serve(gateway)
        down.add("one.test")
        moved = serve(gateway)
        assert "one.test" not in moved.values()
        assert {session for session, host in before.items() if moved[session] != host} == {
            session for session, host in before.items() if host == "one.test"
        }
        metrics = gateway.ask("GET", "/metrics").body.decode()
        assert 'parley_upstream_sessions_moved{upstream="two"} 0.0' in metrics
        assert 'parley_upstream_sessions_moved{upstream="one"} 0.0' not in metrics
    down.clear()
    with Running(SETTINGS, models) as gateway:  # another process, or the same one later
        assert serve(gateway) == before


def test_only_a_server_that_knows_sessions_is_told_a_hash_of_it(gateway: Running, models: ModelServer) -> None:
    for model in ("m", "r", "r"):
        ask(gateway, CHAT, turns("x") | {"model": model}, {"x-session-id": "secret-session"})
    plain, first, second = models.requests
    assert "x-session-id" not in plain.headers
    assert len(first.headers["x-session-id"]) == 32 and first.headers["x-session-id"] == second.headers["x-session-id"]
    assert not any(b"secret-session" in value for request in models.requests for _, value in request.headers.raw)


def test_cached_tokens_are_counted_by_upstream() -> None:
    usage = {"prompt_tokens": 100, "completion_tokens": 1, "prompt_tokens_details": {"cached_tokens": 80}}
    reply = {"choices": [{"index": 0, "message": {"content": "x"}, "finish_reason": "stop"}], "usage": usage}
    models = ModelServer(lambda _: httpx.Response(200, json=reply))
    with Running({**SETTINGS, "models": {"m": {"upstreams": ["one"], "cache": False}}}, models) as gateway:
        ask(gateway, CHAT, turns("x"))
        metrics = gateway.ask("GET", "/metrics").body.decode()
    assert 'parley_upstream_prompt_tokens_total{cached="true",upstream="one"} 80.0' in metrics
    assert 'parley_upstream_prompt_tokens_total{cached="false",upstream="one"} 20.0' in metrics
