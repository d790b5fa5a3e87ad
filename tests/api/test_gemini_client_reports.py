"""More of what users of other gateways reported of the Gemini API as a client's language, tried here. Each test names
the report."""

import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.each_case import each_case
from tests.formats.gemini.golden_cases import join_parts, read_events
from tests.in_process_gateway import Answer, AnsweringGateway, ModelServer, Running, streamed

Json = dict[str, Any]
USER: Json = {"role": "user", "parts": [{"text": "Hi"}]}
HI: Json = {"contents": [USER]}
GENERATE, STREAM = "/v1beta/models/m:generateContent", "/v1beta/models/m:streamGenerateContent"
PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVR42mM4IScHAAK2AQUKW6YGAAAAAElFTkSuQmCC"
USAGE: Json = {
    "prompt_tokens": 220,
    "completion_tokens": 190,
    "total_tokens": 410,
    "prompt_tokens_details": {"cached_tokens": 100},
    "completion_tokens_details": {"reasoning_tokens": 185},
}


def delta(finish: str | None = None, usage: Json | None = None, **fields: Any) -> bytes:
    chunk = {"choices": [{"index": 0, "delta": fields, "finish_reason": finish}], "usage": usage}
    return b"data: %b\n\n" % json.dumps(chunk).encode()


def call(index: int, name: str, arguments: str = "{}", id_: str | None = None) -> Json:
    return {
        "index": index,
        "id": id_ or f"c{index}",
        "type": "function",
        "function": {"name": name, "arguments": arguments},
    }


END, DONE = delta("stop"), b"data: [DONE]\n\n"


class _Gateway(AnsweringGateway):
    def __init__(self) -> None:
        models = {name: {"upstreams": ["local"]} for name in ("m", "qwen3:8b", "Org/m")}
        upstreams = {"local": {"base_url": "http://model.test/v1"}}
        super().__init__({"upstreams": upstreams, "models": models, "server": {"log_level": "error"}})

    def stream(self, path: str, body: Any, *pieces: bytes, headers: Any = None) -> Answer:
        self.server.requests.clear()
        return self.exchange(path, body, streamed(*(pieces or (delta(content="Hello"), END)), DONE), headers)

    def send(self, contents: list[Json], **fields: Any) -> Json:
        """Return what the model server is sent."""
        answer = self.stream(GENERATE, {"contents": contents, **fields})
        assert answer.status == 200, answer.body
        sent: Json = self.sent
        return sent

    def list_parts(self, *pieces: bytes, **config: Any) -> list[list[Json]]:
        """Return the parts of a reply: as events, as an array, and whole."""
        body = {**HI, "generationConfig": config}
        events = read_events(self.stream(f"{STREAM}?alt=sse", body, *pieces).body)
        return [
            *(join_parts(chunks) for chunks in (events, self.stream(STREAM, body, *pieces).json)),
            join_parts([self.stream(GENERATE, body, *pieces).json]),
        ]


@pytest.fixture(scope="module")
def gateway() -> Iterator[_Gateway]:
    with _Gateway() as gateway:
        yield gateway


def calls_of(*ids: str | None, name: str = "f") -> Json:
    return {
        "role": "model",
        "parts": [
            {"functionCall": {"name": name, "args": {"n": at}, **({"id": id_} if id_ else {})}}
            for at, id_ in enumerate(ids)
        ],
    }


def results_of(*rows: Json) -> Json:
    return {"role": "user", "parts": [{"functionResponse": row} for row in rows]}


def test_a_result_that_has_only_an_id_answers_its_call(gateway: _Gateway) -> None:
    """router-for-me/CLIProxyAPI issue 2104."""
    rows = [{"id": "b", "response": {"result": "2"}}, {"id": "a", "name": "", "response": {"result": "1"}}]
    sent = gateway.send([USER, calls_of("a", "b"), results_of(*rows)])
    found = [(one["tool_call_id"], one["content"]) for one in sent["messages"] if one["role"] == "tool"]
    assert sorted(found) == [("a", "1"), ("b", "2")]


def test_calls_in_contents_of_their_own_are_one_turn(gateway: _Gateway) -> None:
    """google/adk-go issue 357; ag-ui-protocol/ag-ui issue 1334."""
    rows = [{"name": "f", "response": {"output": str(number)}} for number in range(5)]
    sent = gateway.send([USER, *(calls_of(None) for _ in rows), results_of(*rows)])
    [turn] = [one for one in sent["messages"] if one["role"] == "assistant"]
    ids = [one["id"] for one in turn["tool_calls"]]
    assert len(set(ids)) == 5
    found = [(one["tool_call_id"], one["content"]) for one in sent["messages"] if one["role"] == "tool"]
    assert found == [(id_, str(number)) for number, id_ in enumerate(ids)]


