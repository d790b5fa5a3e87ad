"""API keys over HTTP: who may call what, and how each endpoint refuses."""

import json
from collections import Counter
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from app.access import hash_key

from tests.in_process_gateway import ModelServer, Running
from tests.upstream.messages.replies import REPLY

ALICE, BOB, ADMIN, OLD = ("key-of-alice-0001", "key-of-bob-000002", "key-of-admin-0003", "key-of-old-000004")
CHAT: dict[str, Any] = {"model": "qwen3", "messages": [{"role": "user", "content": "x"}], "stream": False}
UPSTREAM = {"base_url": "http://model.test/v1", "api_key": "key-of-the-upstream"}
SETTINGS: dict[str, Any] = {
    "upstreams": {"local": UPSTREAM},
    "models": {
        "qwen3": {"upstreams": ["local"], "aliases": ["fast"]},
        "gpt": {"upstreams": ["local"]},
    },
    "keys": {
        "alice": {"sha256": hash_key(ALICE), "models": ["qwen*"]},
        "bob": {"sha256": hash_key(BOB)},
        "admin": {"sha256": hash_key(ADMIN), "admin": True},
        "old": {"sha256": hash_key(OLD), "expires": "2020-01-01"},
    },
    "cache": {"url": "memory:"},
}


def bearer(key: str) -> dict[str, str]:
    return {"authorization": f"Bearer {key}"}


@pytest.fixture(scope="module")
def gateway() -> Iterator[Running]:
    with Running(SETTINGS, ModelServer()) as running:
        yield running


def test_each_header_of_a_key_is_accepted_and_none_is_sent_upstream() -> None:
    server = ModelServer()
    with Running({**SETTINGS, "cache": {"url": "null:"}}, server) as running:
        for headers in (bearer(ALICE), {"x-api-key": ALICE}, {"api-key": ALICE}):
            for path in ("/v1/chat", "/v1/chat/completions"):
                assert running.post(path, CHAT, headers).status == 200
    assert {request.headers["authorization"] for request in server.requests} == {"Bearer key-of-the-upstream"}
    assert not any("api-key" in name for request in server.requests for name in request.headers)


def test_each_endpoint_refuses_a_missing_a_wrong_and_an_expired_key_in_its_own_shape(gateway: Running) -> None:
    for headers, words in [({}, "is required"), (bearer("wrong"), "not known"), (bearer(OLD), "'old' expired at 2020")]:
        for method, path, shape in [
            ("POST", "/v1/chat", "parley"),
            ("GET", "/v1/chat", "parley"),
            ("POST", "/v1/chat/completions", "openai"),
            ("GET", "/v1/models", "openai"),
            ("GET", "/v1/models/qwen3", "openai"),
            ("POST", "/v1/convert", "parley"),
            ("GET", "/v1/chat/chat-1/events", "parley"),
            ("GET", "/v1/chat/chat-1", "parley"),
            ("DELETE", "/v1/chat/chat-1", "parley"),
            ("GET", "/v1/cache", "parley"),
            ("GET", "/nowhere", "parley"),
            ("GET", "/metrics", "parley"),
            ("GET", "/docsx", "parley"),
        ]:
            answer = gateway.ask(method, path, [json.dumps(CHAT).encode()], headers)
            error = answer.json["error"]
            assert (answer.status, error["code"]) == (401, "invalid_api_key"), path
            assert words in error["message"] and error["request_id"] == answer.headers["x-request-id"]
            assert answer.headers["www-authenticate"].startswith("Bearer ")
            assert error.get("type") == ("authentication_error" if shape == "openai" else None)


def test_health_checks_and_the_pages_need_no_key(gateway: Running) -> None:
    for path in ("/", "/healthz", "/readyz", "/docs", "/docs/start.js", "/openapi.json"):
        assert gateway.get(path).status == 200, path


