"""Over random conversations, on every path: a word that is refused never reaches a client, a value that is masked never
reaches a model server, and it reaches its client again."""

import asyncio
import json
import random
import re
from collections.abc import AsyncIterator
from typing import Any, cast

import httpx
import pytest

from tests.guards.golden_runner import write_blocks
from tests.httpx_upstream import HttpxUpstream
from tests.in_process_gateway import Answer, Pieces, Running
from tests.tool_loop.fake_servers import FakeServers, make_tool, text_answer

Json = dict[str, Any]
WORD = "zebra"
EMAIL, CARD, KEY = "ann@example.com", "4111 1111 1111 1111", "sk-proj-Ab1Cd2Ef3Gh4Ij5Kl6Mn7"
VALUES = (EMAIL, CARD, KEY)
PLACEHOLDER = re.compile(r"\[(?!EMAIL_ABCDEFGH)[A-Z]+_[A-Z2-7]{8}\]")
PLAIN = ("Hello.", "[1] and [", "{}", "It is fine, see\nnext line.", "zeb", "ra", "EMAIL_", "ze-bra", "100%")
APIS = ("chat_completions", "messages", "responses", "gemini")
CHAT_PATHS = ("/v1/chat", "/v1/chat/completions", "/v1/messages", "/v1/responses")
QWEN_FORMATS = ("qwen", "autogen", "agentscope", "agentscope2")
GUARDS: Json = {
    "pii": {"detectors": ["email", "card", "secrets"], "action": "mask"},
    "words": {"detectors": ["word"], "action": "reject"},
    "house": {"url": "http://house.localhost", "api": "litellm"},
}
MASKING: Json = {"key": "0" * 64, "patterns": {"word": WORD}}


class Servers(HttpxUpstream):
    """A model server that quotes what it was sent and says the word at times, and a service that refuses it."""

    def __init__(self, random_: random.Random) -> None:
        self._random = random_
        self.sent: list[bytes] = []
        self.checked: list[bytes] = []
        self.calls = False

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        await request.aread()
        if request.url.host == "house.localhost":
            self.checked.append(request.content)
            return self._judge(request)
        self.sent.append(request.content)
        if request.url.path.endswith(":countTokens"):
            return httpx.Response(200, json={"totalTokens": 3}, request=request)
        if "count_tokens" in request.url.path or "input_tokens" in request.url.path:
            return httpx.Response(200, json={"input_tokens": 3}, request=request)
        if "compact" in request.url.path:
            return httpx.Response(404, json={}, request=request)
        pieces = self._write(request.url.path, request.content.decode())
        headers = {"content-type": "text/event-stream"}
        return httpx.Response(200, headers=headers, stream=_Slow(pieces), request=request)

    def _judge(self, request: httpx.Request) -> httpx.Response:
        body = json.loads(request.content)
        texts = [*body["texts"], *(call["function"]["arguments"] for call in body["tool_calls"])]
        answer = {"action": "BLOCKED", "blocked_reason": "word"} if WORD in "\n".join(texts) else {"action": "NONE"}
        return httpx.Response(200, stream=Pieces([json.dumps(answer).encode()]), request=request)

    def _write(self, path: str, sent: str) -> list[bytes]:
        text = self._make_text(sent)
        if path.endswith("/responses"):
            return write_response(self._cut(text))
        if ":" in path:
            return write_gemini(self._cut(self._make_text(sent)), self._cut(text))
        wants_call = self.calls and '"tool_call_id"' not in sent and '"tools"' in sent
        if path.endswith("/messages"):
            thinking: Json = {"type": "thinking", "thinking": self._make_text(sent), "signature": "c2ln"}
            return write_blocks({"blocks": [thinking, {"type": "text", "text": text}], "stop_reason": "end_turn"})
        deltas: list[Json] = [{"reasoning_content": part} for part in self._cut(self._make_text(sent))]
        deltas += [{"content": part} for part in self._cut(text)]
        if wants_call:
            arguments = json.dumps({"to": self._make_text(sent)})
            parts = self._cut(arguments)
            deltas.append(_call({"arguments": parts[0], "name": "wx-now"}, id="call_1"))
            deltas += [_call({"arguments": part}) for part in parts[1:]]
        finish = "tool_calls" if wants_call else "stop"
        chunks: list[Json] = [{"choices": [{"index": 0, "delta": one, "finish_reason": None}]} for one in deltas]
        chunks.append({"choices": [{"index": 0, "delta": {}, "finish_reason": finish}]})
        return [*(b"data: %b\n\n" % json.dumps(chunk).encode() for chunk in chunks), b"data: [DONE]\n\n"]

    def _make_text(self, sent: str) -> str:
        known = PLACEHOLDER.findall(sent)
        parts = [self._random.choice((*PLAIN, *known, *known)) for _ in range(self._random.randint(1, 5))]
        if self._random.random() < 0.25:
            parts.insert(self._random.randrange(len(parts) + 1), WORD)
        return self._random.choice(("", " ", "\n")).join(parts)

    def _cut(self, text: str) -> list[str]:
        size = self._random.choice((1, 3, 7, 1000))
        return [text[place : place + size] for place in range(0, len(text), size)] or [""]


