"""The paths of Google's Gemini API: keys, models, counts, limits, and what is not served."""

import json
import logging
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from app.access.key_ring import hash_key

from tests.each_case import each_case
from tests.in_process_gateway import HELLO, STOP, ModelServer, Running, streamed

Json = dict[str, Any]
ALICE, BOB = "parley-key-of-alice", "parley-key-of-bob"
SETTINGS: Json = {
    "upstreams": {"local": {"base_url": "http://model.test/v1"}},
    "models": {
        "m": {"upstreams": ["local"], "aliases": ["gemini-2.5-flash"]},
        "m:8b": {"upstreams": ["local"]},
        "Org/m": {"upstreams": ["local"]},
        "vectors": {"upstreams": ["local"], "endpoints": ["embeddings"]},
    },
    "keys": {
        "alice": {"sha256": hash_key(ALICE)},
        "bob": {"sha256": hash_key(BOB), "models": ["m:8b"], "limits": {"requests_per_minute": 1}},
    },
    "cache": {"url": "memory:", "apply": "always"},
}
HI: Json = {"contents": [{"role": "user", "parts": [{"text": "Hi"}]}]}
GENERATE = "/v1beta/models/m:generateContent"
KEY = {"x-goog-api-key": ALICE}


@pytest.fixture(scope="module")
def gateway() -> Iterator[Running]:
    with Running(SETTINGS, ModelServer()) as running:
        yield running


def text_of(body: Json) -> str:
    return "".join(part["text"] for part in body["candidates"][0]["content"]["parts"])


@each_case(
    ("query", "headers", "status"),
    [
        ("", {"x-goog-api-key": ALICE}, 200),
        ("", {"authorization": f"Bearer {ALICE}"}, 200),
        (f"?key={ALICE}", {}, 200),
        (f"?alt=json&key={ALICE}", {}, 200),
        (f"?key={BOB}", {"x-goog-api-key": ALICE}, 200),
        (f"?key={ALICE}", {"x-goog-api-key": "wrong"}, 401),
        ("?key=wrong", {}, 401),
        ("?key=", {}, 401),
        ("", {}, 401),
    ],
)
def test_the_key_is_in_a_header_or_in_the_query(gateway: Running, query: str, headers: Any, status: int) -> None:
    answer = gateway.post(f"{GENERATE}{query}", HI, headers)
    assert answer.status == status, answer.body
    if status == 401:
        assert answer.json["error"]["status"] == "UNAUTHENTICATED"


def test_a_key_in_the_query_counts_on_no_other_path(gateway: Running) -> None:
    body = {"model": "m", "messages": [{"role": "user", "content": "Hi"}]}
    assert gateway.post(f"/v1/chat/completions?key={ALICE}", body).status == 401


def test_a_key_in_the_query_is_written_nowhere(caplog: pytest.LogCaptureFixture) -> None:
    server = ModelServer()
    with caplog.at_level(logging.DEBUG), Running(SETTINGS, server) as running:
        answers = [
            running.post(f"{path}?alt=sse&key={ALICE}", HI)
            for path in (GENERATE, "/v1beta/models/m:streamGenerateContent", "/v1beta/models/m:odd", "/v1beta/odd")
        ]
        answers += [running.get(f"/v1/models?key={ALICE}"), running.post(f"{GENERATE}?key={ALICE}x", HI)]
        answers.append(running.get("/v1/status", KEY))
        written = caplog.text + "".join(str(vars(record)) for record in caplog.records)
        metrics = running.get("/metrics", KEY).body.decode()
    assert {answer.status for answer in answers} >= {200, 404, 401}
    assert ALICE not in written + metrics
    assert not any(ALICE.encode() in answer.body for answer in answers)
    sent = [f"{request.url} {request.headers} {request.content!r}" for request in server.requests]
    assert sent and not any(ALICE in text for text in sent)