def test_a_preflight_needs_no_key() -> None:
    settings = {**SETTINGS, "server": {"allowed_origins": ["https://chat.example.com"], "allowed_hosts": ["g"]}}
    headers = {"origin": "https://chat.example.com", "host": "g", "access-control-request-method": "POST"}
    with Running(settings, ModelServer()) as running:
        for path in ("/v1/chat", "/v1/models"):
            assert running.ask("OPTIONS", path, headers=headers).status == 204
        del headers["access-control-request-method"]
        refused = running.post("/v1/chat", CHAT, headers | {"content-type": "application/json"})
        assert refused.status == 401
        assert refused.headers["access-control-allow-origin"] == "https://chat.example.com"


def test_a_key_may_use_its_models_only_by_any_of_their_names(gateway: Running) -> None:
    for model, status in [("qwen3", 200), ("fast", 200), ("gpt", 403), ("other", 403), ("qwen4", 404)]:
        for path, shape in [("/v1/chat", None), ("/v1/chat/completions", "permission_error")]:
            answer = gateway.post(path, CHAT | {"model": model}, bearer(ALICE))
            assert answer.status == status, (model, path)
            if status == 403:
                error = answer.json["error"]
                assert (error["code"], error["param"], error.get("type")) == ("permission", "model", shape)
                assert "may use: qwen*" in error["message"]
    assert gateway.post("/v1/chat", CHAT | {"model": "gpt"}, bearer(BOB)).status == 200


ROUTING: list[dict[str, Any]] = [
    {"models": ["qwen3", "another/model"]},
    {"fallbacks": ["another/model"], "route": "fallback"},
    {"fallbacks": [{"model": "other"}], "api_base": "http://192.0.2.1/v1"},
    {"provider": {"order": ["x"]}},
    {"extra_headers": {"x-config": "y"}},
    {"metadata": {"tags": ["paid"]}},
]


@pytest.mark.parametrize("extra", ROUTING)
def test_a_key_for_some_models_may_not_choose_others_by_another_field(extra: dict[str, Any]) -> None:
    server = ModelServer()
    with Running(SETTINGS, server) as running:
        chat = CHAT | {"generate_cfg": {"extra_body": extra}}
        refused = running.post("/v1/chat", chat, bearer(ALICE))
        assert (refused.status, refused.json["error"]["code"]) == (403, "permission")
        name = next(iter(extra))
        assert refused.json["error"]["param"].startswith(f"generate_cfg.extra_body.{name}")
        if "metadata" not in extra:  # on this path it is never sent to a model server
            refused = running.post("/v1/chat/completions", CHAT | extra, bearer(ALICE))
            assert (refused.status, refused.json["error"]["param"]) == (403, name)
        assert not server.requests
        assert running.post("/v1/chat", chat, bearer(BOB)).status == 200
        sent = json.loads(server.requests[0].content)
        assert {key: sent[key] for key in extra} == extra


@pytest.mark.parametrize("api", ["chat_completions", "messages"])
def test_what_a_key_may_choose_does_not_depend_on_the_api_of_the_server(api: str) -> None:
    server = ModelServer(lambda _: httpx.Response(200, json=REPLY) if api == "messages" else ModelServer.short_reply())
    upstreams = {"local": {"base_url": "http://model.test/v1", "api": api}}
    body = {"model": "qwen3", "max_tokens": 9, "messages": [{"role": "user", "content": "x"}]}
    with Running(
        {**SETTINGS, "upstreams": upstreams, "models": {"qwen3": {"upstreams": ["local"]}}}, server
    ) as running:
        for path in ("/v1/messages", "/v1/messages/count_tokens"):
            given = body if path == "/v1/messages" else {key: body[key] for key in ("model", "messages")}
            refused = running.post(path, {**given, "fallbacks": [{"model": "other"}]}, bearer(ALICE))
            if path == "/v1/messages" or api == "messages":
                assert (refused.status, refused.json["error"]["type"]) == (403, "permission_error"), path
        assert not server.requests
        allowed = running.post("/v1/messages", {**body, "metadata": {"user_id": "u"}}, bearer(ALICE))
        assert allowed.status == 200