def write_response(parts: list[str]) -> list[bytes]:
    item: Json = {"id": "msg_1", "type": "message", "role": "assistant", "status": "in_progress", "content": []}
    part: Json = {"type": "output_text", "text": "", "annotations": []}
    whole = {**item, "status": "completed", "content": [{**part, "text": "".join(parts)}]}
    place = {"item_id": "msg_1", "output_index": 0, "content_index": 0}
    events: list[Json] = [
        {"type": "response.created", "response": {"id": "resp_1", "object": "response", "status": "in_progress"}},
        {"type": "response.output_item.added", "output_index": 0, "item": item},
        {"type": "response.content_part.added", **place, "part": part},
        *[{"type": "response.output_text.delta", **place, "delta": text} for text in parts],
        {"type": "response.output_item.done", "output_index": 0, "item": whole},
        {
            "type": "response.completed",
            "response": {"id": "resp_1", "object": "response", "status": "completed", "output": [whole]},
        },
    ]
    return [f"event: {event['type']}\n".encode() + b"data: %b\n\n" % json.dumps(event).encode() for event in events]


def write_gemini(thoughts: list[str], texts: list[str]) -> list[bytes]:
    parts: list[Json] = [{"text": text, "thought": True} for text in thoughts] + [{"text": text} for text in texts]
    contents: list[Json] = [{"content": {"role": "model", "parts": [part]}, "index": 0} for part in parts]
    chunks: list[Json] = [{"candidates": [content]} for content in contents]
    chunks.append({"candidates": [{"content": {"role": "model", "parts": []}, "finishReason": "STOP", "index": 0}]})
    return [b"data: %b\n\n" % json.dumps(chunk).encode() for chunk in chunks]


class _Slow(httpx.AsyncByteStream):
    def __init__(self, pieces: list[bytes]) -> None:
        self._pieces = pieces

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for piece in self._pieces:
            yield piece
            await asyncio.sleep(0)


def _call(function: Json, **fields: Any) -> Json:
    return {"tool_calls": [{"index": 0, "type": "function", "function": function, **fields}]}


def _make_settings(api: str, stream: str) -> Json:
    guards = {name: dict(row) for name, row in GUARDS.items()}
    for name in ("words", "house"):
        guards[name] |= {"stream": stream, "window_characters": 20, "overlap_characters": 5}
    return {
        "upstreams": {"s": {"base_url": "http://model.test/v1", "api": api}},
        "models": {"m": {"upstreams": ["s"]}},
        "cache": {"url": "memory:", "apply": "always"},
        "server": {"log_level": "error"},
        "guards": guards,
        "masking": MASKING,
    }