@each_case(
    ("path", "model"),
    [
        ("/v1beta/models/m:generateContent", "m"),
        ("/v1/models/m:generateContent", "m"),
        ("/v1alpha/models/m:8b:generateContent", "m:8b"),
        ("/v1/models/Org/m:generateContent", "Org/m"),
        ("/v1beta/models/gemini-2.5-flash:generateContent", "gemini-2.5-flash"),
        ("/v1/projects/p/locations/l/publishers/google/models/m:generateContent", "m"),
        ("/v1beta1/projects/p/locations/l/publishers/Org/models/m:generateContent", "Org/m"),
        ("/v1beta1/publishers/anyone/models/m:generateContent", "m"),
    ],
)
def test_the_model_is_in_the_path(gateway: Running, path: str, model: str) -> None:
    answer = gateway.post(path, HI, KEY)
    assert answer.status == 200, answer.body
    assert answer.json["modelVersion"] == model


def test_an_equal_question_is_answered_from_the_cache(gateway: Running) -> None:
    body = {"contents": [{"parts": [{"text": "Again?"}]}]}
    first, second = (
        gateway.post(f"/v1beta/models/m:{way}", body, KEY) for way in ("generateContent", "streamGenerateContent")
    )
    assert (first.headers["x-parley-cache"], second.headers["x-parley-cache"]) == ("miss", "hit")
    assert text_of(first.json) == text_of(second.json[0])


@each_case(
    ("path", "words"),
    [
        ("/v1beta/models/m:predict", "embedContent"),
        ("/v1beta/models/m:batchGenerateContent", "by itself"),
        ("/v1beta/models/m:odd", "generateContent"),
        ("/v1beta/models/m", "generateContent"),
        ("/v1/models/m:odd", "generateContent"),
        ("/v1beta/cachedContents", "contents themselves"),
        ("/v1beta/files", "Files are not stored"),
        ("/v1beta/interactions", "Interactions"),
        ("/v1beta/v1beta/models/m:generateContent", "A base URL ends before /v1beta"),
        ("/v1/projects/p/locations/l/odd", "no such path"),
    ],
)
def test_what_is_not_served_is_404_with_what_to_do(gateway: Running, path: str, words: str) -> None:
    answer = gateway.post(path, HI, KEY)
    assert answer.status == 404, answer.body
    error = answer.json["error"]
    assert (error["code"], error["status"]) == (404, "NOT_FOUND")
    assert words in error["message"]


def test_rights_and_limits_hold(gateway: Running) -> None:
    bob = {"x-goog-api-key": BOB}
    assert gateway.post(GENERATE, HI, bob).json["error"]["status"] == "PERMISSION_DENIED"
    assert gateway.post("/v1beta/models/m:8b:generateContent", HI, bob).status == 200
    refused = gateway.post("/v1beta/models/m:8b:generateContent", HI, bob)
    assert (refused.status, refused.json["error"]["status"]) == (429, "RESOURCE_EXHAUSTED")
    assert [one["@type"].rpartition(".")[2] for one in refused.json["error"]["details"]] == ["ErrorInfo", "RetryInfo"]
    assert "retry-after" in refused.headers
    wrong = gateway.post("/v1beta/models/vectors:generateContent", HI, KEY)
    assert (wrong.status, wrong.json["error"]["status"]) == (400, "INVALID_ARGUMENT")
    unknown = gateway.post("/v1beta/models/nobody:generateContent", HI, KEY)
    assert (unknown.status, unknown.json["error"]["status"]) == (404, "NOT_FOUND")


