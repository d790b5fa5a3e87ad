"""The property of `test_every_path` on further paths: the formats of agents, streams that break, tools over each API,
requests that are no conversation."""

import json
import random
from typing import Any, cast

import httpx
import pytest

from tests.each_case import each_case
from tests.guards.model_replies import write_calls
from tests.guards.random_talk import (
    APIS,
    CARD,
    CHAT_PATHS,
    EMAIL,
    PLACEHOLDER,
    QWEN_FORMATS,
    WORD,
    Json,
    Servers,
    SlowStream,
    Talk,
    check_client,
    check_servers,
    join_deltas,
    make_guarded_settings,
)
from tests.in_process_gateway import Running
from tests.tool_loop.fake_servers import FakeServers, make_tool, text_answer

MODES = ("delta", "snapshot", "whole")


def in_format(messages: list[Json], format_: str) -> list[Json]:
    if format_ == "autogen":
        return [{"type": "TextMessage", "source": one["role"], "content": one["content"]} for one in messages]
    if format_.startswith("agentscope"):
        return [{**one, "name": "x", "content": [{"type": "text", "text": one["content"]}]} for one in messages]
    return messages


@pytest.mark.parametrize("stream", ["block", "window"])
@pytest.mark.parametrize("format_", QWEN_FORMATS)
def test_no_format_of_agents_lets_a_word_or_a_value_through(format_: str, stream: str) -> None:
    random_ = random.Random(f"{format_} {stream}")
    servers, talk = Servers(random_), Talk(random_)
    statuses = set()
    with Running(make_guarded_settings("chat_completions", stream), servers) as gateway:
        for number in range(45):
            mode = MODES[number % 3]
            body = talk.body("/v1/chat")
            body |= {"format": format_, "messages": in_format(body["messages"], format_), "stream": mode != "whole"}
            if mode != "whole":
                body["stream_mode"] = mode
            for _ in range(2):
                answer = gateway.post("/v1/chat", body)
                statuses.add(answer.status)
                check_client(answer)
                check_servers(servers)
    assert statuses == {200, 400}


