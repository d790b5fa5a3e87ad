"""A client of the Gemini API in front of a server of the same API: what nothing changed goes on as it came."""

import base64
import hashlib
import json
from typing import Any

import httpx
import pytest
from app.formats.body import ParsedRequest, RejectedRequest
from app.formats.gemini.body import GenerateTarget, parse_generate_body
from app.formats.gemini.spelling import canonicalize

from tests.each_case import each_case
from tests.in_process_gateway import Answer, ModelServer, Running, streamed
from tests.upstream.gemini.own_requests import HEAD, URL, USER, configure
from tests.upstream.gemini.recordings import ROWS
from tests.upstream.gemini.replies import call, chunk, write_stream
from tests.upstream.own_bodies import LIMITS

Json = dict[str, Any]


def is_read(body: Json) -> bool:
    """Whether the gateway reads a body, which else is sent in the documentation's spelling."""
    parsed = parse_generate_body(json.dumps(body).encode(), LIMITS, target=GenerateTarget("m"))
    assert isinstance(parsed, ParsedRequest | RejectedRequest)
    found = parsed.passed if isinstance(parsed, RejectedRequest) else parsed
    return found is not None and found.request.source is not None


KEY = "key-a-0123456789"
END: Json = {**chunk({"text": "A"}, end="STOP"), **HEAD}
SIGNED: Json = call("f", {"a": 1}, thoughtSignature="czE=")
RESULT: Json = {"functionResponse": {"name": "f", "response": {"result": "ok", "file_id": "x"}}}
PICTURE: Json = {"mimeType": "image/heic", "data": "AAAA"}
DECLARED: Json = {"functionDeclarations": [{"name": "f", "parameters": {"type": "OBJECT", "nullable": True}}]}


def send(body: Json, profile: Json | None = None, **fields: Any) -> tuple[Json, Answer]:
    """Return the body that the server is sent, and the client's answer."""
    server = ModelServer(lambda _: httpx.Response(200, json=END))
    with Running(configure(profile, **fields), server) as gateway:
        answer = gateway.post(f"{URL}:generateContent", body)
    assert server.requests, answer.json
    return json.loads(server.requests[-1].content), answer