def test_the_models_have_googles_form_for_its_clients(gateway: Running) -> None:
    for path, headers in (
        ("/v1beta/models", KEY),
        ("/v1alpha/models", KEY),
        ("/v1/models", KEY),
        (f"/v1/models?key={ALICE}", {}),
        ("/v1/models", {"x-goog-api-client": "x", "authorization": f"Bearer {ALICE}"}),
    ):
        rows = {row["name"]: row for row in gateway.get(path, headers).json["models"]}
        assert rows["models/m"]["supportedGenerationMethods"] == ["generateContent", "countTokens"]
        assert "models/Org/m" in rows
    assert "data" in gateway.get("/v1/models", {"authorization": f"Bearer {ALICE}"}).json
    bobs = gateway.get("/v1beta/models", {"x-goog-api-key": BOB}).json["models"]
    assert [row["name"] for row in bobs] == ["models/m:8b"]


def test_a_list_has_pages(gateway: Running) -> None:
    names: list[str] = []
    token = ""
    while True:
        page = gateway.get(f"/v1beta/models?pageSize=2&pageToken={token}", KEY).json
        names += [row["name"] for row in page["models"]]
        token = page.get("nextPageToken", "")
        if not token:
            break
    assert names == [row["name"] for row in gateway.get("/v1beta/models", KEY).json["models"]]
    assert gateway.get("/v1beta/models?pageToken=x", KEY).json["error"]["status"] == "INVALID_ARGUMENT"


def test_one_model_is_read_by_its_name(gateway: Running) -> None:
    for path in ("/v1beta/models/Org/m", "/v1/models/Org/m", "/v1beta/models/models/Org/m"):
        assert gateway.get(path, KEY).json["name"] == "models/Org/m"
    unknown = gateway.get("/v1/models/nobody", KEY)
    assert (unknown.status, unknown.json["error"]["status"]) == (404, "NOT_FOUND")


def test_tokens_are_counted_without_a_model(gateway: Running) -> None:
    for path in ("/v1beta/models/m:countTokens", "/v1/projects/p/locations/l/publishers/google/models/m:countTokens"):
        answer = gateway.post(path, HI, KEY).json
        assert answer["totalTokens"] > 0
        assert answer["promptTokensDetails"] == [{"modality": "TEXT", "tokenCount": answer["totalTokens"]}]
    longer = {**HI, "systemInstruction": "Be brief. " * 20, "tools": [{"functionDeclarations": [{"name": "f"}]}]}
    assert gateway.post("/v1beta/models/m:countTokens", longer, KEY).json["totalTokens"] > answer["totalTokens"]
    wrong = gateway.post("/v1beta/models/m:countTokens", {"generateContentRequest": {"contents": []}}, KEY)
    assert wrong.json["error"]["details"][1]["fieldViolations"][0]["field"] == "generateContentRequest.contents"


def embed(request: httpx.Request) -> httpx.Response:
    """A vector for each input, the last one first."""
    count = len(json.loads(request.content)["input"])
    rows = [{"index": place, "embedding": [float(place)]} for place in reversed(range(count))]
    return httpx.Response(200, json={"data": rows, "usage": {"prompt_tokens": 7, "total_tokens": 7}})


def test_embeddings_are_made_by_the_models_server() -> None:
    server = ModelServer(embed)
    content = {"parts": [{"text": "a"}, {"text": "b"}]}
    with Running(SETTINGS, server) as running:
        one = running.post("/v1beta/models/vectors:embedContent", {"content": content, "taskType": "x"}, KEY)
        rows = [{"model": "models/vectors", "content": content, "output_dimensionality": 3}] * 2
        both = running.post("/v1/models/vectors:batchEmbedContents", {"requests": rows}, KEY)
        refused = running.post("/v1beta/models/m:embedContent", {"content": content}, KEY)
        wrong = running.post("/v1beta/models/vectors:batchEmbedContents", {"requests": []}, KEY)
        keyless = running.post("/v1beta/models/vectors:embedContent", {"content": content})
    usage = {"promptTokenCount": 7, "totalTokenCount": 7}
    assert one.json == {"embedding": {"values": [0.0]}, "usageMetadata": usage}
    assert both.json == {"embeddings": [{"values": [0.0]}, {"values": [1.0]}], "usageMetadata": usage}
    assert [str(request.url) for request in server.requests] == ["http://model.test/v1/embeddings"] * 2
    assert json.loads(server.requests[1].content) == {
        "model": "vectors",
        "input": ["ab", "ab"],
        "encoding_format": "float",
        "dimensions": 3,
    }
    assert (refused.status, refused.json["error"]["status"]) == (400, "INVALID_ARGUMENT")
    assert wrong.json["error"]["details"][1]["fieldViolations"][0]["field"] == "requests"
    assert (keyless.status, keyless.json["error"]["status"]) == (401, "UNAUTHENTICATED")


