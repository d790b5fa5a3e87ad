"""A server that refuses the gateway's own account: its key, its money, or a model. Others may answer."""

import json
from typing import Any

import httpx

from tests.each_case import each_case
from tests.in_process_gateway import Answer, ModelServer, Running, streamed

SETTINGS: dict[str, Any] = {
    "upstreams": {
        "first": {"base_url": "http://first.test/v1"},
        "second": {"base_url": "http://second.test/v1"},
        "own": {"base_url": "http://first.test/v1", "api": "responses"},
    },
    "models": {
        "pool": {"upstreams": ["first", {"name": "second", "priority": 2}], "max_retries": 2},
        "falls": {"upstreams": ["first"], "fallbacks": ["other"], "max_retries": 2},
        "own": {"upstreams": ["own"], "fallbacks": ["other"]},
        "other": {"upstreams": ["second"]},
        "alone": {"upstreams": ["first"], "max_retries": 2},
        "vectors": {"upstreams": ["first", {"name": "second", "priority": 2}], "endpoints": ["embeddings"]},
    },
    "server": {"log_level": "error"},
}
ACCOUNT = [
    (401, "Incorrect API key provided", "authentication"),
    (403, "Your account may not use this model", "permission"),
    (402, "Insufficient Balance", "insufficient_quota"),
    (429, "You exceeded your current quota, please check your plan and billing details", "insufficient_quota"),
    (404, "The model `m` does not exist", "not_found"),
]


class Servers(ModelServer):
    """The first one refuses, the second one answers."""

    def __init__(self, refusal: httpx.Response) -> None:
        self._refusal = refusal
        super().__init__(self._reply)

    def _reply(self, request: httpx.Request) -> httpx.Response:
        if request.url.host == "first.test":
            return self._refusal
        return httpx.Response(200, json={"data": []}) if "embed" in request.url.path else self.short_reply()

    @property
    def asked(self) -> list[str]:
        return [request.url.host.removesuffix(".test") for request in self.requests]


def ask(running: Running, model: str) -> Answer:
    return running.post("/v1/chat/completions", {"model": model, "messages": [{"role": "user", "content": "Hi"}]})


def refuse(status: int, text: str) -> httpx.Response:
    return httpx.Response(status, json={"error": {"message": text}})


@each_case(("status", "text", "code"), ACCOUNT)
def test_another_server_or_model_answers_and_the_refusing_one_is_not_asked_again(
    status: int, text: str, code: str
) -> None:
    """Portkey-AI/gateway#165."""
    servers = Servers(refuse(status, text))
    with Running(SETTINGS, servers) as running:
        for model in ("pool", "falls"):
            servers.requests.clear()
            answer = ask(running, model)
            assert (answer.status, servers.asked) == (200, ["first", "second"])
            assert f"first;outcome={code}" in answer.headers["x-parley-attempts"]


def test_a_request_that_passes_through_goes_to_another_server() -> None:
    servers = Servers(refuse(401, "no"))
    with Running(SETTINGS, servers) as running:
        assert running.post("/v1/embeddings", {"model": "vectors", "input": "a"}).status == 200
    assert servers.asked == ["first", "second"]


def test_a_quota_that_a_stream_tells_behind_its_beginning_is_one() -> None:
    """maximhq/bifrost#5395: the client gets one beginning, that of the answer."""
    begun = {"id": "r", "object": "response", "created_at": 1, "status": "in_progress", "model": "m", "output": []}
    events = [
        {"type": "response.created", "sequence_number": 0, "response": begun},
        {"type": "error", "sequence_number": 1, "code": "insufficient_quota", "message": "no quota", "param": None},
    ]
    pieces = [f"data: {json.dumps(event)}\n\n".encode() for event in events]
    with Running(SETTINGS, Servers(streamed(*pieces))) as running:
        answer = running.post("/v1/responses", {"model": "own", "input": "Hi", "stream": True})
    types = [frame["type"] for frame in answer.frames]
    assert (answer.status, types.count("response.created"), types[-1]) == (200, 1, "response.completed")


def test_without_another_server_the_refusal_is_the_answer() -> None:
    servers = Servers(refuse(401, "Incorrect API key provided"))
    with Running(SETTINGS, servers) as running:
        answer = ask(running, "alone")
    assert (answer.json["error"]["code"], servers.asked) == ("authentication", ["first"])


@each_case(("status", "text"), [(400, "temperature is too high"), (413, "too large"), (422, "no such field")])
def test_what_is_wrong_with_a_request_is_told_at_once(status: int, text: str) -> None:
    servers = Servers(refuse(status, text))
    with Running(SETTINGS, servers) as running:
        for model in ("pool", "falls"):
            assert ask(running, model).status >= 400
    assert set(servers.asked) == {"first"}
