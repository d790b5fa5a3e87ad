"""Half of a surrogate pair in a request, which no encoding has: a client that cuts texts sends its history with it
again and again, so it is replaced, and the reply says where."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.each_case import each_case
from tests.in_process_gateway import ModelServer, Running

Json = dict[str, Any]
SETTINGS: Json = {
    "upstreams": {
        "chat": {"base_url": "http://chat.test/v1"},
        "messages": {"base_url": "http://messages.test/v1", "api": "messages", "kind": "anthropic"},
        "responses": {"base_url": "http://responses.test/v1", "api": "responses", "kind": "openai"},
        "gemini": {"base_url": "http://gemini.test/v1beta", "api": "gemini", "kind": "gemini"},
    },
    "models": {name: {"upstreams": [name], "max_retries": 0} for name in ("chat", "messages", "responses", "gemini")},
    "server": {"log_level": "error"},
}
HALF = "cut \ud83d"
USER: Json = {"role": "user", "content": HALF}
BODIES = [
    ("/v1/chat", {"messages": [USER]}, "messages[0].content"),
    ("/v1/chat/completions", {"messages": [{"role": "user", "content": "\ufffd"}, USER]}, "messages[1].content"),
    ("/v1/messages", {"max_tokens": 9, "messages": [USER]}, "messages[0].content"),
    ("/v1/responses", {"input": HALF}, "input"),
    ("/v1beta/models/{}:generateContent", {"contents": [{"parts": [{"text": HALF}]}]}, "contents[0].parts[0].text"),
]


@pytest.fixture(scope="module")
def gateway() -> Iterator[tuple[Running, ModelServer]]:
    server = ModelServer()
    with Running(SETTINGS, server) as running:
        yield running, server


@each_case("model", sorted(SETTINGS["models"]))
@each_case(("path", "body", "place"), BODIES)
def test_half_of_a_pair_is_replaced_with_a_warning(
    gateway: tuple[Running, ModelServer], model: str, path: str, body: Json, place: str
) -> None:
    running, server = gateway
    given = body if "{}" in path else {**body, "model": model}
    answer = running.post(path.format(model), json.dumps(given).encode())
    assert answer.status in (200, 502)  # the server speaks chat completions alone
    assert "cut \ufffd" in json.dumps(json.loads(server.requests[-1].content), ensure_ascii=False)
    warnings = json.loads(answer.headers["x-parley-warnings"])
    assert f"{place} has half of a surrogate pair, which was replaced by U+FFFD" in warnings


def test_a_whole_pair_gives_no_warning(gateway: tuple[Running, ModelServer]) -> None:
    body = {"model": "chat", "messages": [{"role": "user", "content": "\U0001f600 \ufffd"}]}
    assert "x-parley-warnings" not in gateway[0].post("/v1/chat/completions", body).headers


@each_case("stream", [False, True])
@each_case(("path", "body", "place"), BODIES)
def test_the_reply_has_the_warning_too(
    gateway: tuple[Running, ModelServer], path: str, body: Json, place: str, stream: bool
) -> None:
    if "{}" in path:
        given, path = body, path.format("chat").replace(":g", ":streamG" if stream else ":g")
    else:
        given = {**body, "model": "chat", "stream": stream}
    answer = gateway[0].post(path, json.dumps(given).encode())
    assert answer.status == 200
    assert f"{place} has half of a surrogate pair" in answer.body.decode()
