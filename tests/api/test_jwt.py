"""Callers with JWTs over HTTP: what they may do, what is theirs, and what a reload and a rotation change."""

import asyncio
import json
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from app.access import hash_key
from app.config.settings import Settings

from tests.in_process_gateway import SERVER, Answer, ModelServer, Running
from tests.token_issuer import AUDIENCE, ISSUER, KEYS_URL, IdentityProvider, make_claims, make_jwk, sign

CHAT: dict[str, Any] = {"model": "m", "messages": [{"role": "user", "content": "x"}], "stream": False}
KEY = "key-of-alice-0001"
ROW: dict[str, Any] = {"issuer": ISSUER, "audience": AUDIENCE}


def settings(row: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    return {**SERVER, "jwt": {"kc": {**ROW, **(row or {})}}, **more}


def serve(provider: IdentityProvider, tree: dict[str, Any], **more: Any) -> Running:
    return Running(tree, ModelServer(lambda request: provider(request) or ModelServer.short_reply()), **more)


def chat(gateway: Running, token: str, **body: Any) -> Answer:
    return gateway.post("/v1/chat", {**CHAT, **body}, {"authorization": f"Bearer {token}"})


@pytest.fixture(scope="module")
def provider() -> IdentityProvider:
    return IdentityProvider()


@pytest.fixture(scope="module")
def gateway(provider: IdentityProvider) -> Iterator[Running]:
    row = {"admin_claim": "realm_access.roles", "admin_value": "parley-admin"}
    keys = {"alice": {"sha256": hash_key(KEY), "models": ["none"]}}
    with serve(provider, settings(row, keys=keys, cache={"url": "memory:"})) as running:
        yield running


def test_a_token_is_accepted_in_each_header_of_a_key_and_is_not_sent_to_a_model_server() -> None:
    provider = IdentityProvider()
    server = ModelServer(lambda request: provider(request) or ModelServer.short_reply())
    with Running(settings(), server) as gateway:
        token = sign(make_claims())
        for headers in ({"authorization": f"Bearer {token}"}, {"x-api-key": token}, {"api-key": token}):
            for path in ("/v1/chat", "/v1/chat/completions"):
                assert gateway.post(path, CHAT, headers).status == 200
    sent = [request for request in server.requests if request.method == "POST"]
    assert len(sent) == 6
    assert not any(token in value for request in server.requests for value in request.headers.values())
    assert len(provider.requests) == 2


def test_each_refusal_is_a_401_that_says_why_in_the_shape_of_its_path(gateway: Running) -> None:
    for token, words in [
        (sign(make_claims(exp=1)), "expired at 1970-01-01T00:00:01Z"),
        (sign(make_claims(aud="other")), "the audience 'other'"),
        (sign(make_claims(iss="https://evil.test")), "'https://evil.test' is not known here"),
        (sign(make_claims(), kid="unknown"), "the key id 'unknown'"),
        (sign(make_claims(), number=1), "signature"),
        (sign(make_claims(), "ES384"), "the algorithm 'ES384'"),
        (sign(make_claims(sub=None)), "no claim 'sub'"),
        ("eyJ", "1 parts instead of 3"),
    ]:
        for path in ("/v1/chat", "/v1/chat/completions", "/v1/messages", "/v1/responses"):
            answer = gateway.post(path, CHAT, {"authorization": f"Bearer {token}"})
            assert answer.status == 401, (path, words)
            assert answer.headers["www-authenticate"] == 'Bearer realm="parley", error="invalid_token"'
            assert words in answer.json["error"]["message"]
            assert token not in answer.body.decode()
    missing = gateway.post("/v1/chat", CHAT)
    assert missing.status == 401
    assert "an API key or a JWT is required" in missing.json["error"]["message"]


def test_the_models_of_a_token_and_its_team_hold_at_each_endpoint() -> None:
    tree = settings({"team_claim": "groups"}, teams={"a": {"models": ["m"]}, "b": {"models": ["other"]}})
    with serve(IdentityProvider(), tree) as gateway:
        for team, status in (("a", 200), ("b", 403)):
            headers = {"authorization": f"Bearer {sign(make_claims(groups=['x', team]))}"}
            for path, body in (
                ("/v1/chat", CHAT),
                ("/v1/chat/completions", CHAT),
                ("/v1/messages", {**CHAT, "max_tokens": 9}),
                ("/v1/responses", {"model": "m", "input": "x"}),
            ):
                assert gateway.post(path, body, headers).status == status, (path, team)
            listed = gateway.get("/v1/models", headers).json["data"]
            assert [row["id"] for row in listed] == (["m"] if status == 200 else [])


def test_of_a_token_and_a_key_the_first_that_is_accepted_counts(gateway: Running) -> None:
    bad, good = sign(make_claims(exp=1)), sign(make_claims())
    for bearer, key, name in [
        (bad, KEY, "alice"),
        (good, KEY, "kc:alice"),
        (KEY, good, "alice"),
        ("x", good, "kc:alice"),
    ]:
        answer = gateway.get("/v1/usage", {"authorization": f"Bearer {bearer}", "x-api-key": key})
        assert answer.status in (200, 404)
        refused = gateway.get("/v1/usage?key=nobody", {"authorization": f"Bearer {bearer}", "x-api-key": key})
        assert f"{name!r} may only see its own usage" in refused.json["error"]["message"]


def test_no_token_takes_over_what_belongs_to_a_key(gateway: Running) -> None:
    key = {"authorization": f"Bearer {KEY}"}
    token = {"authorization": f"Bearer {sign(make_claims(sub='alice'))}"}
    assert gateway.post("/v1/chat", CHAT, key).status == 403
    stored = gateway.post("/v1/responses", {"model": "m", "input": "x"}, token).json["id"]
    assert gateway.get(f"/v1/responses/{stored}", token).status == 200
    assert gateway.get(f"/v1/responses/{stored}", key).status == 404
    other = {"authorization": f"Bearer {sign(make_claims(sub='bob'))}"}
    assert gateway.get(f"/v1/responses/{stored}", other).status == 404
    again = {"authorization": f"Bearer {sign(make_claims(sub='alice', jti='another'))}"}
    assert gateway.get(f"/v1/responses/{stored}", again).status == 200


def test_an_id_never_reaches_into_the_name_of_another_caller(provider: IdentityProvider) -> None:
    keys = {"kc": {"sha256": hash_key(KEY)}}
    with serve(provider, settings(keys=keys, cache={"url": "memory:"})) as gateway:
        key, alice, other = (
            {"authorization": f"Bearer {text}"}
            for text in (KEY, sign(make_claims()), sign(make_claims(sub="alice:other")))
        )
        body = {"model": "m", "input": "Hi"}
        for owner, stranger, name in ((alice, key, "alice"), (other, key, "alice:other"), (other, alice, "other")):
            id_ = gateway.post("/v1/responses", body, owner).json["id"]
            for colon in (":", "%3A"):
                assert gateway.get(f"/v1/responses/{name}{colon}{id_}", stranger).status == 404
            continued = {**body, "previous_response_id": f"{name}:{id_}"}
            assert gateway.post("/v1/responses", continued, stranger).status == 400
            assert gateway.ask("DELETE", f"/v1/responses/{name}:{id_}", (), stranger).status == 404
            assert gateway.get(f"/v1/responses/{id_}", owner).status == 200


def test_each_caller_has_stored_replies_of_its_own(gateway: Running) -> None:
    def ask(name: str) -> str:
        body = {"generate_cfg": {"temperature": 0}, "messages": [{"role": "user", "content": "own"}]}
        return chat(gateway, sign(make_claims(sub=name)), **body).headers["x-parley-cache"]

    assert [ask("carol"), ask("carol"), ask("dave")] == ["miss", "hit", "miss"]


def test_the_value_of_a_claim_makes_an_administrator(gateway: Running) -> None:
    rows: list[tuple[dict[str, Any], int]] = [
        ({"jti": "1"}, 403),
        ({"realm_access": {"roles": ["user"]}}, 403),
        ({"realm_access": {"roles": ["user", "parley-admin"]}}, 200),
        ({"realm_access.roles": ["parley-admin"]}, 200),
    ]
    for claims, status in rows:
        token = sign(make_claims(**claims))
        for path in ("/v1/cache", "/v1/status", "/metrics"):
            assert gateway.get(path, {"authorization": f"Bearer {token}"}).status == status, path


def test_the_log_the_metrics_and_the_usage_name_the_caller_and_never_have_the_token(
    caplog: pytest.LogCaptureFixture,
) -> None:
    token = sign(make_claims(sub="agent|7"))
    row = {"admin_claim": "sub", "admin_value": "root"}
    with caplog.at_level(logging.DEBUG), serve(IdentityProvider(), settings(row, usage={"url": "memory:"})) as gateway:
        assert chat(gateway, token).status == 200
        assert chat(gateway, sign(make_claims(aud="other"))).status == 401
        root = {"authorization": f"Bearer {sign(make_claims(sub='root'))}"}
        assert 'key="kc:agent|7"' in gateway.get("/metrics", root).body.decode()
        rows = gateway.get("/v1/usage", root).json["data"]
        assert [row["key"] for row in rows] == ["kc:agent|7"]
        own = gateway.get("/v1/usage", {"authorization": f"Bearer {token}"}).json
        assert own["total"]["requests"] == 1
    assert token.split(".")[1] not in caplog.text
    assert token.split(".")[2] not in caplog.text


def test_limits_are_those_of_each_caller_and_of_the_team_that_its_token_names() -> None:
    tree = settings(
        {"team_claim": "team", "limits": {"requests_per_minute": 2}},
        teams={"a": {"limits": {"requests_per_minute": 3}}, "b": {"models": ["other"]}},
    )
    with serve(IdentityProvider(), tree) as gateway:

        def ask(name: str, team: str = "a") -> tuple[int, str]:
            answer = chat(gateway, sign(make_claims(sub=name, team=team)))
            return answer.status, "" if answer.status == 200 else answer.json["error"]["message"]

        assert [ask("alice")[0] for _ in range(2)] == [200, 200]
        status, message = ask("alice")
        assert (status, "the JWT caller 'kc:alice'" in message) == (429, True)
        assert ask("bob")[0] == 200
        status, message = ask("bob")
        assert (status, "the team 'a'" in message) == (429, True)
        status, message = ask("carol", "b")
        assert (status, "of its team 'b': other" in message) == (403, False)
        assert "it may use: other" in message
        assert ask("dave", "nobody")[0] == 403


def test_a_key_that_the_provider_rotates_is_fetched_once_and_the_old_one_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("app.access.jwks.MIN_SECONDS", 0.0)
    provider = IdentityProvider()
    with serve(provider, settings({"jwks_url": KEYS_URL})) as gateway:
        old = sign(make_claims())
        assert chat(gateway, old).status == 200
        assert chat(gateway, old).status == 200
        assert len(provider.requests) == 1
        provider.keys = [make_jwk("ES256", "2", 1)]
        assert chat(gateway, old).status == 200
        assert chat(gateway, sign(make_claims(), kid="2", number=1)).status == 200
        assert len(provider.requests) == 2
        refused = chat(gateway, old)
        assert (refused.status, "no such key" in refused.json["error"]["message"]) == (401, True)
        provider.keys = [make_jwk("ES256", "2", 2)]
        assert chat(gateway, sign(make_claims(), kid="2", number=2)).status == 200


def test_a_flood_of_tokens_with_unknown_keys_is_no_flood_of_fetches() -> None:
    provider = IdentityProvider()
    with serve(provider, settings({"jwks_url": KEYS_URL})) as gateway:
        tokens = [sign(make_claims(), kid=f"unknown-{number}") for number in range(50)]

        async def flood() -> list[Answer]:
            raw = [json.dumps(CHAT).encode()]
            return await asyncio.gather(
                *(gateway.ask_async("POST", "/v1/chat", raw, {"x-api-key": token}) for token in tokens)
            )

        answers = gateway.loop.run_until_complete(flood())
        assert {answer.status for answer in answers} == {401}
        assert len(provider.requests) == 1
        assert chat(gateway, sign(make_claims())).status == 200


def test_while_the_keys_were_never_fetched_the_answer_is_503_and_is_sent_again_by_clients() -> None:
    provider = IdentityProvider()
    provider.answer = httpx.ConnectError("refused")
    with serve(provider, settings({"jwks_url": KEYS_URL})) as gateway:
        answer = chat(gateway, sign(make_claims()))
        assert answer.status == 503
        assert answer.json["error"]["code"] == "overloaded"
        assert answer.json["error"]["retryable"]
        assert "could not be fetched" in answer.json["error"]["message"]


def test_the_metrics_say_whether_the_last_fetch_of_keys_succeeded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.access.jwks.MIN_SECONDS", 0.0)
    provider = IdentityProvider()
    row = {"jwks_url": KEYS_URL, "admin_claim": "sub", "admin_value": "alice"}
    with serve(provider, settings(row)) as gateway:

        def read() -> str:
            metrics = gateway.get("/metrics", {"authorization": f"Bearer {sign(make_claims())}"}).body.decode()
            return next(line for line in metrics.splitlines() if line.startswith("parley_jwks_last_fetch_successful{"))

        assert read() == 'parley_jwks_last_fetch_successful{issuer="kc"} 1.0'
        provider.answer = httpx.ConnectError("refused")
        assert chat(gateway, sign(make_claims(), kid="new")).status == 401
        assert read() == 'parley_jwks_last_fetch_successful{issuer="kc"} 0.0'


def test_of_two_tokens_the_one_whose_key_is_not_known_lets_the_keys_be_fetched(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("app.access.jwks.MIN_SECONDS", 0.0)
    provider = IdentityProvider()
    with serve(provider, settings({"jwks_url": KEYS_URL})) as gateway:
        assert chat(gateway, sign(make_claims())).status == 200
        provider.keys = [make_jwk("ES256", "2", 1)]
        expired, new = sign(make_claims(exp=1)), sign(make_claims(), kid="2", number=1)
        for first, second in ((expired, new), (new, expired)):
            headers = {"authorization": f"Bearer {first}", "x-api-key": second}
            assert gateway.post("/v1/chat", CHAT, headers).status == 200


def test_the_limits_of_an_issuer_hold_where_nothing_else_is_limited() -> None:
    with serve(IdentityProvider(), settings({"limits": {"requests_per_minute": 1}})) as gateway:
        token = sign(make_claims())
        assert [chat(gateway, token).status for _ in range(2)] == [200, 429]
        assert chat(gateway, sign(make_claims(sub="bob"))).status == 200


def test_a_reload_changes_issuers_and_forgets_what_was_verified() -> None:
    provider, tree = IdentityProvider(), settings({"audience": [AUDIENCE]})

    def load() -> Settings:
        return Settings.model_validate({"cache": {"url": "null:"}, **tree})

    with serve(provider, tree, load_settings=load) as gateway:
        reloader = gateway.context.reloader
        assert reloader is not None
        token, other = sign(make_claims()), sign(make_claims(aud="new"))
        assert [chat(gateway, token).status, chat(gateway, other).status] == [200, 401]
        fetched = len(provider.requests)
        tree["jwt"]["kc"]["audience"] = ["new"]
        assert gateway.loop.run_until_complete(reloader.reload())
        assert [chat(gateway, token).status, chat(gateway, other).status] == [401, 200]
        assert len(provider.requests) == fetched
        tree["jwt"]["kc"]["issuer"] = "https://other.test"
        assert gateway.loop.run_until_complete(reloader.reload())
        assert chat(gateway, other).status == 401
        del tree["jwt"]["kc"]
        assert gateway.loop.run_until_complete(reloader.reload())
        assert chat(gateway, "anything").status == 200


def test_an_administrator_with_a_token_makes_keys_and_is_named_as_who_made_them(tmp_path: Path) -> None:
    row = {"admin_claim": "admin", "admin_value": True}
    with serve(IdentityProvider(), settings(row, state={"url": f"sqlite:///{tmp_path}/state.db"})) as gateway:
        admin = {"authorization": f"Bearer {sign(make_claims(admin=True))}"}
        made = gateway.post("/v1/keys", {"name": "made"}, admin)
        assert (made.status, made.json["created_by"]) == (201, "kc:alice")
        assert chat(gateway, made.json["key"]).status == 200
        assert gateway.post("/v1/keys", {"name": "more"}, {"authorization": f"Bearer {made.json['key']}"}).status == 403
        assert gateway.post("/v1/keys", {"name": "kc:alice"}, admin).status == 422


def test_the_pages_are_open_and_ask_for_a_token(gateway: Running) -> None:
    assert gateway.get("/healthz").status == 200
    assert gateway.get("/playground/gateway.json").json["needs_key"] is True
