"""What users of other gateways reported of the Gemini API as a client's language in 2026, tried here. Each test names
the report."""

import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from typing_extensions import override

from tests.each_case import each_case
from tests.formats.gemini.golden_cases import join_parts, read_events
from tests.in_process_gateway import Answer, AnsweringGateway, streamed
from tests.upstream.gemini.replies import REPLY

Json = dict[str, Any]
USER: Json = {"role": "user", "parts": [{"text": "Hi"}]}
HI: Json = {"contents": [USER]}
GENERATE, STREAM = "/v1beta/models/m:generateContent", "/v1beta/models/m:streamGenerateContent"
KEY = {"x-goog-api-key": "k"}


def delta(finish: str | None = None, usage: Json | None = None, **fields: Any) -> bytes:
    chunk = {"choices": [{"index": 0, "delta": fields, "finish_reason": finish}], "usage": usage}
    return b"data: %b\n\n" % json.dumps(chunk).encode()


END, DONE = delta("stop"), b"data: [DONE]\n\n"


class _Gateway(AnsweringGateway):
    """`m` is a model of a server of chat completions, `g` of Google's, `e` one of vectors."""

    def __init__(self) -> None:
        settings = {
            "upstreams": {
                "local": {"base_url": "http://model.test/v1"},
                "google": {"base_url": "http://google.test", "api": "gemini", "api_key": "the-key"},
            },
            "models": {
                "m": {"upstreams": ["local"]},
                "g": {"upstreams": ["google"], "name": "up-g"},
                "e": {"upstreams": ["local"], "endpoints": ["embeddings"]},
            },
            "server": {"log_level": "error"},
        }
        super().__init__(settings)

    @override
    def _find_answer(self, request: httpx.Request) -> httpx.Response:
        if request.url.host == "google.test":
            return httpx.Response(200, json=REPLY)
        if request.url.path.endswith("/embeddings"):
            rows = [{"index": 0, "embedding": [0.5]}]
            return httpx.Response(200, json={"data": rows, "usage": {"prompt_tokens": 258, "total_tokens": 258}})
        return self.answer

    def stream(self, path: str, body: Any, *pieces: bytes, headers: Any = None) -> Answer:
        self.server.requests.clear()
        return self.exchange(path, body, streamed(*(pieces or (delta(content="Hello"), END)), DONE), headers)

    def send(self, contents: list[Json], **fields: Any) -> Json:
        """Return what the model server is sent."""
        answer = self.stream(GENERATE, {"contents": contents, **fields})
        assert answer.status == 200, answer.body
        sent: Json = self.sent
        return sent


@pytest.fixture(scope="module")
def gateway() -> Iterator[_Gateway]:
    with _Gateway() as gateway:
        yield gateway


def call(name: str = "f", **fields: Any) -> Json:
    return {"functionCall": {"name": name, "args": {}, **fields}}


def result(name: str = "f", **fields: Any) -> Json:
    return {"functionResponse": {"name": name, "response": {"result": "ok"}, **fields}}


def test_tools_go_to_any_server_and_calls_come_back(gateway: _Gateway) -> None:
    """diegosouzapw/OmniRoute issue 6222; Toloka/tolokaforge issue 1232."""
    schema = {"type": "OBJECT", "properties": {"n": {"type": "INTEGER"}}, "required": ["n"]}
    tools = [{"functionDeclarations": [{"name": "f", "description": "d", "parameters": schema}]}]
    contents = [USER, {"role": "model", "parts": [call()]}, {"role": "user", "parts": [result()]}]
    function = {"index": 0, "id": "c1", "type": "function", "function": {"name": "f", "arguments": '{"n": 1}'}}
    pieces = (delta(tool_calls=[function]), delta("tool_calls"))
    for path in (GENERATE, STREAM, f"{STREAM}?alt=sse"):
        answer = gateway.stream(path, {"contents": contents, "tools": tools}, *pieces)
        chunks = read_events(answer.body) if "alt" in path else answer.json
        [part] = join_parts(chunks if isinstance(chunks, list) else [chunks])
        assert part["functionCall"] == {"id": "c1", "name": "f", "args": {"n": 1}}
        assert gateway.sent["tools"][0]["function"]["parameters"]["properties"] == {"n": {"type": "integer"}}
        assert [one["role"] for one in gateway.sent["messages"]] == ["user", "assistant", "tool"]


def test_a_stream_without_events_is_one_json_document(gateway: _Gateway) -> None:
    """BerriAI/litellm issue 28777: a client that asks for no events got them."""
    answer = gateway.stream(STREAM, HI)
    assert answer.headers["content-type"].startswith("application/json")
    assert join_parts(answer.json) == [{"text": "Hello"}]
    events = gateway.stream(f"{STREAM}?alt=sse", HI)
    assert events.headers["content-type"].startswith("text/event-stream")


