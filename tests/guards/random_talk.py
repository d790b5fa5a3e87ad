"""Random requests of a client, a model server that quotes them, and a service that refuses a word."""

import asyncio
import json
import random
import re
from collections.abc import AsyncIterator, Iterator
from typing import Any

import httpx

from tests.guards.golden_runner import write_blocks
from tests.guards.model_replies import write_gemini, write_response
from tests.httpx_upstream import HttpxUpstream
from tests.in_process_gateway import Answer, Pieces

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
        return httpx.Response(200, headers=headers, stream=SlowStream(pieces), request=request)

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


class SlowStream(httpx.AsyncByteStream):
    def __init__(self, pieces: list[bytes]) -> None:
        self._pieces = pieces

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for piece in self._pieces:
            yield piece
            await asyncio.sleep(0)


def _call(function: Json, **fields: Any) -> Json:
    return {"tool_calls": [{"index": 0, "type": "function", "function": function, **fields}]}


def make_guarded_settings(api: str, stream: str) -> Json:
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


def check_servers(servers: Servers) -> None:
    for data in (*servers.sent, *servers.checked):
        text = data.decode()
        for value in VALUES:
            assert value not in text, text
        assert WORD not in text or data in servers.checked, text


def check_client(answer: Answer) -> None:
    assert WORD not in answer.body.decode(), answer.body
    assert WORD not in join_deltas(answer), answer.body
    assert answer.status in (200, 400), answer.body


def join_deltas(answer: Answer) -> str:
    """Return all texts of deltas joined, by their places in frames."""
    texts: dict[str, str] = {}

    def collect(value: Any, name: str) -> None:
        if isinstance(value, str):
            texts[name] = texts.get(name, "") + value
        elif isinstance(value, dict):
            for key, item in value.items():
                if key not in ("response", "item", "msg"):  # they have whole texts
                    collect(item, f"{name}.{key}")
        elif isinstance(value, list):
            for number, item in enumerate(value):
                collect(item, f"{name}{number if name.endswith('.messages') else ''}")

    for line in answer.body.decode().split("\n"):
        if line.startswith("data: {"):
            frame = json.loads(line[6:])
            # Messages of `/v1/chat` are apart, as items and parts of Responses are, and reasoning and text, which have
            # frames of other types.
            index = frame["index"] if "seq" in frame and "index" in frame else ""
            place = frame.get("output_index"), frame.get("content_index")
            apart = index, frame.get("metadata"), frame.get("type"), *place
            collect(frame, str(apart))
    return "\n".join(texts.values())


def list_strings(value: Any, place: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if isinstance(value, str):
        yield place
    elif isinstance(value, dict | list):
        for name, item in value.items() if isinstance(value, dict) else enumerate(value):
            yield from list_strings(item, (*place, name))