def test_results_in_contents_of_their_own_answer_all_calls(gateway: _Gateway) -> None:
    """A relative of the one above: the SDKs' chats send a content for each result."""
    rows = [{"name": "f", "response": {"result": str(number)}} for number in range(3)]
    sent = gateway.send([USER, calls_of(None, None, None), *(results_of(row) for row in rows)])
    assert [one["content"] for one in sent["messages"] if one["role"] == "tool"] == ["0", "1", "2"]


def test_a_result_may_have_only_media(gateway: _Gateway) -> None:
    """tidyverse/ellmer issue 910."""
    picture = {"inline_data": {"mime_type": "image/png", "data": PNG}}
    sent = gateway.send([USER, calls_of("a"), results_of({"id": "a", "name": "f", "parts": [picture]})])
    assert PNG in json.dumps(sent)


@each_case("path", ["/models/m:streamGenerateContent?alt=sse", "/v1/chat/completions/v1beta/models/m:generateContent"])
def test_a_wrong_base_url_is_a_404_in_words(gateway: _Gateway, path: str) -> None:
    """router-for-me/CLIProxyAPI issue 1476; Laisky/one-api issue 297."""
    answer = gateway.stream(path, HI, headers={"x-goog-api-key": "k"})
    assert answer.status == 404
    assert "/v1beta" in answer.json["error"]["message"]


def test_a_reply_of_thoughts_alone_has_a_finish_reason(gateway: _Gateway) -> None:
    """router-for-me/CLIProxyAPI issue 5226."""
    thought = delta(reasoning_content="Hm.")
    for config in ({}, {"thinkingConfig": {"includeThoughts": True}}):
        chunks = read_events(gateway.stream(f"{STREAM}?alt=sse", {**HI, "generationConfig": config}, thought, END).body)
        assert [one["candidates"][0].get("finishReason") for one in chunks].count("STOP") == 1
        assert all("content" in one["candidates"][0] for one in chunks)


@each_case(
    "contents",
    [
        [USER, {"role": "model", "parts": [{"text": ""}]}, USER],
        [USER, {"role": "model", "parts": [{"thought": True}]}, USER],
        [USER, {"role": "model", "parts": [{}]}, USER],
        [USER, {"role": "model", "parts": [{"text": "Hm", "thought": True, "thoughtSignature": "c2ln"}]}, USER],
        [USER, calls_of("a")],
    ],
)
def test_tokens_are_counted_of_any_history(gateway: _Gateway, contents: list[Json]) -> None:
    """snailyp/gemini-balance issues 182 and 196; BerriAI/litellm pull request 13545."""
    for body in ({"contents": contents}, {"generateContentRequest": {"model": "models/m", "contents": contents}}):
        answer = gateway.stream("/v1beta/models/m:countTokens", body)
        assert answer.status == 200 and answer.json["totalTokens"] > 0


def test_tools_beside_json_are_for_other_servers_to_take(gateway: _Gateway) -> None:
    """snailyp/gemini-balance issue 264; tbphp/gpt-load issue 188."""
    tools = [{"functionDeclarations": [{"name": "f", "description": "d"}]}]
    schema = {"type": "OBJECT", "properties": {"next_speaker": {"type": "STRING", "enum": ["user", "model"]}}}
    config = {"responseMimeType": "application/json", "responseSchema": schema}
    sent = gateway.send([USER], tools=tools, generationConfig=config)
    assert sent["tools"][0]["function"]["name"] == "f"
    assert sent["response_format"]["json_schema"]["schema"]["properties"]["next_speaker"]["type"] == "string"


def test_an_array_has_no_lines_of_events_and_events_no_brackets(gateway: _Gateway) -> None:
    """google-gemini/gemini-cli issue 12011."""
    array, events = gateway.stream(STREAM, HI), gateway.stream(f"{STREAM}?alt=sse", HI)
    assert json.loads(array.body) and b"data:" not in array.body
    assert all(line.startswith(b"data: {") for line in events.body.split(b"\r\n") if line)


def test_a_reply_of_calls_alone_has_them(gateway: _Gateway) -> None:
    """juspay/neurolink pull request 1480."""
    for parts in gateway.list_parts(delta(tool_calls=[call(0, "f", '{"a": 1}')]), delta("tool_calls")):
        assert [part["functionCall"] for part in parts] == [{"id": "c0", "name": "f", "args": {"a": 1}}]


