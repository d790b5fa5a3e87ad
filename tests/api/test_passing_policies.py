"""What is done around a request that is no conversation, on each path: keys, rights, limits, budgets, circuit breakers,
other servers and fallbacks."""

from collections.abc import Iterator
from math import ceil
from pathlib import Path
from typing import Any

import httpx
import pytest
from app.access.key_ring import hash_key
from app.api.endpoint_errors import ENDPOINT_ERRORS
from app.endpoints.kinds import COHERE_PATHS, ENDPOINTS, MULTIPART_PATHS, TEI_PATHS, Endpoint
from app.routing.retry_budget import RETRY_SHARE
from app.routing.upstream_state import FAILURES_TO_OPEN

from tests.each_case import each_case
from tests.in_process_gateway import Answer, ModelServer, Running

Json = dict[str, Any]
ROWS = [(path, endpoint) for endpoint in ENDPOINTS for path in endpoint.paths]
SERVED = sorted({endpoint.serves for endpoint in ENDPOINTS if endpoint.serves is not None})
ONE = {"input": 1_000_000, "output": 1_000_000, "per_search": 1000, "per_minute": 1, "per_image": 1}
"""One for each token, search, minute, image and character."""
BODY = {"input": "word", "query": "q", "documents": ["d"], "prompt": "p", "inputs": "word", "messages": [], "n": 1}
FORM = (
    b'--XX\r\ncontent-disposition: form-data; name="file"; filename="a.wav"\r\n\r\nRIFF\r\n'
    b'--XX\r\ncontent-disposition: form-data; name="model"\r\n\r\n%b\r\n--XX--\r\n'
)
KEYS: Json = {
    "right": {},
    "models": {"models": ["other"]},
    "endpoints": {"endpoints": ["chat"]},
}
LIMITED: Json = {"minute": {"requests_per_minute": 1}, "budget": {"spend_per_day": 0.5}}
"""Of each path has a key of its own."""


def secret(name: str) -> str:
    return f"sk-parley-{name}-0123456789"


def configure(state: str) -> Json:
    model = {"endpoints": SERVED, "price": {**ONE, "per_character": 1_000_000}, "vector_space": "s"}
    keys = {name: {**fields, "sha256": hash_key(secret(name))} for name, fields in KEYS.items()}
    upstreams = {name: {"base_url": f"http://{name}.test/v1"} for name in ("good", "other")}
    models: Json = {
        "m": {**model, "upstreams": ["good"]},
        "other": {**model, "upstreams": ["other"]},
        "chat": {"upstreams": ["good"]},
    }
    for place, _ in enumerate(ROWS):
        for name, limits in LIMITED.items():
            keys[f"{name}{place}"] = {"sha256": hash_key(secret(f"{name}{place}")), "limits": limits}
        upstreams[f"broken{place}"] = {"base_url": f"http://broken{place}.test/v1"}
        models[f"retried{place}"] = {**model, "max_retries": 1, "upstreams": [f"broken{place}", "good"]}
        models[f"falls{place}"] = {**model, "max_retries": 0, "upstreams": [f"broken{place}"], "fallbacks": ["other"]}
    return {
        "upstreams": upstreams,
        "models": models,
        "keys": keys,
        "state": {"url": state},
        "server": {"log_level": "error"},
    }


def answer(request: httpx.Request) -> httpx.Response:
    if request.url.host.startswith("broken"):
        return httpx.Response(500, json={"error": {"message": "broken"}})
    choice = {"index": 0, "text": "x", "finish_reason": "stop"}
    return httpx.Response(200, json={"data": [{"index": 0, "embedding": [0.5]}], "choices": [choice], "text": "x"})


class Gateway(Running):
    def __init__(self, state: str) -> None:
        self.server = ModelServer(answer)
        super().__init__(configure(state), self.server)

    def send(self, path: str, key: str | None = "right", model: str = "m") -> Answer:
        headers = {} if key is None else {"authorization": f"Bearer {secret(key)}"}
        if path in MULTIPART_PATHS:
            form = {"content-type": "multipart/form-data; boundary=XX"}
            return self.post(path, FORM % model.encode(), headers | form)
        return self.post(path, {**BODY, "model": model}, headers)

    def count(self, host: str) -> int:
        return sum(request.url.host == f"{host}.test" for request in self.server.requests)


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    folder: Path = tmp_path_factory.mktemp("state")
    with Gateway(f"sqlite:///{folder}/state.db") as running:
        yield running


