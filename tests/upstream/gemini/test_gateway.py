"""A gateway in front of a server of the Gemini API."""

import asyncio
import json
from typing import Any

import httpx
from app.config.registry import targets
from app.config.settings import Settings
from app.upstream.http.client import UpstreamClient

from tests.each_case import each_case
from tests.in_process_gateway import ModelServer, Running, streamed
from tests.upstream.gemini.replies import REPLY, SETTINGS, call, chunk, write_stream

Json = dict[str, Any]
ASK: Json = {"model": "m", "messages": [{"role": "user", "content": "Q"}]}
ERROR = {"error": {"code": 429, "message": "Quota exceeded", "status": "RESOURCE_EXHAUSTED", "details": []}}


def configure(profile: Json) -> Json:
    return {**SETTINGS, "models": {"m": {**SETTINGS["models"]["m"], "profile": profile}}}


@each_case(
    ("profile", "path"),
    [
        ({}, "/v1beta/models/up-model:streamGenerateContent?alt=sse"),
        ({"stream": "never"}, "/v1beta/models/up-model:generateContent"),
    ],
)
def test_the_model_is_in_the_path_and_the_key_in_a_header(profile: Json, path: str) -> None:
    server = ModelServer(lambda _: httpx.Response(200, json=REPLY))
    with Running(configure(profile), server) as gateway:
        answer = gateway.post("/v1/chat/completions", ASK)
    [request] = server.requests
    assert str(request.url) == f"http://model.test{path}"
    assert request.headers["x-goog-api-key"] == "the-key" and "authorization" not in request.headers
    assert b"model" not in request.content and b"stream" not in request.content
    assert answer.json["choices"][0]["message"]["content"] == '{"n": 1}'


def test_a_signed_call_comes_back_with_its_signature_and_its_result() -> None:
    signed = chunk(call("f", {"a": 1}, thoughtSignature="czE="), end="STOP")
    server = ModelServer(lambda _: streamed(write_stream(signed)))
    tools = [{"type": "function", "function": {"name": "f"}}]
    with Running(SETTINGS, server) as gateway:
        message = gateway.post("/v1/chat/completions", {**ASK, "tools": tools}).json["choices"][0]["message"]
        result = {"role": "tool", "tool_call_id": message["tool_calls"][0]["id"], "content": "r"}
        history = [*ASK["messages"], message, result]
        gateway.post("/v1/chat/completions", {**ASK, "messages": history, "tools": tools})
    model, user = json.loads(server.requests[1].content)["contents"][1:]
    [part] = model["parts"]
    assert part["functionCall"]["args"] == {"a": 1} and part["thoughtSignature"] == "czE="
    assert user["parts"][0]["functionResponse"]["id"] == part["functionCall"]["id"]


def test_a_signature_that_a_client_drops_is_restored() -> None:
    signed = chunk(call("f", {"a": 1}, thoughtSignature="czE="), end="STOP")
    server = ModelServer(lambda _: streamed(write_stream(signed)))
    tools = [{"type": "function", "function": {"name": "f"}}]
    with Running({**SETTINGS, "cache": {"url": "memory:"}}, server) as gateway:
        message = gateway.post("/v1/chat/completions", {**ASK, "tools": tools}).json["choices"][0]["message"]
        [called] = message["tool_calls"]
        bare = {"role": "assistant", "content": None, "tool_calls": [{**called, "extra_content": None}]}
        result = {"role": "tool", "tool_call_id": called["id"], "content": "r"}
        history = [*ASK["messages"], bare, result]
        gateway.post("/v1/chat/completions", {**ASK, "messages": history, "tools": tools})
    [part] = json.loads(server.requests[1].content)["contents"][1]["parts"]
    assert part["thoughtSignature"] == "czE="


def test_an_error_has_its_status_and_its_wait() -> None:
    details = [{"retryDelay": "7s"}]
    body = {"error": {**ERROR["error"], "details": details}}
    with Running(SETTINGS, ModelServer(lambda _: httpx.Response(429, json=body))) as gateway:
        answer = gateway.post("/v1/chat/completions", {**ASK, "max_retries": 0})
    assert (answer.status, answer.headers["retry-after"]) == (429, "7")


def test_a_call_that_the_model_could_not_write_is_asked_for_again() -> None:
    replies = [chunk(end="MALFORMED_FUNCTION_CALL"), chunk({"text": "a"}, end="STOP")]
    server = ModelServer(lambda _: streamed(write_stream(replies[len(server.requests) - 1])))
    with Running(SETTINGS, server) as gateway:
        answer = gateway.post("/v1/chat/completions", {**ASK, "max_retries": 1})
    assert answer.json["choices"][0]["message"]["content"] == "a" and len(server.requests) == 2


def test_a_refused_prompt_is_an_error_that_is_not_tried_again() -> None:
    server = ModelServer(lambda _: streamed(write_stream({"promptFeedback": {"blockReason": "SAFETY"}})))
    with Running(SETTINGS, server) as gateway:
        answer = gateway.post("/v1/chat/completions", {**ASK, "max_retries": 1})
    assert (answer.status, answer.json["error"]["code"], len(server.requests)) == (400, "content_filter", 1)


def test_a_seed_makes_a_reply_that_is_cached() -> None:
    server = ModelServer(lambda _: httpx.Response(200, json=REPLY))
    settings = {**SETTINGS, "cache": {"url": "memory:", "apply": "deterministic"}}
    with Running(settings, server) as gateway:
        for _ in range(2):
            gateway.post("/v1/chat/completions", {**ASK, "seed": 1})
            gateway.post("/v1/chat/completions", ASK)
    assert len(server.requests) == 3


def test_the_models_of_the_server_have_their_names_and_windows() -> None:
    rows = [{"name": "models/gemini-3", "inputTokenLimit": 1000}, {"name": "models/other"}, {"odd": 1}]
    server = ModelServer(lambda _: httpx.Response(200, json={"models": rows}))
    settings = {**SETTINGS, "upstreams": {"google": {**SETTINGS["upstreams"]["google"]}}, "passthrough": "google"}
    with Running(settings, server) as gateway:
        listed = gateway.get("/v1/models").json["data"]
    assert {"gemini-3", "other"} <= {row["id"] for row in listed}
    assert str(server.requests[-1].url) == "http://model.test/v1beta/models?pageSize=1000"


def test_the_number_of_tokens_is_the_servers() -> None:
    server = ModelServer(lambda _: httpx.Response(200, json={"totalTokens": 7}))
    target = targets(Settings.model_validate(SETTINGS))["google"]
    counted = asyncio.run(UpstreamClient(server).count_tokens(target, "/models/m:countTokens", b"{}"))
    assert counted["input_tokens"] == 7
