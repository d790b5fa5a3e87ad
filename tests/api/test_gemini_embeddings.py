"""Embeddings of Gemini's clients at servers of the same API, which get what the clients have sent."""

import json
from typing import Any

import httpx
from app.access.key_ring import hash_key

from tests.each_case import each_case
from tests.in_process_gateway import Answer, ModelServer, Running

Json = dict[str, Any]
ALICE = "parley-key-of-alice"
KEY = {"x-goog-api-key": ALICE}
UPSTREAMS: Json = {
    "google": {"base_url": "http://google.test", "api": "gemini", "api_key": "the-key"},
    "named": {"base_url": "http://named.test/v1beta", "api": "gemini", "paths": {"embeddings": "/openai/embeddings"}},
    "local": {"base_url": "http://local.test/v1"},
}
MODELS: Json = {
    "v": {"upstreams": ["google"], "name": "up-v"},
    "n": {"upstreams": ["named"], "name": "up-n"},
    "both": {"upstreams": ["google", {"name": "local", "priority": 2}]},
    "plain": {"upstreams": ["local"]},
}
SETTINGS: Json = {
    "upstreams": UPSTREAMS,
    "models": {name: {**row, "endpoints": ["embeddings"]} for name, row in MODELS.items()},
    "keys": {"alice": {"sha256": hash_key(ALICE)}},
    "cache": {"url": "memory:", "embeddings": True},
    "server": {"log_level": "error"},
}
VECTOR: Json = {"embedding": {"values": [0.5], "new": 1}, "usageMetadata": {"promptTokenCount": 7}}
VECTORS: Json = {"embeddings": [{"values": [1.0]}, {"values": [2.0]}]}
OPENAI: Json = {"data": [{"index": 0, "embedding": [0.25]}], "usage": {"prompt_tokens": 3}}
TEXT: Json = {"parts": [{"text": "a"}]}
IMAGE: Json = {"parts": [{"inline_data": {"mime_type": "image/png", "data": "AAAA"}}]}


def answer(request: httpx.Request) -> httpx.Response:
    if request.url.host != "google.test":
        return httpx.Response(200, json=OPENAI)
    return httpx.Response(200, json=VECTORS if request.url.path.endswith(":batchEmbedContents") else VECTOR)


class Sent:
    """What one request gave."""

    def __init__(self, path: str, body: Any, serve: Any = answer, headers: Any = None, **settings: Any) -> None:
        server = ModelServer(serve)
        with Running({**SETTINGS, **settings}, server) as gateway:
            self.answer: Answer = gateway.post(path, body, KEY if headers is None else headers)
            gateway.context.ended.report()
            tokens = gateway.context.recent.list_newest_first()[0].tokens
            self.tokens = None if tokens is None else tokens.input
        self.urls = [str(request.url) for request in server.requests]
        self.bodies = [json.loads(request.content) for request in server.requests]
        self.keys = [request.headers.get("x-goog-api-key") for request in server.requests]


def find_path(model: str, method: str) -> str:
    return f"/v1beta/models/{model}:{method}"


@each_case(
    "body",
    [
        {"content": TEXT},
        {"content": TEXT, "taskType": "RETRIEVAL_QUERY", "title": "T", "output_dimensionality": 3, "future": {"a": 1}},
        {"content": IMAGE},
        {"content": {"parts": [{"text": ""}]}, "outputDimensionality": "many"},
    ],
)
def test_a_request_goes_to_google_as_it_came(body: Json) -> None:
    sent = Sent(find_path("v", "embedContent"), body)
    assert (sent.answer.status, sent.answer.json) == (200, VECTOR)
    assert (sent.urls, sent.keys) == (["http://google.test/v1beta/models/up-v:embedContent"], ["the-key"])
    assert sent.bodies == [body]
    assert sent.tokens == 7


