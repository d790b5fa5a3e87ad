"""Over random conversations, on every path: a word that is refused never reaches a client, a value that is masked never
reaches a model server, and it reaches its client again."""

import asyncio
import json
import random
from typing import Any, cast

import httpx
import pytest

from tests.guards.model_replies import write_chat
from tests.guards.random_talk import (
    APIS,
    CHAT_PATHS,
    EMAIL,
    GUARDS,
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
from tests.httpx_upstream import HttpxUpstream
from tests.in_process_gateway import Answer, Running
from tests.tool_loop.fake_servers import FakeServers, make_tool, text_answer


@pytest.mark.parametrize("stream", ["block", "window"])
@pytest.mark.parametrize("api", APIS)
def test_no_path_lets_a_word_or_a_value_through(api: str, stream: str) -> None:
    random_ = random.Random(f"{api} {stream}")
    servers, talk = Servers(random_), Talk(random_)
    with Running(make_guarded_settings(api, stream), servers) as gateway:
        for number in range(60):
            path = CHAT_PATHS[number % len(CHAT_PATHS)]
            body = talk.body(path)
            for _ in range(2):  # the second time, a reply that is stored answers
                answer = gateway.post(path, body)
                check_client(answer)
                check_servers(servers)
            _resume(gateway, answer)


@pytest.mark.parametrize("stream", ["block", "window"])
@pytest.mark.parametrize("api", APIS)
def test_no_path_of_gemini_lets_a_word_or_a_value_through(api: str, stream: str) -> None:
    random_ = random.Random(f"gemini {api} {stream}")
    servers, talk = Servers(random_), Talk(random_)
    roles = {"user": "user", "assistant": "model"}
    with Running(make_guarded_settings(api, stream), servers) as gateway:
        for number in range(30):
            body: Json = {
                "contents": [{"role": roles[role], "parts": [{"text": text}]} for role, text in talk.turns()],
                "systemInstruction": {"parts": [{"text": talk.text()}]},
            }
            for way in ("streamGenerateContent?alt=sse", "streamGenerateContent", "generateContent", "countTokens"):
                given = {"contents": body["contents"]} if way == "countTokens" else body
                for _ in range(1 + number % 2):
                    check_client(gateway.post(f"/v1beta/models/m:{way}", given))
                    check_servers(servers)
    assert len(servers.sent) > 15


def _resume(gateway: Running, answer: Answer) -> None:
    id_ = answer.headers.get("x-parley-response-id")
    if id_ is not None and answer.status == 200:
        for path in (f"/v1/chat/{id_}/events", f"/v1/chat/{id_}"):
            again = gateway.get(path)
            assert again.status in (200, 400, 404), again.body  # only streams can be resumed
            assert WORD not in again.body.decode()
            assert WORD not in join_deltas(again)


@pytest.mark.parametrize("stream", ["block", "window"])
def test_no_reply_with_tools_lets_a_word_or_a_value_through(stream: str) -> None:
    random_ = random.Random(stream)
    servers, talk = Servers(random_), Talk(random_)
    servers.calls = True
    with Running(make_guarded_settings("chat_completions", stream), servers) as gateway:
        for number in range(60):
            result = talk.text()
            tools = FakeServers([make_tool("wx", "now")], {"wx-now": text_answer(result)})
            gateway.context.tools = cast(Any, tools)
            path = CHAT_PATHS[number % len(CHAT_PATHS)]
            check_client(gateway.post(path, talk.body(path)))
            check_servers(servers)
            for _, arguments in tools.calls:
                assert not PLACEHOLDER.search(json.dumps(arguments)), arguments
                assert WORD not in json.dumps(arguments)


class SplitWord(Servers):
    """A model that says the beginning of the word before it calls a tool, and the rest behind it."""

    def _write(self, path: str, sent: str) -> list[bytes]:
        call = {"index": 0, "id": "call_1", "function": {"name": "wx-now", "arguments": "{}"}}
        first: list[Json] = [{"content": f"It is a {WORD[:3]}"}, {"tool_calls": [call]}]
        rest: list[Json] = [{"reasoning_content": "So"}, {"content": f"{WORD[3:]}."}]
        is_first = '"tool_call_id"' not in sent
        return write_chat(first if is_first else rest, "tool_calls" if is_first else "stop")


@pytest.mark.parametrize("stream", ["block", "window"])
def test_a_word_that_two_turns_of_a_reply_share_is_refused(stream: str) -> None:
    """`/v1/chat/completions` joins the texts of turns. The second time, the first turn comes from the cache."""
    servers = SplitWord(random.Random(1))
    with Running(make_guarded_settings("chat_completions", stream), servers) as gateway:
        gateway.context.tools = cast(Any, FakeServers([make_tool("wx", "now")], {"wx-now": text_answer("fine")}))
        for path in CHAT_PATHS[:3]:
            for streams in (True, False):
                body = {"model": "m", "messages": [{"role": "user", "content": "Hi"}], "stream": streams}
                answer = gateway.post(path, body | ({"max_tokens": 9} if path == "/v1/messages" else {}))
                check_client(answer)
                assert b"The policy words refused this" in answer.body


@pytest.mark.parametrize("path", ["/v1/messages/count_tokens", "/v1/responses/input_tokens"])
def test_counts_of_tokens_let_no_value_through(path: str) -> None:
    random_ = random.Random(path)
    servers, talk = Servers(random_), Talk(random_)
    api = "messages" if "messages" in path else "responses"
    settings = make_guarded_settings(api, "block")
    del settings["guards"]["house"]  # a text that a service has not seen is counted by the gateway
    with Running(settings, servers) as gateway:
        for _ in range(20):
            body = talk.body("/v1/messages" if api == "messages" else "/v1/responses")
            body.pop("stream")
            assert gateway.post(path, body).status == 200
            check_servers(servers)
    assert servers.sent


def test_background_responses_let_nothing_through() -> None:
    random_ = random.Random(5)
    servers, talk = Servers(random_), Talk(random_)
    with Running(make_guarded_settings("responses", "block"), servers) as gateway:
        for _ in range(15):
            begun = gateway.post("/v1/responses", talk.body("/v1/responses") | {"background": True, "stream": False})
            assert begun.status == 200
            answer = begun
            for _ in range(100):
                answer = gateway.get(f"/v1/responses/{begun.json['id']}")
                if answer.json["status"] not in ("queued", "in_progress"):
                    break
                gateway.loop.run_until_complete(asyncio.sleep(0.01))
            assert answer.json["status"] in ("completed", "failed")
            assert WORD not in json.dumps(answer.json["output"])
            check_servers(servers)


def test_requests_that_are_no_conversation_let_nothing_through() -> None:
    servers = Servers(random.Random(6))
    settings = make_guarded_settings("chat_completions", "block")
    settings["models"]["m"]["endpoints"] = ["embeddings", "completions"]
    with Running(settings, servers) as gateway:
        body: Json = {"model": "m", "input": [f"Mail of {EMAIL}", "Hello."], "user": EMAIL}
        assert gateway.post("/v1/embeddings", body).headers["x-parley-guards"].startswith("pii=masked:1")
        refused = gateway.post("/v1/embeddings", {"model": "m", "input": f"A {WORD}"})
        completion = gateway.post("/v1/completions", {"model": "m", "prompt": "Hello"})
    assert json.loads(servers.sent[0])["input"] == ["Mail of [EMAIL_YGDF6NR7]", "Hello."]
    assert (refused.status, refused.json["error"]["code"]) == (400, "content_filter")
    assert (completion.status, completion.json["error"]["code"]) == (400, "unsupported")
    assert len(servers.sent) == 1
    check_servers(servers)


def test_a_body_that_cannot_be_read_is_refused() -> None:
    servers = Servers(random.Random(7))
    with Running(make_guarded_settings("responses", "block"), servers) as gateway:
        items = [{"type": "a_new_item", "text": EMAIL}, {"role": "user", "content": "Hello."}]
        answer = gateway.post("/v1/responses", {"model": "m", "input": items})
    assert (answer.status, servers.sent) == (400, [])


@pytest.mark.parametrize("format_", QWEN_FORMATS)
@pytest.mark.parametrize("mode", ["delta", "snapshot", "whole"])
def test_a_value_comes_back_in_each_format(format_: str, mode: str) -> None:
    servers = _Quoting()
    with Running(
        make_guarded_settings("chat_completions", "block") | {"guards": {"pii": GUARDS["pii"]}}, servers
    ) as gateway:
        messages: list[Json] = [{"role": "user", "content": f"Write to {EMAIL}"}]
        if format_ == "autogen":
            messages = [{"type": "TextMessage", "source": "user", "content": f"Write to {EMAIL}"}]
        elif format_.startswith("agentscope"):
            messages = [{"name": "u", "role": "user", "content": [{"type": "text", "text": f"Write to {EMAIL}"}]}]
        body: Json = {"model": "m", "format": format_, "messages": messages, "stream": mode != "whole"}
        if mode != "whole":
            body["stream_mode"] = mode
        answer = gateway.post("/v1/chat", body)
    assert EMAIL.encode() not in servers.sent[0]
    assert (answer.status, "EMAIL_" in answer.body.decode()) == (200, False), answer.body
    assert EMAIL in answer.body.decode() or mode == "delta"


class _Quoting(HttpxUpstream):
    """A model server that writes the first placeholder of its request, character by character."""

    def __init__(self) -> None:
        self.sent: list[bytes] = []

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        await request.aread()
        self.sent.append(request.content)
        found = PLACEHOLDER.findall(request.content.decode())
        deltas: list[Json] = [{"content": char} for char in f"I wrote to {found[0]}."]
        chunks: list[Json] = [{"choices": [{"index": 0, "delta": one, "finish_reason": None}]} for one in deltas]
        chunks.append({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})
        pieces = [b"data: %b\n\n" % json.dumps(chunk).encode() for chunk in chunks]
        headers = {"content-type": "text/event-stream"}
        return httpx.Response(200, headers=headers, stream=SlowStream([*pieces, b"data: [DONE]\n\n"]), request=request)
