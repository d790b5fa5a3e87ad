"""`POST /v1/upstreams/check`: tests a server before it is configured, for callers who may do so."""

from typing import Any

import httpx

from tests.in_process_gateway import SERVER, ModelServer, Running

URL = "http://model.test/v1"
ADMIN = {"authorization": "Bearer letmein"}
LIST = {"object": "list", "data": [{"id": "qwen3"}, {"id": "llama"}]}


def list_models(request: httpx.Request) -> httpx.Response:
    if request.url.path == "/v1/models" and request.headers.get("authorization") in (None, "Bearer right"):
        return httpx.Response(200, json=LIST)
    if request.url.path == "/v1/models":
        return httpx.Response(401, json={"error": {"message": "no such key"}})
    return httpx.Response(404, json={"detail": "Not Found"})


def test_a_server_that_works_lists_its_models() -> None:
    server = ModelServer(list_models)
    with Running({"demo": True}, server) as gateway:
        answer = gateway.post("/v1/upstreams/check", {"base_url": URL, "api_key": "right"})
    assert answer.status == 200
    assert answer.json == {
        "works": True,
        "result": "works",
        "kind": None,
        "lines": ["works; models: qwen3, llama"],
        "models": ["qwen3", "llama"],
        "working_url": None,
    }
    assert [(one.method, str(one.url)) for one in server.requests] == [("GET", f"{URL}/models")]


def test_a_server_that_names_itself_shows_its_kind() -> None:
    rows = {"data": [{"id": "qwen3", "owned_by": "vllm"}]}
    with Running({"demo": True}, ModelServer(lambda _: httpx.Response(200, json=rows))) as gateway:
        assert gateway.post("/v1/upstreams/check", {"base_url": URL}).json["kind"] == "vllm"


def test_a_missing_v1_is_found() -> None:
    with Running({"demo": True}, ModelServer(list_models)) as gateway:
        found = gateway.post("/v1/upstreams/check", {"base_url": "http://model.test"}).json
    assert (found["works"], found["working_url"]) == (False, URL)


def test_a_wrong_key_is_named_and_not_repeated() -> None:
    with Running({"demo": True}, ModelServer(list_models)) as gateway:
        answer = gateway.post("/v1/upstreams/check", {"base_url": URL, "api_key": "wr0ng-key"})
    assert not answer.json["works"] and "refuses the key (401)" in answer.json["lines"][0]
    assert b"wr0ng-key" not in answer.body


def test_an_address_that_is_none_is_refused() -> None:
    with Running({"demo": True}, ModelServer(list_models)) as gateway:
        for url in (
            "ftp://model.test",
            "model.test/v1",
            "http://me:pass@model.test/v1",
            "http://model.test/v1#x",
            "unix:/run/model.sock",
            "",
        ):
            answer = gateway.post("/v1/upstreams/check", {"base_url": url})
            assert (answer.status, answer.json["error"]["param"]) == (422, "base_url"), url
        assert gateway.post("/v1/upstreams/check", {"base_url": URL, "headers": {}}).status == 422
        assert gateway.post("/v1/upstreams/check", b"[]").status == 422


def test_only_an_administrator_may_name_an_address_once_the_gateway_is_configured() -> None:
    cases: tuple[dict[str, Any], ...] = (
        SERVER,
        {"demo": True, "server": {"allowed_hosts": ["chat.example"]}},
        {"demo": True, "server": {"host": "0.0.0.0", "allow_anonymous": True}},
        SERVER | {"server": {"admin_key": "letmein"}},
    )
    for settings in cases:
        server = ModelServer(list_models)
        with Running(settings, server) as gateway:
            refused = gateway.post("/v1/upstreams/check", {"base_url": URL})
            assert (refused.status, refused.json["error"]["code"]) == (403, "permission"), settings
            assert server.requests == []
            if "admin_key" in settings.get("server", {}):
                assert gateway.post("/v1/upstreams/check", {"base_url": URL}, ADMIN).status == 200
