"""A server of the Messages API is asked for the number of a request's input tokens."""

import json
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from tests.in_process_gateway import Answer, ModelServer, Running
from tests.upstream.messages.replies import SETTINGS

Json = dict[str, Any]
ASK: Json = {"model": "anthropic", "messages": [{"role": "user", "content": "Hi"}]}
UNKNOWN: Json = {**ASK, "messages": [{"role": "user", "content": [{"type": "future_block", "x": 1}]}]}
Reply = Callable[[httpx.Request], httpx.Response]


def tell(status: int, body: Any) -> Reply:
    return lambda _: httpx.Response(status, json=body)


COUNTED = tell(200, {"input_tokens": 42, "context_management": {"original_input_tokens": 50}})
ABSENT = tell(404, {"detail": "Not Found"})


def post(server: ModelServer, body: Json, settings: Json = SETTINGS, **headers: str) -> Answer:
    with Running(settings, server) as gateway:
        return gateway.post(
            "/v1/messages/count_tokens", body, {name.replace("_", "-"): headers[name] for name in headers}
        )


def sent(server: ModelServer) -> Json:
    found: Json = json.loads(server.requests[-1].content)
    return found


def test_the_server_is_sent_the_clients_own_body_and_its_answer_is_the_clients() -> None:
    server = ModelServer(COUNTED)
    body = {**ASK, "tools": [{"type": "web_search_20250305", "name": "web_search"}], "future": {"x": 1}}
    answer = post(server, body, anthropic_beta="a", anthropic_version="2024-01-01")
    assert answer.json == {"input_tokens": 42, "context_management": {"original_input_tokens": 50}}
    request = server.requests[-1]
    assert (request.method, str(request.url)) == ("POST", "http://model.test/v1/messages/count_tokens")
    assert sent(server) == {**body, "model": "up-model"}
    assert request.headers.get_list("anthropic-version") == ["2024-01-01"]
    assert request.headers["anthropic-beta"] == "a"


def test_fields_that_no_count_has_are_not_sent() -> None:
    server = ModelServer(COUNTED)
    assert (
        post(server, {**ASK, "max_tokens": 5, "stream": True, "temperature": 0.5, "stop_sequences": ["x"]}).status
        == 200
    )
    assert sent(server) == {**ASK, "model": "up-model"}


def test_what_the_gateway_cannot_read_is_counted_by_the_server() -> None:
    server = ModelServer(COUNTED)
    assert post(server, UNKNOWN).json["input_tokens"] == 42
    assert sent(server)["messages"] == UNKNOWN["messages"]


def test_a_server_without_the_path_is_asked_once() -> None:
    server = ModelServer(ABSENT)
    with Running(SETTINGS, server) as gateway:
        answers = [gateway.post("/v1/messages/count_tokens", ASK) for _ in range(2)]
        refused = gateway.post("/v1/messages/count_tokens", UNKNOWN)
    assert [answer.status for answer in answers] == [200, 200]
    assert answers[0].json == answers[1].json != {"input_tokens": 42}
    assert refused.status == 400
    assert len(server.requests) == 1


@pytest.mark.parametrize(
    ("reply", "status"),
    [
        (tell(529, {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}), 529),
        (tell(400, {"type": "error", "error": {"type": "invalid_request_error", "message": "no such field"}}), 400),
        (tell(200, {"tokens": 3}), 502),
        (tell(200, {"input_tokens": -1}), 502),
        (tell(200, [1]), 502),
        (lambda _: httpx.Response(200, content=b"<html>"), 502),
    ],
)
def test_an_error_is_that_of_any_other_request(reply: Reply, status: int) -> None:
    answer = post(ModelServer(reply), ASK)
    assert (answer.status, answer.json["type"]) == (status, "error"), answer.body


def test_a_private_url_is_not_sent() -> None:
    server = ModelServer(COUNTED)
    block = {"type": "image", "source": {"type": "url", "url": "http://10.0.0.1/x"}}
    body = {**ASK, "messages": [{"role": "user", "content": [block, {"type": "future_block"}]}]}
    assert post(server, body).status == 400
    assert not server.requests


def test_a_server_of_another_api_and_a_truncated_request_are_counted_by_the_gateway() -> None:
    server = ModelServer(COUNTED)
    chat = {**SETTINGS, "upstreams": {"anthropic": {"base_url": "http://model.test/v1"}}}
    chat["models"] = {"anthropic": {"upstreams": ["anthropic"]}}
    truncates = {
        **SETTINGS,
        "models": {"anthropic": {"upstreams": ["anthropic"], "profile": {"max_input_tokens": 900}}},
    }
    for settings in (chat, truncates):
        answer = post(server, ASK, settings)
        assert answer.status == 200
        assert answer.json["input_tokens"] != 42
    assert not server.requests
    assert post(server, UNKNOWN, chat).status == 400