def read_code(path: str, refused: Answer) -> Any:
    """Return the code of an error, which has the form of its path."""
    if path in COHERE_PATHS:
        return refused.json["code"]
    return refused.json["error_type"] if path in TEI_PATHS else refused.json["error"]["code"]


def test_each_path_has_its_form_of_errors() -> None:
    assert {path for path, _ in ROWS} == ENDPOINT_ERRORS.keys()


@each_case(("path", "endpoint"), ROWS)
def test_the_right_key_is_served(gateway: Gateway, path: str, endpoint: Endpoint) -> None:
    assert gateway.send(path).status == 200


@each_case(("path", "key"), [(path, key) for path, _ in ROWS for key in (None, "wrong")])
def test_without_a_known_key_no_server_is_asked(gateway: Gateway, path: str, key: str | None) -> None:
    before = len(gateway.server.requests)
    refused = gateway.send(path, key)
    assert (refused.status, read_code(path, refused)) == (401, "invalid_api_key")
    assert len(gateway.server.requests) == before


@each_case(("path", "key"), [(path, key) for path, _ in ROWS for key in ("models", "endpoints")])
def test_a_key_for_something_else_is_refused(gateway: Gateway, path: str, key: str) -> None:
    before = len(gateway.server.requests)
    refused = gateway.send(path, key)
    if key == "endpoints" and "tokenize" in path:
        assert refused.status == 200  # counting belongs to every endpoint
        return
    assert (refused.status, read_code(path, refused)) == (403, "permission")
    assert len(gateway.server.requests) == before


@each_case(("path", "endpoint"), ROWS)
def test_a_model_that_does_not_serve_it_is_named(gateway: Gateway, path: str, endpoint: Endpoint) -> None:
    refused = gateway.send(path, model="chat")
    if endpoint.serves is None:
        assert refused.status == 200
    else:
        assert (refused.status, read_code(path, refused)) == (400, "unsupported")
        assert "serves chat, not " + endpoint.serves in refused.body.decode()


@each_case(("place", "path"), [(place, path) for place, (path, _) in enumerate(ROWS)])
def test_requests_of_a_minute_are_counted(gateway: Gateway, place: int, path: str) -> None:
    assert gateway.send(path, f"minute{place}").status == 200
    before = len(gateway.server.requests)
    refused = gateway.send(path, f"minute{place}")
    assert (refused.status, read_code(path, refused)) == (429, "rate_limit")
    assert int(refused.headers["retry-after"]) > 0
    assert len(gateway.server.requests) == before


@each_case(("place", "path"), [(place, path) for place, (path, _) in enumerate(ROWS)])
def test_a_budget_is_used_up_by_what_is_billed(gateway: Gateway, place: int, path: str) -> None:
    assert gateway.send(path, f"budget{place}").status == 200
    before = len(gateway.server.requests)
    second = gateway.send(path, f"budget{place}")
    if ROWS[place][1].serves is None:
        assert second.status == 200
        return
    assert (second.status, read_code(path, second)) == (402, "insufficient_quota")
    assert len(gateway.server.requests) == before


@each_case(("place", "path"), [(place, path) for place, (path, _) in enumerate(ROWS)])
def test_another_server_of_the_model_answers(gateway: Gateway, place: int, path: str) -> None:
    assert [gateway.send(path).status for _ in range(ceil(2 / RETRY_SHARE))] == [200] * 10  # retries are a share
    assert [gateway.send(path, model=f"retried{place}").status for _ in range(2)] == [200] * 2


@each_case(("place", "path"), [(place, path) for place, (path, _) in enumerate(ROWS)])
def test_a_fallback_answers_and_the_broken_server_is_left_alone(gateway: Gateway, place: int, path: str) -> None:
    before = gateway.count("other")
    for number in range(1, FAILURES_TO_OPEN + 3):
        assert gateway.send(path, model=f"falls{place}").status == 200
        assert gateway.count("other") == before + number
    assert gateway.count(f"broken{place}") == FAILURES_TO_OPEN
