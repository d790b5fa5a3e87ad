"""`GET /v1/models`, and which model a request gets."""

import asyncio
import json
from typing import Any

import httpx
import pytest

from tests.in_process_gateway import HELLO, SERVER, STOP, Answer, ModelServer, Running, streamed

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
        return streamed(HELLO, STOP)

    return ModelServer(answer)


def down(_: httpx.Request) -> httpx.Response:
    raise httpx.ConnectError("no")


def names(settings: dict[str, Any], server: ModelServer) -> list[str]:
    with Running(settings, server) as gateway:
        answer = gateway.get("/v1/models")
    assert answer.status == 200
    assert answer.json["object"] == "list"
    assert all(
        set(row)
        == {
            *("id", "object", "created", "owned_by", "type", "display_name", "created_at", "parley"),
            *("max_input_tokens", "max_tokens", "context_window", "endpoints"),
        }
        for row in answer.json["data"]
    )
    assert b"s3cret" not in answer.body
    return [row["id"] for row in answer.json["data"]]


def test_configured_models_are_listed_with_their_aliases_without_a_request() -> None:
    server = ModelServer()
    assert names(CONFIGURED, server) == ["m", "also-m", "n"]
    assert server.requests == []


def test_two_gateways_of_one_process_list_their_own_models() -> None:
    """Their routes are the same objects."""
    with Running(CONFIGURED) as one, Running(SERVER) as other:
        listed = [[row["id"] for row in gateway.get("/v1/models").json["data"]] for gateway in (one, other)]
    assert listed == [["m", "also-m", "n"], ["m"]]


def test_a_row_says_what_the_model_can_do_on_all_of_its_servers() -> None:
    upstreams = {"a": {**UPSTREAM, "kind": "vllm"}, "b": {**UPSTREAM, "kind": "lmstudio"}}
    models = {
        "both": {"upstreams": ["a", "b"], "aliases": ["alias"]},
        "text": {"upstreams": ["a"], "profile": {"text_tools": "hermes", "media": [], "max_input_tokens": 100}},
        "prompt": {"upstreams": ["a"], "profile": {"native_tools": False}},
    }
    with Running({"upstreams": upstreams, "models": models, "demo": True}, ModelServer()) as gateway:
        rows = {row["id"]: row["parley"] for row in gateway.get("/v1/models").json["data"]}
        one = gateway.get("/v1/models/text").json["parley"]
    both = {
        "kinds": ["vllm", "lmstudio"],
        "tools": "native",
        "thinking_switch": False,
        "media": ["image"],
        "max_input_tokens": None,
        "endpoints": ["chat"],
        "mcp_servers": {},
        "hosted_tools": [],
    }
    assert rows["both"] == rows["alias"] == both
    assert one == rows["text"]
    assert one == {
        "kinds": ["vllm"],
        "tools": "text",
        "thinking_switch": True,
        "media": [],
        "max_input_tokens": 100,
        "endpoints": ["chat"],
        "mcp_servers": {},
        "hosted_tools": [],
    }
    assert (rows["prompt"]["tools"], rows["demo"]["kinds"]) == ("prompt", ["demo"])


def test_a_row_has_the_lengths_of_conversations_and_replies_at_its_top() -> None:
    upstreams = {"b": UPSTREAM}
    models = {
        "limited": {"upstreams": ["b"], "profile": {"max_input_tokens": 100}},
        "unknown": {"upstreams": ["b"]},
    }
    with Running({"upstreams": upstreams, "models": models}, ModelServer()) as gateway:
        rows = {row["id"]: row for row in gateway.get("/v1/models").json["data"]}
        assert gateway.get("/v1/models/limited").json["max_input_tokens"] == 100
    found = {name: (row["max_input_tokens"], row["max_tokens"], row["context_window"]) for name, row in rows.items()}
    assert found == {"limited": (100, None, 100), "unknown": (None, None, None)}


def test_a_model_of_the_pass_throughs_server_has_what_its_kind_can_do() -> None:
    settings = {"upstreams": {"local": {**UPSTREAM, "kind": "openai"}}, "passthrough": "local"}
    with Running(settings, listing("x")) as gateway:
        (row,) = gateway.get("/v1/models").json["data"]
    assert (row["parley"]["kinds"], row["parley"]["media"]) == (["openai"], ["image", "audio", "file"])


def test_what_the_pass_throughs_server_lists_follows_each_name_once() -> None:
    assert names({**CONFIGURED, "passthrough": "local"}, listing("x", "m", "y", "x")) == ["m", "also-m", "n", "x", "y"]


def test_the_request_for_models_has_the_key_of_the_server() -> None:
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


def get_model(settings: dict[str, Any], server: ModelServer, model: str) -> Answer:
    with Running(settings, server) as gateway:
        return gateway.get(f"/v1/models/{model}")