def test_no_text_is_empty_before_the_end(gateway: _Gateway) -> None:
    """Sophomoresty/gemini-web2api pull request 7."""
    pieces = (delta(role="assistant", content=""), delta(content="a"), delta(content=""), delta(content="b"), END)
    chunks = read_events(gateway.stream(f"{STREAM}?alt=sse", HI, *pieces).body)
    texts = [part["text"] for one in chunks[:-1] for part in one["candidates"][0]["content"]["parts"]]
    assert texts == ["a", "b"]
    assert chunks[-1]["candidates"][0]["finishReason"] == "STOP"


def test_a_key_in_the_query_is_no_part_of_the_model(gateway: _Gateway) -> None:
    """maximhq/bifrost issue 442; googleapis/js-genai issue 785."""
    for query in ("?key=abc", "?key=abc&%24alt=json%3Benum-encoding%3Dint", "?alt=json&key=abc"):
        assert gateway.stream(f"{GENERATE}{query}", HI).json["modelVersion"] == "m"
        assert "abc" not in str(gateway.server.requests[0].url)


@each_case("path", ["/v1beta/models/qwen3:8b:generateContent", "/v1/models/Org/m:generateContent"])
def test_the_name_of_a_model_may_have_colons_and_slashes(gateway: _Gateway, path: str) -> None:
    """juspay/neurolink pull request 1468."""
    assert gateway.stream(path, HI).json["candidates"][0]["finishReason"] == "STOP"


def test_usage_tells_thoughts_and_what_was_cached(gateway: _Gateway) -> None:
    """Joouis/agent-maestro pull request 190; google-gemini/gemini-cli issue 14524; labring/aiproxy pull requests 176
    and 431."""
    wanted = {
        "promptTokenCount": 220,
        "cachedContentTokenCount": 100,
        "candidatesTokenCount": 5,
        "thoughtsTokenCount": 185,
        "totalTokenCount": 410,
    }
    pieces = (delta(content="a"), delta("stop", USAGE))
    assert gateway.stream(GENERATE, HI, *pieces).json["usageMetadata"] == wanted
    assert gateway.stream(STREAM, HI, *pieces).json[-1]["usageMetadata"] == wanted


@each_case("details", [None, {"reasoning_tokens": None}, {"reasoning_tokens": 500}, {"reasoning_tokens": -1}, "x"])
def test_counts_are_numbers_of_one_sum(gateway: _Gateway, details: Any) -> None:
    """A relative of the one above: servers tell null, or more thoughts than tokens."""
    usage = {**USAGE, "prompt_tokens_details": None, "completion_tokens_details": details}
    found = gateway.stream(GENERATE, HI, delta(content="a"), delta("stop", usage)).json["usageMetadata"]
    assert all(type(count) is int and count >= 0 for count in found.values())
    assert (
        found["totalTokenCount"]
        == 410
        == found["promptTokenCount"] + found["candidatesTokenCount"] + found.get("thoughtsTokenCount", 0)
    )


def test_an_error_of_the_server_has_a_number_and_a_word(gateway: _Gateway) -> None:
    """openclaw/openclaw issue 130550; google-gemini/gemini-cli issue 15498."""
    refusing = ModelServer(
        lambda _: httpx.Response(429, json={"error": {"message": "slow"}}, headers={"retry-after": "2"})
    )
    with Running(server=refusing) as running:
        answer = running.post(GENERATE, {**HI, "generationConfig": {}})
    error = answer.json["error"]
    assert (answer.status, error["code"], error["status"]) == (429, 429, "RESOURCE_EXHAUSTED")
    assert {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "2s"} in error["details"]


@each_case(
    ("path", "words"),
    [
        ("/upload/v1beta/files", "data URI"),
        ("/upload/v1/files", "data URI"),
        ("/v1beta/files/abc", "data URI"),
        ("/v1beta/cachedContents", "send the contents themselves"),
        ("/v1/projects/p/locations/l/cachedContents/c", "send the contents themselves"),
        ("/v1beta1/projects/p/locations/l/cachedContents", "send the contents themselves"),
    ],
)
def test_what_only_google_stores_is_named_in_googles_form(gateway: _Gateway, path: str, words: str) -> None:
    """googleapis/python-genai, `files.upload` and `caches.create`."""
    error = gateway.stream(path, {}).json["error"]
    assert (error["code"], error["status"]) == (404, "NOT_FOUND")
    assert words in error["message"]