def test_a_key_for_some_models_gets_the_provider_that_the_operator_has_chosen() -> None:
    server, pinned = ModelServer(), {"provider": {"only": ["x"]}}
    model = {"upstreams": ["local"], "defaults": {"extra_body": pinned}}
    with Running({**SETTINGS, "models": {"qwen3": model}}, server) as running:
        for given in ({}, {"extra_body": {"top_a": 0.5}}, {"extra_body": None}):
            assert running.post("/v1/chat", CHAT | {"generate_cfg": given}, bearer(ALICE)).status == 200
    assert all(json.loads(request.content)["provider"] == {"only": ["x"]} for request in server.requests)


@pytest.mark.parametrize("extra", ROUTING)
def test_a_model_with_a_price_may_not_be_replaced_by_another_field(extra: dict[str, Any]) -> None:
    server = ModelServer()
    model = {"upstreams": ["local"], "price": {"input": 1, "output": 1}}
    with Running({**SETTINGS, "models": {"qwen3": model, "free": {"upstreams": ["local"]}}}, server) as running:
        chat = CHAT | {"generate_cfg": {"extra_body": extra}}
        refused = running.post("/v1/chat", chat, bearer(BOB))
        assert (refused.status, refused.json["error"]["code"]) == (403, "permission") and not server.requests
        assert "has a price" in refused.json["error"]["message"]
        assert running.post("/v1/chat", chat | {"model": "free"}, bearer(BOB)).status == 200


def test_a_fallback_with_a_price_is_not_called_with_a_field_that_chooses_another_model() -> None:
    server = ModelServer(lambda request: httpx.Response(503))
    priced = {"upstreams": ["local"], "price": {"input": 1, "output": 1}}
    free = {"upstreams": ["local"], "fallbacks": ["priced"]}
    with Running({**SETTINGS, "models": {"free": free, "priced": priced}}, server) as running:
        chat = CHAT | {"model": "free", "generate_cfg": {"extra_body": {"models": ["other"]}}}
        assert running.post("/v1/chat", chat, bearer(BOB)).status == 503
    assert {json.loads(request.content)["model"] for request in server.requests} == {"free"}


def test_the_list_of_models_has_those_of_the_key(gateway: Running) -> None:
    def listed(key: str) -> list[str]:
        return [row["id"] for row in gateway.get("/v1/models", bearer(key)).json["data"]]

    assert listed(ALICE) == ["qwen3"]
    assert listed(BOB) == ["qwen3", "fast", "gpt"]
    assert gateway.get("/v1/models/qwen3", bearer(ALICE)).status == 200
    assert gateway.get("/v1/models/gpt", bearer(ALICE)).status == 404


def test_administration_needs_a_key_with_admin_or_the_admin_key() -> None:
    with Running({**SETTINGS, "server": {"admin_key": "s3cret"}}, ModelServer()) as running:
        for key, status in [(ALICE, 403), (ADMIN, 200), ("s3cret", 200)]:
            assert running.get("/v1/cache", bearer(key)).status == status
        assert running.get("/metrics", bearer(ALICE)).status == 403
        assert running.post("/v1/chat", CHAT, bearer(ADMIN)).status == 200
        assert running.post("/v1/chat", CHAT, bearer("s3cret")).status == 403
        assert running.get("/v1/models", bearer("s3cret")).json["data"] == []
    with Running(SETTINGS, ModelServer()) as running:
        assert running.get("/v1/cache", bearer("s3cret")).status == 401


def label(running: Running, key: str, **more: Any) -> str:
    return str(running.post("/v1/chat", CHAT | more, bearer(key)).headers["x-parley-cache"])