class Talk:
    """Random requests of one client."""

    def __init__(self, random_: random.Random) -> None:
        self._random = random_

    def text(self) -> str:
        parts = [self._random.choice((*PLAIN, *VALUES)) for _ in range(self._random.randint(1, 4))]
        if self._random.random() < 0.15:
            parts.append(WORD)
        return self._random.choice((" ", "\n", ", ")).join(parts)

    def turns(self) -> list[tuple[str, str]]:
        count = self._random.choice((0, 0, 1, 2))
        turns = [("user", self.text())]
        for _ in range(count):
            said = "\n".join(text for _, text in turns)
            answer = self._random.choice((*PLAIN, WORD, *(f"It is x{value}y." for value in VALUES if value in said)))
            turns += [("assistant", answer), ("user", self.text())]
        return turns

    def body(self, path: str) -> Json:
        turns, stream = self.turns(), self._random.random() < 0.6
        messages: list[Json] = [{"role": role, "content": text} for role, text in turns]
        if path == "/v1/responses":
            return {
                "model": "m",
                "stream": stream,
                "input": messages,
                "instructions": self.text().replace(WORD, "-"),
                "user": EMAIL,
            }
        if path == "/v1/messages":
            return {
                "model": "m",
                "max_tokens": 50,
                "stream": stream,
                "messages": messages,
                "system": self.text(),
                "metadata": {"user_id": EMAIL},
            }
        if path == "/v1/chat/completions":
            system = {"role": "system", "content": self.text()}
            return {"model": "m", "stream": stream, "messages": [system, *messages], "user": EMAIL}
        return {"model": "m", "stream": stream, "messages": messages}


def _check_servers(servers: Servers) -> None:
    for data in (*servers.sent, *servers.checked):
        text = data.decode()
        for value in VALUES:
            assert value not in text, text
        assert WORD not in text or data in servers.checked, text


def _check_client(answer: Answer) -> None:
    assert WORD not in answer.body.decode(), answer.body
    assert WORD not in _join(answer), answer.body
    assert answer.status in (200, 400), answer.body


def _join(answer: Answer) -> str:
    """Return all texts of deltas joined, by their places in frames."""
    texts: dict[str, str] = {}

    def collect(value: Any, name: str) -> None:
        if isinstance(value, str):
            texts[name] = texts.get(name, "") + value
        elif isinstance(value, dict):
            for key, item in value.items():
                collect(item, f"{name}.{key}")
        elif isinstance(value, list):
            for item in value:
                collect(item, name)

    for line in answer.body.decode().split("\n"):
        if line.startswith("data: {"):
            collect(json.loads(line[6:]), "")
    return "\n".join(texts.values())


@pytest.mark.parametrize("stream", ["block", "window"])
@pytest.mark.parametrize("api", APIS)
def test_no_path_lets_a_word_or_a_value_through(api: str, stream: str) -> None:
    random_ = random.Random(f"{api} {stream}")
    servers, talk = Servers(random_), Talk(random_)
    with Running(_make_settings(api, stream), servers) as gateway:
        for number in range(60):
            path = CHAT_PATHS[number % len(CHAT_PATHS)]
            body = talk.body(path)
            for _ in range(2):  # the second time, a reply that is stored answers
                answer = gateway.post(path, body)
                _check_client(answer)
                _check_servers(servers)
            _resume(gateway, answer)