@pytest.mark.parametrize("model", ["m", "also-m"])
def test_a_configured_model_is_read_without_a_request(model: str) -> None:
    server = ModelServer()
    answer = get_model({**CONFIGURED, "passthrough": "local"}, server, model)
    assert (answer.status, answer.json["id"], answer.json["object"]) == (200, model, "model")
    assert server.requests == []


def test_a_model_of_the_pass_through_is_read_by_its_name_with_slashes() -> None:
    assert get_model(PASSING, listing("some/x"), "some/x").json["id"] == "some/x"


@pytest.mark.parametrize("settings", [CONFIGURED, PASSING])
def test_a_model_that_is_not_listed_is_not_found(settings: dict[str, Any]) -> None:
    answer = get_model(settings, listing("x"), "some/y")
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
    ("settings", "model", "model_used", "asked"),
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
def test_a_name_leads_to_its_model(settings: dict[str, Any], model: str | None, model_used: str, asked: str) -> None:
    answer, sent = ask(settings, model)
    assert (answer.status, answer.json["model"], sent) == (200, model_used, asked)


def test_an_unknown_model_is_named_and_nothing_is_sent() -> None:
    answer, sent = ask(CONFIGURED, "served/m")
    error = answer.json["error"]
    assert (answer.status, error["code"], error["param"], sent) == (404, "unknown_model", "model", None)
    assert "'served/m'" in error["message"]


def without_a_model(settings: dict[str, Any], server: ModelServer) -> tuple[Answer, list[str]]:
    """The answer to a request that names no model, and the models that the server was asked for."""
    with Running(settings, server) as gateway:
        answer = gateway.post("/v1/chat", {"messages": [{"role": "user", "content": "x"}], "stream": False})
    bodies = [json.loads(request.content) for request in server.requests if request.method == "POST"]
    return answer, [body["model"] for body in bodies if body]  # an empty one only asks whether the path is there


def test_several_configured_models_are_named_where_one_must_be_chosen() -> None:
    answer, sent = without_a_model(CONFIGURED, ModelServer())
    error = answer.json["error"]
    assert (answer.status, error["code"], error["param"], sent) == (400, "invalid_request", "model", [])
    assert "m, n" in error["message"]
    assert "default_model" in error["message"]


def test_the_only_model_of_the_server_is_the_default() -> None:
    answer, sent = without_a_model(PASSING, listing("some/x"))
    assert (answer.status, answer.json["model"], sent) == (200, "some/x", ["some/x"])


def test_several_models_of_the_server_are_named_in_a_list_that_stays_short() -> None:
    answer, sent = without_a_model(PASSING, listing(*(f"model-{at}" for at in range(5000)), "x" * 300))
    message = answer.json["error"]["message"]
    assert (answer.status, answer.json["error"]["param"], sent) == (400, "model", [])
    assert "model-0, model-1, " in message
    assert "more" in message
    assert len(message) < 500


@pytest.mark.parametrize(
    "server",
    [ModelServer(), listing(), serving(b"[" * 100_000), serving(b"no", 404)],
    ids=["no JSON", "0", "deep", "404"],
)
def test_a_server_without_a_list_leaves_the_choice_to_the_caller(server: ModelServer) -> None:
    answer, sent = without_a_model(PASSING, server)
    assert (answer.status, answer.json["error"]["param"], sent) == (400, "model", [])


@pytest.mark.parametrize(
    ("server", "status", "cause"),
    [(ModelServer(down), 502, "connection_failed"), (serving(b"{}", 503), 503, "error_status")],
)
def test_a_server_that_does_not_list_its_models_is_the_error(server: ModelServer, status: int, cause: str) -> None:
    answer, _ = without_a_model(PASSING, server)
    upstream = answer.json["error"]["upstream"]
    assert (answer.status, upstream["name"], upstream["cause"]) == (status, "local", cause)


def test_the_models_of_a_server_are_requested_once_until_it_fails() -> None:
    broken = [False]

    def answer(request: httpx.Request) -> httpx.Response:
        if request.method == "GET":
            return httpx.Response(200, json={"data": [{"id": "new" if broken[0] else "old"}]})
        return httpx.Response(500, json={}) if broken[0] else streamed(HELLO, STOP)

    server = ModelServer(answer)
    body = {"messages": [{"role": "user", "content": "x"}], "stream": False}
    with Running(PASSING, server) as gateway:
        assert [gateway.post("/v1/chat", body).json["model"] for _ in range(3)] == ["old"] * 3
        assert [request.method for request in server.requests] == ["GET", "POST", "POST", "POST"]
        broken[0] = True
        gateway.post("/v1/chat", body)
        broken[0] = False
        gateway.post("/v1/chat", body)
    assert [request.method for request in server.requests[4:]] == ["POST", "GET", "POST"]