def test_callers_do_not_share_stored_replies_unless_the_configuration_says_so() -> None:
    with Running(SETTINGS, ModelServer()) as running:
        assert [label(running, key) for key in (ALICE, ALICE, BOB, BOB)] == ["miss", "hit", "miss", "hit"]
    keys = {name: {**row, "cache_scope": "team"} for name, row in SETTINGS["keys"].items()}
    for settings in (
        {**SETTINGS, "keys": keys},
        {**SETTINGS, "cache": {"url": "memory:", "scope": "shared"}},
    ):
        with Running(settings, ModelServer()) as running:
            assert [label(running, key) for key in (ALICE, BOB)] == ["miss", "hit"]


def test_only_the_key_of_the_request_may_resume_read_or_cancel_a_reply() -> None:
    """Also where the callers share stored replies."""
    keys = {name: {**row, "cache_scope": "team"} for name, row in SETTINGS["keys"].items()}
    for more in ({}, {"keys": keys}, {"cache": {"url": "memory:", "scope": "shared"}}):
        with Running({**SETTINGS, **more}, ModelServer()) as running:
            id_ = running.post("/v1/chat", CHAT | {"stream": True}, bearer(ALICE)).frames[0]["response_id"]
            for method, path in [("GET", "/events"), ("GET", ""), ("DELETE", "")]:
                other = running.ask(method, f"/v1/chat/{id_}{path}", headers=bearer(BOB))
                assert (other.status, other.json["error"]["code"]) == (404, "not_found")
            for method, path in [("GET", "/events"), ("GET", ""), ("DELETE", "")]:
                assert running.ask(method, f"/v1/chat/{id_}{path}", headers=bearer(ALICE)).status == 200


def test_requests_without_a_key_are_served_if_the_configuration_says_so() -> None:
    with Running({**SETTINGS, "server": {"allow_anonymous": True}}, ModelServer()) as running:
        assert running.post("/v1/chat", CHAT).status == 200
        assert label(running, ALICE) == "miss"
        assert running.post("/v1/chat", CHAT, bearer("wrong")).status == 401
        assert running.get("/v1/cache").status == 403


def test_a_gateway_without_keys_accepts_any_key() -> None:
    settings = {name: value for name, value in SETTINGS.items() if name != "keys"}
    with Running(settings, ModelServer()) as running:
        assert [label(running, key) for key in ("any", "other")] == ["miss", "hit"]


def test_the_line_of_each_request_names_its_key_and_its_model(
    capsys: pytest.CaptureFixture[str],
) -> None:
    limited = {
        **SETTINGS,
        "models": {**SETTINGS["models"], "gpt": {"upstreams": ["local"], "limits": {"requests_per_minute": 1}}},
    }
    counted = {"model": "gpt", "max_tokens": 1, "messages": CHAT["messages"]}
    with Running(limited, ModelServer()) as running:
        capsys.readouterr()
        for body in ({"model": "fast"}, {"model": "gpt"}, {"model": "qwen9"}, {"model": "no"}):
            running.post("/v1/chat", {**CHAT, **body}, bearer(ALICE))
        for _ in range(2):
            running.post("/v1/chat", {**CHAT, "model": "gpt"}, bearer(BOB))
        running.get("/v1/models", bearer(BOB))
        running.post("/v1/messages/count_tokens", counted, bearer(BOB))
        running.get("/metrics", bearer(ADMIN))
    lines = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    shown = [(line.get("model", line.get("path")), line["key"], line["status"]) for line in lines if "key" in line]
    assert Counter(shown) == Counter(
        [
            *(("qwen3", "alice", 200), ("gpt", "alice", 403), ("qwen9", "alice", 404), ("no", "alice", 403)),
            *(("gpt", "bob", 200), ("gpt", "bob", 429)),
            *(("/v1/models", "bob", 200), ("/v1/messages/count_tokens", "bob", 200)),
        ]
    )
    assert len(lines) == len(shown)