class Breaking(Servers):
    """Its replies end at some byte, without an end or with a broken connection."""

    def __init__(self, random_: random.Random) -> None:
        super().__init__(random_)
        self.broken = 0

    def _write(self, path: str, sent: str) -> list[bytes]:
        whole = b"".join(super()._write(path, sent))
        place = self._random.randrange(len(whole))
        self.broken += 1
        return [whole[:place]] if self._random.random() < 0.5 else [whole[: place // 2], whole[place // 2 : place]]


@pytest.mark.parametrize("stream", ["block", "window"])
@pytest.mark.parametrize("api", APIS)
def test_no_stream_that_breaks_lets_a_word_or_a_value_through(api: str, stream: str) -> None:
    random_ = random.Random(f"broken {api} {stream}")
    servers, talk = Breaking(random_), Talk(random_)
    with Running(make_guarded_settings(api, stream), servers) as gateway:
        for number in range(60):
            path = CHAT_PATHS[number % len(CHAT_PATHS)]
            answer = gateway.post(path, talk.body(path))
            assert WORD not in answer.body.decode(), answer.body
            assert WORD not in join_deltas(answer), answer.body
            assert answer.status != 500
            check_servers(servers)
            if (id_ := answer.headers.get("x-parley-response-id")) is not None:
                again = gateway.get(f"/v1/chat/{id_}/events")
                assert WORD not in again.body.decode() and WORD not in join_deltas(again)
    assert servers.broken > 20


@pytest.mark.parametrize("stream", ["block", "window"])
@pytest.mark.parametrize("api", APIS)
def test_a_reply_that_is_cut_at_any_byte_has_no_part_of_a_word(api: str, stream: str) -> None:
    """Each cut of one reply, whose text begins with a word that a service refuses."""

    class Cut(Servers):
        place = 0

        def _make_text(self, sent: str) -> str:
            return f"{WORD} and more. It goes on."

        def _cut(self, text: str) -> list[str]:
            return list(text)

        def _write(self, path: str, sent: str) -> list[bytes]:
            whole = b"".join(super()._write(path, sent))
            self.length = len(whole)
            return [whole[: self.place]]

    servers = Cut(random.Random(1))
    settings = make_guarded_settings(api, stream)
    del settings["cache"], settings["guards"]["pii"], settings["guards"]["words"]
    path = "/v1/messages" if api == "messages" else "/v1/chat/completions"
    body = {"model": "m", "max_tokens": 9, "stream": True, "messages": [{"role": "user", "content": "Hi"}]}
    with Running(settings, servers) as gateway:
        gateway.post(path, body)
        for place in range(0, servers.length, 7):
            servers.place = place
            answer = gateway.post(path, body)
            assert WORD not in join_deltas(answer), (place, answer.body)
            assert b'"stop"' not in answer.body and b"end_turn" not in answer.body, place


class Calling(Servers):
    """Calls a tool of the gateway with what it was sent, over each API."""

    def _write(self, path: str, sent: str) -> list[bytes]:
        body = json.loads(sent)
        answered = any(word in sent for word in ("tool_result", "function_call_output", "functionResponse", '"tool"'))
        if "tools" not in body or answered:
            return super()._write(path, sent)
        return write_calls(path, self._make_text(sent), "wx-now", {"to": self._make_text(sent), "deep": [EMAIL[:3]]})


@pytest.mark.parametrize("stream", ["block", "window"])
@pytest.mark.parametrize("api", APIS)
def test_no_reply_with_tools_over_any_api_lets_a_word_or_a_value_through(api: str, stream: str) -> None:
    random_ = random.Random(f"tools {api} {stream}")
    servers, talk = Calling(random_), Talk(random_)
    called = 0
    with Running(make_guarded_settings(api, stream), servers) as gateway:
        for number in range(40):
            tools = FakeServers([make_tool("wx", "now")], {"wx-now": text_answer(talk.text())})
            gateway.context.tools = cast(Any, tools)
            path = CHAT_PATHS[number % len(CHAT_PATHS)]
            check_client(gateway.post(path, talk.body(path)))
            check_servers(servers)
            called += len(tools.calls)
            for _, arguments in tools.calls:
                assert not PLACEHOLDER.search(json.dumps(arguments)), arguments
                assert WORD not in json.dumps(arguments)
    assert called > 3


TEXT = f"Mail of {EMAIL}, paid with {CARD}"
REQUESTS: list[tuple[str, Json]] = [
    ("/v1/embeddings", {"input": TEXT}),
    ("/v1/embeddings", {"input": [TEXT, f"data: {EMAIL}", f"data:text/plain,{EMAIL}"]}),
    ("/v2/embed", {"inputs": [{"content": [{"type": "text", "text": TEXT}]}], "input_type": "x"}),
    ("/embed", {"inputs": TEXT}),
    ("/v1/rerank", {"query": TEXT, "documents": [TEXT, {"text": TEXT, "title": TEXT}]}),
    ("/v1/score", {"text_1": TEXT, "text_2": [TEXT]}),
    ("/v1/classify", {"input": [TEXT]}),
    ("/pooling", {"messages": [{"role": "user", "content": TEXT}]}),
    ("/v1/moderations", {"input": [{"type": "text", "text": TEXT}]}),
    ("/v1/images/generations", {"prompt": TEXT, "user": EMAIL, "metadata": {EMAIL: [CARD]}}),
    ("/v1/audio/speech", {"input": TEXT, "voice": "alloy", "instructions": TEXT}),
    ("/v1/tokenize", {"prompt": TEXT}),
    ("/v1beta/models/m:embedContent", {"content": {"parts": [{"text": TEXT}]}}),
    (
        "/v1beta/models/m:batchEmbedContents",
        {"requests": [{"model": "models/m", "content": {"parts": [{"text": TEXT}]}}]},
    ),
]
ENDPOINTS = ["chat", "embeddings", "rerank", "score", "classify", "pooling", "moderations", "images", "audio", "speech"]
PATHS = {"tokenize": "/tokenize", "detokenize": "/detokenize"}


class Answering(Servers):
    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        await request.aread()
        if request.url.host == "house.localhost":
            return await super().handle_async_request(request)
        self.sent.append(request.content)
        body = json.dumps({"data": [{"index": 0, "embedding": [1.0]}], "tokens": [1], "count": 1}).encode()
        headers = {"content-type": "application/json"}
        return httpx.Response(200, headers=headers, stream=SlowStream([body]), request=request)


def make_endpoint_settings() -> Json:
    settings = make_guarded_settings("chat_completions", "block")
    settings["upstreams"]["s"]["paths"] = PATHS
    settings["models"]["m"]["endpoints"] = ENDPOINTS
    return settings


@pytest.mark.parametrize(
    ("path", "body"), REQUESTS, ids=[f"{path} {number}" for number, (path, _) in enumerate(REQUESTS)]
)
def test_no_request_that_is_no_conversation_lets_anything_through(path: str, body: Json) -> None:
    servers = Answering(random.Random(1))
    with Running(make_endpoint_settings(), servers) as gateway:
        answer = gateway.post(path, {"model": "m", **body})
        assert answer.status == 200, answer.body
        assert len(servers.sent) == 1 and b"EMAIL_" in servers.sent[0]
        refused = gateway.post(path, json.loads(json.dumps({"model": "m", **body}).replace(CARD, f"a {WORD}")))
        if CARD in json.dumps(body):
            assert refused.status == 400, refused.body
            assert "content_filter" in refused.body.decode().lower()
    check_servers(servers)


@each_case(
    "path,body",
    [
        ("/v1/embeddings", {"input": "a", "instruction": WORD}),
        ("/v1/embeddings", {"input": "a", "title": WORD}),
        ("/v1/rerank", {"query": "a", "documents": ["b"], "instruct": WORD}),
        ("/v1/images/generations", {"prompt": "a", "negative_prompt": WORD}),
        ("/v1/audio/speech", {"input": "a", "voice": "v", "ref_text": WORD}),
    ],
)
def test_a_service_sees_instructions_beside_the_input(path: str, body: Json) -> None:
    servers, settings = Answering(random.Random(1)), make_endpoint_settings()
    settings["guards"] = {"house": settings["guards"]["house"]}
    with Running(settings, servers) as gateway:
        assert gateway.post(path, {"model": "m", **body}).status == 400
    assert not servers.sent


@pytest.mark.parametrize("batch", [False, True])
def test_a_body_of_geminis_own_is_masked_for_a_server_of_gemini(batch: bool) -> None:
    servers, settings = Answering(random.Random(1)), make_endpoint_settings()
    settings["upstreams"]["s"]["api"] = "gemini"
    row = {"content": {"parts": [{"text": TEXT}]}, "title": EMAIL, "taskType": "RETRIEVAL_DOCUMENT"}
    body: Json = {"requests": [row]} if batch else row
    path = f"/v1beta/models/m:{'batchEmbedContents' if batch else 'embedContent'}"
    with Running(settings, servers) as gateway:
        answer = gateway.post(path, body)
        refused = gateway.post(path, json.loads(json.dumps(body).replace(CARD, WORD)))
    assert (answer.status, refused.status, len(servers.sent)) == (200, 400, 1), answer.body
    assert b"RETRIEVAL_DOCUMENT" in servers.sent[0] and b"EMAIL_" in servers.sent[0]
    check_servers(servers)
    texts = [text for data in servers.checked for text in json.loads(data)["texts"]]
    assert not {"RETRIEVAL_DOCUMENT", "models/m"} & {*texts}


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/embeddings", {"input": [1, 2, 3]}),
        ("/v1/embeddings", {"input": [[1, 2], [3]]}),
        ("/v1/detokenize", {"tokens": [1, 2]}),
        ("/v1/rerank", {"query": "a", "documents": [[1, 2]]}),
    ],
)
def test_numbers_of_tokens_are_refused_because_no_guard_can_read_them(path: str, body: Json) -> None:
    servers = Answering(random.Random(1))
    settings = make_endpoint_settings()
    with Running(settings, servers) as gateway:
        answer = gateway.post(path, {"model": "m", **body})
        assert (answer.status, servers.sent) == (400, []), answer.body
        assert answer.json["error"]["code"] == "unsupported"
    for row in settings["guards"].values():
        row["phases"] = ["reply"]
    with Running(settings, servers) as gateway:
        assert gateway.post(path, {"model": "m", **body}).status == 200, "these guards look at no request"
    for row in settings["guards"].values():
        row |= {"action": "observe"} if "detectors" in row else {"mode": "observe"}
    with Running(settings, servers) as gateway:
        assert gateway.post(path, {"model": "m", **body}).status == 200