@each_case(
    "path",
    [
        "/v1/publishers/google/models/m:generateContent",
        "/v1beta1/publishers/google/models/m:streamGenerateContent",
        "/publishers/google/models/m:generateContent",
        "/publishers/google/models/m:streamGenerateContent?alt=sse",
        "/projects/p/locations/l/publishers/google/models/m:generateContent",
    ],
)
def test_a_gateways_own_address_is_the_collection_of_vertex(gateway: _Gateway, path: str) -> None:
    """earendil-works/pi issue 3619: with the scope COLLECTION the SDK adds no version to the base URL."""
    answer = gateway.stream(path, HI)
    assert answer.status == 200 or "/v1" in answer.json["error"]["message"]


@each_case(
    ("method", "path"),
    [
        ("POST", "/v1/v1beta/models/m:generateContent"),
        ("POST", "/v1beta/v1/models/m:generateContent"),
        ("POST", "/openai/models/m:streamGenerateContent"),
        ("POST", "/models/m:countTokens"),
        ("GET", "/v1beta/v1beta/models"),
        ("GET", "/v1/v1beta/models/m"),
    ],
)
def test_a_base_url_with_a_version_too_many_is_said_to_be_wrong(gateway: _Gateway, method: str, path: str) -> None:
    """TauricResearch/TradingAgents pull request 493. In Google's form, in which alone its clients read it."""
    answer = gateway.ask(method, path, [json.dumps(HI).encode()], KEY)
    assert (answer.status, answer.json["error"]["status"]) == (404, "NOT_FOUND")
    message = answer.json["error"]["message"]
    assert "base URL" in message or "Did you mean" in message


def test_googles_own_fields_reach_google(gateway: _Gateway) -> None:
    """BerriAI/litellm-docs pull request 412; cloudflare/ai issue 433."""
    fields: Json = {
        "safetySettings": [{"category": "HARM_CATEGORY_HARASSMENT", "threshold": "BLOCK_NONE"}],
        "toolConfig": {"functionCallingConfig": {"mode": "AUTO"}},
        "cachedContent": "cachedContents/x",
        "labels": {"team": "a"},
        "generationConfig": {"responseModalities": ["TEXT", "IMAGE"], "imageConfig": {"aspectRatio": "16:9"}},
    }
    answer = gateway.stream("/v1beta/models/g:generateContent", {**HI, **fields})
    assert answer.status == 200, answer.body
    request = gateway.server.requests[-1]
    assert str(request.url) == "http://google.test/v1beta/models/up-g:generateContent"
    assert gateway.sent == {**HI, **fields}


@each_case("model", ["m", "e"])
def test_tokens_are_counted_in_words_of_vertex_too_or_refused_with_the_reason(gateway: _Gateway, model: str) -> None:
    """googleapis/js-genai pull request 1912: `instances` is what Vertex counts of models of vectors."""
    path = f"/v1/publishers/google/models/{model}:countTokens"
    counted = gateway.stream(path, {"contents": [USER]})
    assert (counted.status, counted.json.get("totalTokens", 1) > 0) == (200, True) or "serves" in str(counted.json)
    refused = gateway.stream(path, {"instances": [{"content": "Hi"}]})
    assert refused.status == 400
    message = json.dumps(refused.json)
    assert "contents" in message or "serves" in message


def test_vectors_have_their_usage(gateway: _Gateway) -> None:
    """pydantic/pydantic-ai issue 6781."""
    rows = {"requests": [{"content": {"parts": [{"text": "a"}]}, "model": "models/e"}]}
    answer = gateway.stream("/v1beta/models/e:batchEmbedContents", rows)
    assert answer.json["usageMetadata"] == {"promptTokenCount": 258, "totalTokenCount": 258}


def test_results_may_come_in_several_contents_and_one_without_a_call_is_a_text(gateway: _Gateway) -> None:
    """google-gemini/gemini-cli issue 26956: the client sends the same conversation again."""
    calls = {"role": "model", "parts": [call(id="a"), call("g", id="b")]}
    rows = [{"role": "user", "parts": [one]} for one in (result(id="a"), result("g", id="b"))]
    sent = gateway.send([USER, calls, *rows])
    assert [one.get("tool_call_id") for one in sent["messages"]] == [None, None, "a", "b"]
    orphan = {"role": "user", "parts": [result("late", id="esr", response={"output": "words"})]}
    answer = gateway.stream(GENERATE, {"contents": [USER, calls, *rows, orphan]})
    *before, last = gateway.sent["messages"]
    assert [one["role"] for one in before] == ["user", "assistant", "tool", "tool"]
    assert (last["role"], "late" in last["content"], "words" in last["content"]) == ("user", True, True)
    assert any("contents[4].parts[0].functionResponse: " in one for one in answer.json["parley"]["warnings"])