@pytest.mark.parametrize("stream", ["block", "window"])
@pytest.mark.parametrize("api", APIS)
def test_no_path_of_gemini_lets_a_word_or_a_value_through(api: str, stream: str) -> None:
    random_ = random.Random(f"gemini {api} {stream}")
    servers, talk = Servers(random_), Talk(random_)
    roles = {"user": "user", "assistant": "model"}
    with Running(_make_settings(api, stream), servers) as gateway:
        for number in range(30):
            body: Json = {
                "contents": [{"role": roles[role], "parts": [{"text": text}]} for role, text in talk.turns()],
                "systemInstruction": {"parts": [{"text": talk.text()}]},
            }
            for way in ("streamGenerateContent?alt=sse", "streamGenerateContent", "generateContent", "countTokens"):
                given = {"contents": body["contents"]} if way == "countTokens" else body
                for _ in range(1 + number % 2):
                    _check_client(gateway.post(f"/v1beta/models/m:{way}", given))
                    _check_servers(servers)
    assert len(servers.sent) > 15


def _resume(gateway: Running, answer: Answer) -> None:
    id_ = answer.headers.get("x-parley-response-id")
    if id_ is not None and answer.status == 200:
        for path in (f"/v1/chat/{id_}/events", f"/v1/chat/{id_}"):
            again = gateway.get(path)
            assert again.status in (200, 400, 404), again.body  # only streams can be resumed
            assert WORD not in again.body.decode()
            assert WORD not in _join(again)


@pytest.mark.parametrize("stream", ["block", "window"])
def test_no_reply_with_tools_lets_a_word_or_a_value_through(stream: str) -> None:
    random_ = random.Random(stream)
    servers, talk = Servers(random_), Talk(random_)
    servers.calls = True
    with Running(_make_settings("chat_completions", stream), servers) as gateway:
        for number in range(60):
            result = talk.text()
            tools = FakeServers([make_tool("wx", "now")], {"wx-now": text_answer(result)})
            gateway.context.tools = cast(Any, tools)
            path = CHAT_PATHS[number % len(CHAT_PATHS)]
            _check_client(gateway.post(path, talk.body(path)))
            _check_servers(servers)
            for _, arguments in tools.calls:
                assert not PLACEHOLDER.search(json.dumps(arguments)), arguments
                assert WORD not in json.dumps(arguments)


@pytest.mark.parametrize("path", ["/v1/messages/count_tokens", "/v1/responses/input_tokens"])
def test_counts_of_tokens_let_no_value_through(path: str) -> None:
    random_ = random.Random(path)
    servers, talk = Servers(random_), Talk(random_)
    api = "messages" if "messages" in path else "responses"
    with Running(_make_settings(api, "block"), servers) as gateway:
        for _ in range(20):
            body = talk.body("/v1/messages" if api == "messages" else "/v1/responses")
            body.pop("stream")
            assert gateway.post(path, body).status == 200
            _check_servers(servers)
    assert servers.sent


def test_background_responses_let_nothing_through() -> None:
    random_ = random.Random(5)
    servers, talk = Servers(random_), Talk(random_)
    with Running(_make_settings("responses", "block"), servers) as gateway:
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
            _check_servers(servers)


def test_requests_that_are_no_conversation_let_nothing_through() -> None:
    servers = Servers(random.Random(6))
    settings = _make_settings("chat_completions", "block")
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
    _check_servers(servers)


def test_a_body_that_cannot_be_read_is_refused() -> None:
    servers = Servers(random.Random(7))
    with Running(_make_settings("responses", "block"), servers) as gateway:
        items = [{"type": "a_new_item", "text": EMAIL}, {"role": "user", "content": "Hello."}]
        answer = gateway.post("/v1/responses", {"model": "m", "input": items})
    assert (answer.status, servers.sent) == (400, [])


@pytest.mark.parametrize("format_", QWEN_FORMATS)
@pytest.mark.parametrize("mode", ["delta", "snapshot", "whole"])
def test_a_value_comes_back_in_each_format(format_: str, mode: str) -> None:
    servers = _Quoting()
    with Running(_make_settings("chat_completions", "block") | {"guards": {"pii": GUARDS["pii"]}}, servers) as gateway:
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
        return httpx.Response(200, headers=headers, stream=_Slow([*pieces, b"data: [DONE]\n\n"]), request=request)