def test_each_request_of_a_batch_names_the_model_of_the_server() -> None:
    rows: list[Json] = [
        {"model": "models/v", "content": TEXT, "taskType": "X", "outputDimensionality": 3},
        {"content": IMAGE, "outputDimensionality": 5},
    ]
    sent = Sent(find_path("v", "batchEmbedContents"), {"requests": rows})
    assert sent.answer.json == VECTORS
    assert sent.urls == ["http://google.test/v1beta/models/up-v:batchEmbedContents"]
    assert sent.bodies == [{"requests": [{**row, "model": "models/up-v"} for row in rows]}]


def test_a_batch_of_one_may_be_an_object() -> None:
    sent = Sent(find_path("v", "batchEmbedContents"), {"requests": {"content": TEXT}})
    assert sent.bodies == [{"requests": {"content": TEXT, "model": "models/up-v"}}]


def test_a_vector_of_google_is_not_taken_for_a_stored_one() -> None:
    server = ModelServer(answer)
    with Running(SETTINGS, server) as gateway:
        found = [gateway.post(find_path("v", "embedContent"), {"content": TEXT}, KEY) for _ in range(2)]
    assert len(server.requests) == 2
    assert "hit" not in {one.headers.get("x-parley-cache") for one in found}


def test_a_server_of_another_api_gets_the_translation_after_a_failure() -> None:
    def fail_first(request: httpx.Request) -> httpx.Response:
        return httpx.Response(500) if request.url.host == "google.test" else answer(request)

    sent = Sent(find_path("both", "embedContent"), {"content": TEXT, "title": "T"}, fail_first)
    assert sent.urls == ["http://google.test/v1beta/models/both:embedContent", "http://local.test/v1/embeddings"]
    assert sent.bodies == [
        {"content": TEXT, "title": "T"},
        {"input": ["a"], "encoding_format": "float", "model": "both"},
    ]
    assert sent.answer.json["embedding"] == {"values": [0.25]}


def test_what_has_no_translation_goes_to_google_alone() -> None:
    sent = Sent(find_path("both", "embedContent"), {"content": IMAGE}, lambda _: httpx.Response(500))
    assert {url.split("/")[2] for url in sent.urls} == {"google.test"}
    refused = Sent(find_path("plain", "embedContent"), {"content": IMAGE})
    assert (refused.answer.status, refused.urls) == (400, [])
    details = refused.answer.json["error"]["details"]
    assert details[1]["fieldViolations"][0]["field"] == "content.parts[0].inline_data"


def test_clients_of_other_apis_are_told_that_google_has_no_embeddings_for_them() -> None:
    body = {"model": "v", "input": "a"}
    sent = Sent("/v1/embeddings", body, headers={"authorization": f"Bearer {ALICE}"})
    error = sent.answer.json["error"]
    assert (sent.answer.status, error["code"], sent.urls) == (400, "unsupported", [])
    assert "paths.embeddings" in error["message"]
    named = Sent("/v1/embeddings", {**body, "model": "n"}, headers={"authorization": f"Bearer {ALICE}"})
    assert named.urls == ["http://named.test/v1beta/openai/embeddings"]
    passes_none = Sent(
        find_path("v", "embedContent"),
        {"content": TEXT},
        models={"v": {**SETTINGS["models"]["v"], "profile": {"passed_bodies": False}}},
    )
    assert (passes_none.answer.status, passes_none.urls) == (400, [])


def test_nothing_of_the_operators_account_is_named() -> None:
    file = {"parts": [{"fileData": {"fileUri": "files/abc", "mimeType": "image/png"}}]}
    sent = Sent(find_path("v", "embedContent"), {"content": file})
    assert (sent.answer.status, sent.urls) == (403, [])
    inner = {"parts": [{"fileData": {"fileUri": "http://127.0.0.1/x.png", "mimeType": "image/png"}}]}
    assert Sent(find_path("v", "embedContent"), {"content": inner}).answer.status == 400


@each_case("body", [b"{", b"[]", b"7"])
def test_a_body_that_is_no_object_is_refused(body: bytes) -> None:
    sent = Sent(find_path("v", "embedContent"), body)
    assert (sent.answer.status, sent.answer.json["error"]["status"], sent.urls) == (400, "INVALID_ARGUMENT", [])