INTERRUPTED = "The call was interrupted, so it has no result."


@each_case(
    ("contents", "results"),
    [
        ([USER, {"role": "model", "parts": [call(id="a")]}, USER], [INTERRUPTED]),
        (
            [USER, {"role": "model", "parts": [call(id="a"), call("g")]}, {"role": "user", "parts": [result(id="a")]}],
            ["ok", INTERRUPTED],
        ),
        ([USER, {"role": "model", "parts": [call()]}], [INTERRUPTED]),
        (
            [
                USER,
                {"role": "model", "parts": [call()]},
                {"role": "model", "parts": [{"text": "Well."}]},
                USER,
                {"role": "model", "parts": [call("g")]},
                {"role": "user", "parts": [result("g")]},
            ],
            [INTERRUPTED, "ok"],
        ),
    ],
)
def test_a_call_that_was_interrupted_gets_a_result(gateway: _Gateway, contents: list[Json], results: list[str]) -> None:
    """gemini-cli-extensions/conductor issue 62; google-gemini/gemini-cli issues 4324 and 16467: after an interruption
    each further request of the session had the same history, and was refused."""
    sent = gateway.send(contents)["messages"]
    calls = [one["id"] for message in sent for one in message.get("tool_calls", ())]
    answers = [message for message in sent if message["role"] == "tool"]
    assert [one["tool_call_id"] for one in answers] == calls
    assert [one["content"] for one in answers] == results


def test_google_itself_gets_a_call_without_a_result_as_it_came() -> None:
    """It says itself what it does not take, as servers of the other APIs do to their own clients."""
    settings: Json = {
        "upstreams": {"google": {"base_url": "http://google.test/v1beta", "api": "gemini"}},
        "models": {"m": {"upstreams": ["google"]}},
    }
    contents = [USER, {"role": "model", "parts": [call(id="a")]}, USER]
    whole = {"candidates": [{"content": {"role": "model", "parts": [{"text": "x"}]}, "finishReason": "STOP"}]}
    with AnsweringGateway(settings) as google:
        google.exchange(GENERATE, {"contents": contents}, httpx.Response(200, json=whole))
        assert google.sent["contents"] == contents


@each_case(
    "empty", [{"text": ""}, {"text": "", "thoughtSignature": "c2ln"}, {"thought": True, "text": ""}, {"text": None}]
)
def test_an_empty_text_beside_a_call_is_nothing(gateway: _Gateway, empty: Json) -> None:
    """home-assistant/core pull request 161502."""
    for parts in ([empty, call()], [call(), empty]):
        sent = gateway.send([USER, {"role": "model", "parts": parts}, {"role": "user", "parts": [result()]}])
        turn = sent["messages"][1]
        assert [one["role"] for one in sent["messages"]] == ["user", "assistant", "tool"]
        assert not turn.get("content")
        assert len(turn["tool_calls"]) == 1


@each_case(
    "contents",
    [[], None, [{"role": "user", "parts": []}], [{"role": "user", "parts": [{"text": ""}]}], [{"role": "user"}]],
)
def test_a_conversation_of_nothing_is_refused_in_words(gateway: _Gateway, contents: Any) -> None:
    """NousResearch/hermes-agent pull request 57942."""
    for path in (GENERATE, STREAM):
        answer = gateway.stream(path, {"contents": contents})
        assert (answer.status, answer.json["error"]["status"]) == (400, "INVALID_ARGUMENT")
        assert "contents" in json.dumps(answer.json)
        assert not gateway.server.requests


def test_cached_and_thought_tokens_are_in_the_last_chunk_of_a_stream(gateway: _Gateway) -> None:
    """langchain-ai/langchainjs pull request 9912; topcheer/ggcode issue 225; librefang/librefang issue 5873."""
    usage = {
        **{"prompt_tokens": 5105, "completion_tokens": 21, "total_tokens": 5126},
        "prompt_tokens_details": {"cached_tokens": 5100},
        "completion_tokens_details": {"reasoning_tokens": 5},
    }
    chunks = read_events(gateway.stream(f"{STREAM}?alt=sse", HI, delta(content="a"), END, delta(usage=usage)).body)
    assert chunks[-1]["usageMetadata"] == {
        "promptTokenCount": 5105,
        "cachedContentTokenCount": 5100,
        "candidatesTokenCount": 16,
        "thoughtsTokenCount": 5,
        "totalTokenCount": 5126,
    }
    assert [one["candidates"][0].get("finishReason") for one in chunks][-1] == "STOP"