BODIES: list[Json] = [
    {"contents": [USER]},
    {"contents": [{"parts": [{"text": "no role"}]}], "systemInstruction": {"role": "model", "parts": [{"text": "S"}]}},
    {"contents": [USER], "safetySettings": [{"category": "C", "threshold": "OFF"}], "labels": {"team": "a"}},
    {"contents": [USER], "cachedContent": "cachedContents/1", "serviceTier": "flex", "future": {"deep": [1.5, None]}},
    {"contents": [USER], "tools": [{"googleSearch": {}}, {"urlContext": {}}, {"codeExecution": {}}, {"new": 1}]},
    {
        "contents": [USER],
        "tools": [{**DECLARED, "googleSearch": {}}],
        "toolConfig": {
            "functionCallingConfig": {"mode": "VALIDATED", "allowedFunctionNames": ["f"]},
            "includeServerSideToolInvocations": True,
        },
    },
    {
        "contents": [USER],
        "generationConfig": {
            **{"candidateCount": 2, "responseLogprobs": True, "logprobs": 3, "topK": 40.0, "seed": 7},
            **{"thinkingConfig": {"include_thoughts": True, "thinkingBudget": 512}, "speechConfig": {"voice": "x"}},
            **{"stopSequences": ["a", "b"], "responseModalities": ["TEXT", "IMAGE"], "responseMimeType": "text/x.enum"},
            "responseSchema": {"type": "STRING", "enum": ["a"], "propertyOrdering": ["a"]},
        },
    },
    {"contents": [{"role": "user", "parts": [{"inline_data": {"mime_type": "image/heic", "data": "AAAA"}}]}]},
    {"contents": [{"role": "user", "parts": [{"fileData": {"fileUri": "gs://b/a.png", "mimeType": "image/png"}}]}]},
    {"contents": [{"role": "user", "parts": [{"fileData": {"fileUri": "https://youtu.be/x"}, "videoMetadata": {}}]}]},
    {
        "contents": [
            USER,
            {"role": "model", "parts": [{"text": "hm", "thought": True}, {"text": "I "}, {"text": "call"}, SIGNED]},
            {"role": "user", "parts": [RESULT]},
            {
                "role": "model",
                "parts": [{"executableCode": {"language": "PYTHON", "code": "1"}}, {"newKind": {"a": 1}}],
            },
            {"role": "model", "parts": [{"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "1"}}]},
            {"role": "model", "parts": [{"toolCall": {"id": "t"}, "thoughtSignature": "czI="}, {"text": "So."}]},
            {"role": "USER", "parts": [{"text": "More", "partMetadata": {"a": 1}}], "stranger": 1},
        ]
    },
    {"contents": [USER, {"role": "model", "parts": [call("f"), call("f")]}, {"role": "user", "parts": [RESULT]}]},
    {"contents": [USER, {"role": "robot", "parts": [{"text": "a role that is not known"}]}]},
    {"contents": [USER], "tools": [{"functionDeclarations": [{"name": 5}]}], "generationConfig": {"topP": 9}},
]


@each_case("body", BODIES)
def test_what_nothing_changed_is_sent_as_it_came(body: Json) -> None:
    sent, answer = send(body)
    assert sent == body
    assert answer.json == {**END, "modelVersion": "m"}


def test_each_recorded_body_is_sent_as_it_came() -> None:
    bodies = [body for row in ROWS if isinstance(body := row.get("request_body"), dict) and body.get("contents")]
    if not bodies:
        pytest.skip("no recorded requests")
    server = ModelServer(lambda _: httpx.Response(200, json=END))
    with Running(configure({"passed_urls": "any"}), server) as gateway:
        for body in bodies:
            before = len(server.requests)
            answer = gateway.post(f"{URL}:generateContent", body)
            assert len(server.requests) == before + 1, (body, answer.body)
            given = {name: value for name, value in body.items() if name != "model"}
            sent = json.loads(server.requests[-1].content)
            sent.pop("model", None)
            assert sent == given or (sent == canonicalize(given) and not is_read(body)), body


def test_the_path_has_the_servers_model_and_no_key_of_the_client() -> None:
    server = ModelServer(lambda _: streamed(write_stream(END)))
    with Running(configure(), server) as gateway:
        gateway.post(f"{URL}:streamGenerateContent?alt=sse&key=abc", {"contents": [USER], "model": "models/m"})
    [request] = server.requests
    assert str(request.url) == "http://model.test/v1beta/models/up-model:streamGenerateContent?alt=sse"
    assert json.loads(request.content)["model"] == "models/up-model"


def test_without_passed_bodies_the_request_is_translated() -> None:
    body = {"contents": [USER], "safetySettings": [{"category": "C", "threshold": "OFF"}]}
    sent, answer = send(body, {"passed_bodies": False})
    assert "safetySettings" not in sent and answer.json["candidates"][0]["content"]["parts"] == [{"text": "A"}]
    server = ModelServer()
    with Running(configure({"passed_bodies": False}), server) as gateway:
        refused = gateway.post(f"{URL}:generateContent", {"contents": [USER], "tools": [{"googleSearch": {}}]})
    assert refused.status == 400 and not server.requests


def test_a_server_of_another_api_refuses_what_only_google_can_do() -> None:
    upstreams = {"google": {"base_url": "http://model.test/v1"}}
    server = ModelServer()
    for body in BODIES[3:7]:
        with Running(configure(upstreams=upstreams), server) as gateway:
            answer = gateway.post(f"{URL}:generateContent", body)
        assert answer.status == 400 and answer.json["error"]["status"] == "INVALID_ARGUMENT"
    assert not server.requests


@each_case(
    ("given", "profile", "wanted"),
    [
        ({"temperature": 1, "top_k": 5}, {"lacks": ["temperature"]}, {"topK": 5}),
        ({"maxOutputTokens": 99, "x": 1}, {"max_output_tokens": 9}, {"maxOutputTokens": 9, "x": 1}),
        ({"thinkingConfig": {"thinkingLevel": "LOW"}}, {"thinking_switch": "gemini_budget"}, None),
        ({"thinkingConfig": {"thinkingBudget": 9}, "seed": 1}, {"thinking_switch": "none"}, {"seed": 1}),
        ({"enable_thinking": False}, {"thinking_switch": "gemini_budget"}, {"thinkingConfig": {"thinkingBudget": 0}}),
    ],
)  # fmt: skip
def test_a_rule_of_the_profile_changes_only_what_it_is_about(given: Json, profile: Json, wanted: Json | None) -> None:
    sent, _ = send({"contents": [USER], "generationConfig": given, "labels": {"a": "b"}}, profile)
    assert sent == {"contents": [USER], "generationConfig": wanted or given, "labels": {"a": "b"}}


def test_a_server_without_ids_gets_none_and_all_else_as_it_came() -> None:
    first = {
        "role": "model",
        "parts": [{"functionCall": {"id": "a", "name": "f", "args": {}}}, {"text": "x", "new": 1}],
    }
    bare = {"role": "model", "parts": [{**SIGNED, "new": 1}]}
    results = {"role": "user", "parts": [{"functionResponse": {"id": "a", "name": "f", "response": {"n": 1}}}]}
    picture = {"functionResponse": {**RESULT["functionResponse"], "parts": [{"inlineData": PICTURE}]}}
    last = {"role": "user", "parts": [picture, {"text": "go", "new": 2}]}
    sent, _ = send({"contents": [USER, first, results, bare, last]}, {"call_ids": "none"})
    calls = {"role": "model", "parts": [{"functionCall": {"name": "f", "args": {}}}, {"text": "x", "new": 1}]}
    answers = {"role": "user", "parts": [{"functionResponse": {"name": "f", "response": {"n": 1}}}]}
    assert sent["contents"] == [USER, calls, answers, bare, last]


def test_a_function_that_is_renamed_is_declared_anew_beside_the_others() -> None:
    long = "f" * 90
    tools = [{"functionDeclarations": [{"name": "g", "behavior": "BLOCKING"}, {"name": long}], "googleSearch": {}}]
    sent, _ = send({"contents": [USER], "tools": tools})
    entry, added = sent["tools"]
    assert entry == {"functionDeclarations": [{"name": "g", "behavior": "BLOCKING"}], "googleSearch": {}}
    assert len(added["functionDeclarations"][0]["name"]) <= 64


def test_a_server_that_knows_only_what_all_know_gets_nothing_of_google() -> None:
    tools = [{"googleSearch": {}}, DECLARED]
    model = {"role": "model", "parts": [{"toolCall": {"id": "t"}}, {"text": "A"}]}
    body = {"contents": [USER, model, USER], "tools": tools, "labels": {"a": "b"}, "safetySettings": []}
    sent, answer = send(body, {"takes": "known"})
    assert sent == {
        "contents": [USER, {"role": "model", "parts": [{"text": "A"}]}, USER],
        "tools": [DECLARED],
        "safetySettings": [],
    }
    warnings = answer.json["parley"]["warnings"]
    assert any("googleSearch" in text for text in warnings) and any("labels" in text for text in warnings)


def test_a_seal_of_the_gateway_reaches_no_server() -> None:
    seal = base64.b64encode(b"parley1." + base64.urlsafe_b64encode(b'{"text":"hm"}')).decode()
    model = {"role": "model", "parts": [{"text": "A", "thoughtSignature": seal}, {"newKind": 1}]}
    sent, _ = send({"contents": [USER, model, USER]})
    assert seal not in json.dumps(sent) and sent["contents"][1]["parts"][0] == {"text": "A"}
    sent, _ = send({"contents": [USER, model, {"role": "robot", "parts": []}]})
    assert seal not in json.dumps(sent)


def test_a_field_in_both_spellings_is_sent_once() -> None:
    part = {"fileData": {"fileUri": "https://a.test/a.png"}, "file_data": {"file_uri": "files/secret"}}
    sent, _ = send({"contents": [{"role": "user", "parts": [part]}]}, {"passed_urls": "any"})
    assert "secret" not in json.dumps(sent)


KEYED: Json = {"keys": {"a": {"sha256": hashlib.sha256(KEY.encode()).hexdigest(), "models": ["m"]}}}


@each_case(
    "fields",
    [
        {"cachedContent": "cachedContents/1"},
        {"cached_content": "cachedContents/1"},
        {"tools": [{"fileSearch": {"file_search_store_names": ["s"]}}]},
        {"contents": [{"parts": [{"fileData": {"fileUri": "files/a"}}]}]},
        {"contents": [{"parts": [{"file_data": {"file_uri": "gs://b/a.png"}}]}]},
        {"contents": [{"role": "robot", "parts": [{"file_data": {"file_uri": "gs://b/a.png"}}]}]},
    ],
)
def test_a_key_names_nothing_of_the_operators_account(fields: Json) -> None:
    server = ModelServer(lambda _: httpx.Response(200, json=END))
    headers = {"x-goog-api-key": KEY}
    with Running(configure(**KEYED), server) as gateway:
        answer = gateway.post(f"{URL}:generateContent", {"contents": [USER], **fields}, headers)
        plain = gateway.post(f"{URL}:generateContent", BODIES[10], headers)
    assert (answer.status, answer.json["error"]["status"]) == (403, "PERMISSION_DENIED"), answer.json
    assert plain.status == 200, plain.json


@each_case("uri", ["http://10.0.0.1/a.png", "file:///etc/passwd"])
def test_an_address_that_must_not_be_fetched_is_not_sent(uri: str) -> None:
    server = ModelServer(lambda _: httpx.Response(200, json=END))
    with Running(configure(), server) as gateway:
        for name, inner in (("fileData", "fileUri"), ("file_data", "file_uri")):
            answer = gateway.post(f"{URL}:generateContent", {"contents": [{"parts": [{name: {inner: uri}}]}]})
            assert answer.status == 400, answer.json
    assert not server.requests


def test_tokens_are_counted_by_the_server() -> None:
    counted = {
        "totalTokens": 7,
        "promptTokensDetails": [{"modality": "TEXT", "tokenCount": 7}],
        "cachedContentTokenCount": 2,
    }
    server = ModelServer(lambda _: httpx.Response(200, json=counted))
    with Running(configure(), server) as gateway:
        answer = gateway.post(f"{URL}:countTokens", {"contents": [USER]})
    assert answer.json == counted
    [request] = server.requests
    assert json.loads(request.content)["generateContentRequest"]["contents"] == [USER]
