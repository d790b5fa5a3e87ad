"""`GET /v1/models`, and which model a request gets."""

import json
from typing import Any

import httpx
import pytest

from tests.inprocess import SAID, SERVER, STOP, Answer, ModelServer, Running, streamed

UPSTREAM = {"base_url": "http://model.test/v1", "api_key": "s3cret", "headers": {"x-team": "s3cret"}}
PASSING = {"upstreams": {"local": UPSTREAM}, "passthrough": "local"}
CONFIGURED = {
    "upstreams": {"local": UPSTREAM},
    "models": {"m": {"upstreams": ["local"], "name": "served/m", "aliases": ["also-m"]}, "n": {"upstreams": ["local"]}},
}


def listing(*ids: Any, status: int = 200) -> ModelServer:
    return serving(json.dumps({"object": "list", "data": [{"id": id_} for id_ in ids]}).encode(), status)


def serving(body: bytes, status: int = 200) -> ModelServer:
    def answer(request: httpx.Request) -> httpx.Response:
        if request.url.path == "/v1/models":
            return httpx.Response(status, content=body)
        return streamed(SAID, STOP)

    return ModelServer(answer)


def down(_: httpx.Request) -> httpx.Response:
    raise httpx.ConnectError("no")


def names(settings: dict[str, Any], server: ModelServer) -> list[str]:
    with Running(settings, server) as gateway:
        answer = gateway.get("/v1/models")
    assert answer.status == 200
    assert answer.json["object"] == "list"
    assert all(set(row) == {"id", "object", "created", "owned_by"} for row in answer.json["data"])
    assert b"s3cret" not in answer.body
    return [row["id"] for row in answer.json["data"]]


def test_configured_models_are_listed_with_their_aliases_and_nobody_is_asked() -> None:
    server = ModelServer()
    assert names(CONFIGURED, server) == ["m", "also-m", "n"]
    assert server.requests == []


def test_what_the_pass_throughs_server_lists_follows_each_name_once() -> None:
    assert names({**CONFIGURED, "passthrough": "local"}, listing("x", "m", "y", "x")) == ["m", "also-m", "n", "x", "y"]


def test_the_server_is_asked_with_its_key() -> None:
    server = listing("x")
    names(PASSING, server)
    (request,) = server.requests
    assert (str(request.url), request.headers["authorization"]) == ("http://model.test/v1/models", "Bearer s3cret")


@pytest.mark.parametrize(
    "server",
    [
        ModelServer(down),
        serving(b"<html>"),
        serving(b"[]"),
        serving(b'{"data": 3}'),
        serving(b'{"data": [1, {"id": 2}, {}]}'),
        serving(b'{"data": [{"id": "\\ud800"}]}'),
        serving(b"\xff"),
        serving(b"[" * 100_000),
        serving(b'{"error": {"message": "no"}}', 401),
    ],
)
def test_a_server_that_lists_nothing_takes_nothing_away(server: ModelServer) -> None:
    assert names({**CONFIGURED, "passthrough": "local"}, server) == ["m", "also-m", "n"]


def test_the_demo_model_is_listed() -> None:
    assert names({"demo": True}, ModelServer()) == ["demo"]


def told_of(settings: dict[str, Any], server: ModelServer, model: str) -> Answer:
    with Running(settings, server) as gateway:
        return gateway.get(f"/v1/models/{model}")


@pytest.mark.parametrize("model", ["m", "also-m"])
def test_a_configured_model_is_told_of_and_nobody_is_asked(model: str) -> None:
    server = ModelServer()
    answer = told_of({**CONFIGURED, "passthrough": "local"}, server, model)
    assert (answer.status, answer.json["id"], answer.json["object"]) == (200, model, "model")
    assert server.requests == []


def test_a_model_of_the_pass_throughs_server_is_told_of_by_its_name_with_slashes() -> None:
    assert told_of(PASSING, listing("some/x"), "some/x").json["id"] == "some/x"


@pytest.mark.parametrize("settings", [CONFIGURED, PASSING])
def test_a_model_that_is_not_listed_is_not_told_of(settings: dict[str, Any]) -> None:
    answer = told_of(settings, listing("x"), "some/y")
    error = answer.json["error"]
    assert (answer.status, error["code"], error["param"]) == (404, "model_not_found", "model")
    assert "'some/y'" in error["message"]


# -- which model ----------------------------------------------------------------------------


def ask(settings: dict[str, Any], model: str | None) -> tuple[Answer, str | None]:
    """The answer, and the model that the server was asked for."""
    server = ModelServer()
    body: dict[str, Any] = {"messages": [{"role": "user", "content": "x"}], "stream": False}
    with Running(settings, server) as gateway:
        answer = gateway.post("/v1/chat", body if model is None else {**body, "model": model})
    asked = json.loads(server.requests[0].content)["model"] if server.requests else None
    return answer, asked


@pytest.mark.parametrize(
    ("settings", "model", "told", "asked"),
    [
        (CONFIGURED, "m", "m", "served/m"),
        (CONFIGURED, "also-m", "m", "served/m"),
        (CONFIGURED, "n", "n", "n"),
        ({**CONFIGURED, "default_model": "also-m"}, None, "m", "served/m"),
        (SERVER, None, "m", "m"),
        (PASSING, "any/thing", "any/thing", "any/thing"),
        ({**CONFIGURED, "passthrough": "local"}, "m", "m", "served/m"),
        ({**PASSING, "default_model": "any"}, None, "any", "any"),
    ],
)
def test_a_name_leads_to_its_model(settings: dict[str, Any], model: str | None, told: str, asked: str) -> None:
    answer, sent = ask(settings, model)
    assert (answer.status, answer.json["model"], sent) == (200, told, asked)


def test_an_unknown_model_is_named_and_nothing_is_sent() -> None:
    answer, sent = ask(CONFIGURED, "served/m")
    error = answer.json["error"]
    assert (answer.status, error["code"], error["param"], sent) == (404, "unknown_model", "model", None)
    assert "'served/m'" in error["message"]


@pytest.mark.parametrize("settings", [CONFIGURED, PASSING])
def test_without_a_default_a_model_must_be_named(settings: dict[str, Any]) -> None:
    answer, sent = ask(settings, None)
    assert (answer.status, answer.json["error"]["param"], sent) == (400, "model", None)