EMBED: Json = {"content": {"parts": [{"text": "a"}]}}


@each_case("answer", [{"data": []}, {"data": [{"embedding": "AAAA"}]}, [1]])
def test_an_answer_without_vectors_is_a_fault_of_the_server(answer: Any) -> None:
    with Running(SETTINGS, ModelServer(lambda _: httpx.Response(200, json=answer))) as running:
        found = running.post("/v1beta/models/vectors:embedContent", EMBED, KEY)
    assert (found.status, found.json["error"]["status"]) == (502, "INTERNAL")


def test_a_server_that_fails_is_told_in_googles_form() -> None:
    settings = {**SETTINGS, "models": {"vectors": {**SETTINGS["models"]["vectors"], "defaults": {"max_retries": 0}}}}
    refusing = ModelServer(lambda _: httpx.Response(429, json={"error": {"message": "slow"}}))
    with Running({**settings, "keys": {"alice": SETTINGS["keys"]["alice"]}}, refusing) as running:
        found = running.post("/v1beta/models/vectors:embedContent", EMBED, KEY)
    assert (found.status, found.json["error"]["status"]) == (429, "RESOURCE_EXHAUSTED")


def test_another_method_is_405(gateway: Running) -> None:
    answer = gateway.ask("DELETE", "/v1beta/models/m:generateContent", headers=KEY)
    assert answer.status == 405
    assert answer.json["error"]["status"] == "INVALID_ARGUMENT"


@pytest.mark.parametrize("way", ["streamGenerateContent?alt=sse", "streamGenerateContent"])
def test_a_stream_that_was_cut_is_resumed_by_its_id(way: str) -> None:
    with Running(SETTINGS, ModelServer(lambda _: streamed(HELLO, STOP))) as running:
        answer = running.post(f"/v1beta/models/m:{way}", HI, KEY)
        chunks = answer.frames if "sse" in way else answer.json
        events = f"/v1/chat/{chunks[0]['responseId']}/events"
        again = running.get(events, KEY)
        assert again.headers["content-type"].startswith("text/event-stream")
        assert again.frames == chunks
        assert running.get(f"{events}?after=1", KEY).frames == chunks[1:]
        assert running.get(f"{events}?after=2", KEY).status == 204
        whole = running.get(f"/v1/chat/{chunks[0]['responseId']}", KEY)
        assert text_of(whole.json) == "Hello"


def test_warnings_are_in_the_reply_and_the_header(gateway: Running) -> None:
    answer = gateway.post(GENERATE, {**HI, "odd": 1}, KEY)
    [warning] = json.loads(answer.headers["x-parley-warnings"])
    assert warning.startswith("odd ")
    assert warning in answer.json["parley"]["warnings"]


def test_a_virtual_model_chooses_by_this_format() -> None:
    rules = [{"when": {"format": "gemini"}, "use": "m:8b"}]
    models = {**SETTINGS["models"], "auto": {"use": "m", "rules": rules}}
    server = ModelServer()
    with Running({**SETTINGS, "models": models}, server) as running:
        answer = running.post("/v1beta/models/auto:generateContent", HI, KEY)
        assert answer.status == 200
        assert json.loads(server.requests[0].content)["model"] == "m:8b"
        assert answer.json["modelVersion"] == "auto"
        assert running.post("/v1beta/models/auto:countTokens", HI, KEY).json["totalTokens"] > 0