def test_requests_at_the_same_time_ask_the_server_once() -> None:
    server = listing("x")
    raw = [json.dumps({"messages": [{"role": "user", "content": "x"}], "stream": False}).encode()]
    with Running(PASSING, server) as gateway:

        async def all_at_once() -> list[Answer]:
            return await asyncio.gather(*(gateway.ask_async("POST", "/v1/chat", raw) for _ in range(5)))

        answers = gateway.loop.run_until_complete(all_at_once())
    assert [answer.status for answer in answers] == [200] * 5
    assert [request.method for request in server.requests].count("GET") == 1


def refusing_models(*ids: str) -> ModelServer:
    def answer(request: httpx.Request) -> httpx.Response:
        if request.method == "GET":
            return httpx.Response(200, json={"data": [{"id": id_} for id_ in ids]})
        return httpx.Response(404, json={"error": {"message": "The model `qwen3` does not exist"}})

    return ModelServer(answer)


@pytest.mark.parametrize("asked", ["qwen3-8", "Qwen3-8b", "qwen/qwen3-8b"])
def test_the_nearest_model_is_named_to_a_caller_of_an_unknown_one(asked: str) -> None:
    known = {"upstreams": {"local": UPSTREAM}, "models": {"Qwen/Qwen3-8B": {"upstreams": ["local"]}}}
    with Running(known, ModelServer()) as gateway:
        error = gateway.post("/v1/chat", {"model": asked, "messages": []} | chat).json["error"]
    assert (error["code"], "did you mean 'Qwen/Qwen3-8B'?" in error["message"]) == ("unknown_model", True)
    with Running(PASSING, refusing_models("Qwen/Qwen3-8B", "other")) as gateway:
        error = gateway.post("/v1/chat", {"model": asked} | chat).json["error"]
    assert (error["code"], "did you mean 'Qwen/Qwen3-8B'?" in error["message"]) == ("not_found", True)


chat: dict[str, Any] = {"messages": [{"role": "user", "content": "x"}], "stream": False}


def test_a_list_that_fails_is_an_error_where_nothing_else_can_be_listed() -> None:
    with Running(PASSING, ModelServer(down)) as gateway:
        answer = gateway.get("/v1/models")
    assert (answer.status, answer.json["error"]["upstream"]["cause"]) == (502, "connection_failed")


# -- a base_url that is wrong --------------------------------------------------------------


def at(*paths: str) -> ModelServer:
    """A server that knows these paths."""

    def answer(request: httpx.Request) -> httpx.Response:
        if request.url.path not in paths:
            return httpx.Response(404, json={"detail": "Not Found"})
        listed = {"data": [{"id": "x"}]}
        return httpx.Response(200, json=listed) if request.method == "GET" else streamed(HELLO, STOP)

    return ModelServer(answer)


@pytest.mark.parametrize("model", ["x", None])
@pytest.mark.parametrize(
    ("base_url", "hint"),
    [
        ("http://model.test:9999", "base_url probably lacks /v1"),
        ("http://model.test:9999/v1/v1", "base_url probably has /v1 twice"),
        ("http://model.test:9999/v1/chat/completions", "base_url probably ends with /chat/completions"),
        ("http://model.test:9999/chat/completions", "base_url probably ends with /chat/completions and lacks /v1"),
    ],
)
def test_the_error_of_a_wrong_base_url_does_not_show_the_address(
    base_url: str, hint: str, model: str | None, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = {"upstreams": {"local": {"base_url": base_url}}, "passthrough": "local"}
    with Running(settings, at("/v1/chat/completions", "/v1/models")) as gateway:
        answer = gateway.post("/v1/chat", chat | ({"model": model} if model else {}))
    error = answer.json["error"]
    assert (hint in error["message"], error["upstream"]["cause"]) == (True, "wrong_base_url")
    assert b"9999" not in answer.body
    line = json.loads(capsys.readouterr().err.splitlines()[-1])
    assert (line["level"], line["address"], hint in line["reason"]) == ("warning", base_url, True)


def test_a_second_v1_is_reported_if_the_server_has_no_list() -> None:
    with Running(PASSING, at("/chat/completions")) as gateway:
        message = gateway.post("/v1/chat", {"model": "x"} | chat).json["error"]["message"]
    assert "base_url probably must not end with /v1" in message


def test_a_wrong_base_url_is_looked_into_once_for_all_requests() -> None:
    settings = {"upstreams": {"local": {"base_url": "http://model.test"}}, "passthrough": "local"}
    server = at("/v1/chat/completions", "/v1/models")
    with Running(settings, server) as gateway:
        for _ in range(3):
            gateway.post("/v1/chat", {"model": "x"} | chat)
    assert [request.url.path for request in server.requests].count("/v1/models") == 1


def test_a_model_that_the_server_does_not_know_is_no_wrong_base_url() -> None:
    with Running(CONFIGURED, refusing_models()) as gateway:
        error = gateway.post("/v1/chat", {"model": "m"} | chat).json["error"]
    assert (error["upstream"]["cause"], "base_url" in error["message"]) == ("error_status", False)
