"""Runs a case of guards: a gateway in this process, a model server and services that play the case."""

import asyncio
import hashlib
import json
import re
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import httpx

from tests.guards.replies import Read, read_reply
from tests.httpx_upstream import HttpxUpstream
from tests.in_process_gateway import Answer, Pieces, Running
from tests.tool_loop.fake_servers import FakeServers, make_tool, text_answer

Json = dict[str, Any]
CASES = Path(__file__).parent / "cases"
PAUSE_SECONDS = 0.004
"""Between two chunks of the model server; delays of services are a tenth of those of a case."""
Cut = Callable[[list[Json]], list[Json]]


def load(name: str) -> Json:
    case: Json = json.loads((CASES / f"{name}.json").read_text())
    return case


def list_cases() -> list[str]:
    return sorted(path.stem for path in CASES.glob("*.json"))


@dataclass
class Played(HttpxUpstream):
    """The model server and all services of a case."""

    case: Json
    cut: Cut
    sent: list[Json] = field(default_factory=list)
    counted: list[Json] = field(default_factory=list)
    """Bodies whose tokens it has counted."""
    asked: dict[str, list[Json]] = field(default_factory=dict)
    used: dict[tuple[str, int], int] = field(default_factory=dict)
    chunk: int = 0
    """The number of chunks that were sent of the reply in progress."""
    ended: bool = False

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        await request.aread()
        host = request.url.host
        if host == "model.test":
            return self._reply(request)
        return await self._judge(host.partition(".")[0], request)

    def _reply(self, request: httpx.Request) -> httpx.Response:
        body = json.loads(request.content)
        if request.url.path.endswith(("/count_tokens", "/input_tokens")):
            self.counted.append(body)
            return httpx.Response(200, json={"input_tokens": 1}, request=request)
        self.sent.append(body)
        upstream = self.case["given"]["upstream"][len(self.sent) - 1]
        self.chunk, self.ended = 0, False
        if "status" in upstream:
            return httpx.Response(upstream["status"], json=upstream["body"], request=request)
        pieces = write_blocks(upstream) if "blocks" in upstream else self._write_chunks(upstream)
        headers = {"content-type": "text/event-stream"}
        return httpx.Response(200, headers=headers, stream=_Stream(self, pieces), request=request)

    def _write_chunks(self, upstream: Json) -> list[bytes]:
        pieces = [
            _data({"choices": [{"index": 0, "delta": delta, "finish_reason": None}]})
            for delta in self.cut(upstream["chunks"])
        ]
        end = {"choices": [{"index": 0, "delta": {}, "finish_reason": upstream["finish"]}]}
        usage = {"choices": [], "usage": {"prompt_tokens": 5, "completion_tokens": 7, "total_tokens": 12}}
        if upstream.get("cut"):
            return pieces
        return [*pieces, _data(end) + _data(usage) + b"data: [DONE]\n\n"]

    async def _judge(self, name: str, request: httpx.Request) -> httpx.Response:
        text = request.content.decode()
        self.asked.setdefault(name, []).append(
            {"path": request.url.path, "body": json.loads(text), "headers": dict(request.headers)}
        )
        answer = self._choose(name, json.dumps(json.loads(text), ensure_ascii=False))
        await asyncio.sleep(answer.get("delay_ms", 0) / 10_000)
        data = json.dumps(answer.get("body")).encode()
        return httpx.Response(answer.get("status", 200), stream=Pieces([data]), request=request)

    def _choose(self, name: str, text: str) -> Json:
        given = self.case["given"]["webhooks"][name]
        for number, answer in enumerate(given["answers"]):
            count = self.used.get((name, number), 0)
            if answer["if"] in text and count < answer.get("times", 1_000_000):
                self.used[name, number] = count + 1
                return cast(Json, answer)
        return {"body": given["default"]}


class _Stream(httpx.AsyncByteStream):
    def __init__(self, played: Played, pieces: list[bytes]) -> None:
        self._played, self._pieces = played, pieces

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for piece in self._pieces:
            self._played.chunk += 1
            self._played.ended = self._played.chunk == len(self._pieces)
            yield piece
            await asyncio.sleep(PAUSE_SECONDS)


def _data(value: Json) -> bytes:
    return b"data: " + json.dumps(value).encode() + b"\n\n"


def write_blocks(upstream: Json) -> list[bytes]:
    """Write the stream of a server of Messages."""
    message = {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "m",
        "content": [],
        "usage": {"input_tokens": 5, "output_tokens": 1},
    }
    events: list[Json] = [{"type": "message_start", "message": message}]
    for index, block in enumerate(upstream["blocks"]):
        events += _write_block(index, block)
    events.append(
        {"type": "message_delta", "delta": {"stop_reason": upstream["stop_reason"]}, "usage": {"output_tokens": 7}}
    )
    events.append({"type": "message_stop"})
    return [f"event: {event['type']}\n".encode() + _data(event) for event in events]


def _write_block(index: int, block: Json) -> list[Json]:
    kind = block["type"]
    if kind == "tool_use":
        begin = {**block, "input": {}}
        deltas = [{"type": "input_json_delta", "partial_json": json.dumps(block["input"])}]
    elif kind == "thinking":
        begin = {"type": "thinking", "thinking": "", "signature": ""}
        deltas = [
            {"type": "thinking_delta", "thinking": block["thinking"]},
            {"type": "signature_delta", "signature": block["signature"]},
        ]
    else:
        begin = {"type": "text", "text": ""}
        deltas = [{"type": "text_delta", "text": block["text"]}]
    return [
        {"type": "content_block_start", "index": index, "content_block": begin},
        *[{"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas],
        {"type": "content_block_stop", "index": index},
    ]


@dataclass
class Got:
    """What a client got, with the number of chunks that the model server had sent before each piece."""

    answer: Answer
    pieces: list[tuple[int, bool, bytes]]
    reply: Read | None


@dataclass
class Run:
    played: Played
    clients: list[Got]
    tool_calls: list[Any]
    metrics: str = ""


def run_case(case: Json, cut: Cut = list, path: str | None = None) -> Run:
    given = json.loads(re.sub(r"<(key|sha256):(\w+)>", _make_key, json.dumps(case["given"])))
    played = Played({"given": given}, cut)
    tools = _make_tools(given.get("mcp"))
    clients: list[Got] = []
    with Running(make_settings(given["config"]), played) as gateway:
        if tools is not None:
            gateway.context.tools = cast(Any, tools)
        for number, request in enumerate(given["requests"]):
            if path is not None and path != request["path"]:
                continue
            body = _insert_signature(request["body"], clients)
            clients.append(_ask(gateway, played, {**request, "body": body}))
            del number
        gateway.loop.run_until_complete(asyncio.sleep(0.08 if "observe" in json.dumps(given["config"]) else 0))
        metrics = gateway.get("/metrics").body.decode()
    return Run(played, clients, [] if tools is None else list(tools.calls), metrics)


def _make_key(found: "re.Match[str]") -> str:
    key = f"key-of-{found[2]}-0123456789"
    return key if found[1] == "key" else hashlib.sha256(key.encode()).hexdigest()


def _make_tools(given: Json | None) -> FakeServers | None:
    if not given:
        return None
    tools, answers = [], {}
    for server, row in given.items():
        for tool in row["tools"]:
            tools.append(make_tool(server, tool["name"]))
            answers[f"{server}-{tool['name']}"] = text_answer(row["results"][tool["name"]])
    return FakeServers(tools, answers)


def make_settings(config: Json) -> Json:
    tree: Json = json.loads(re.sub(r"<webhook:(\w+)>", r"http://\1.localhost", json.dumps(config)))
    tree.pop("mcp_servers", None)
    upstreams = {"s": {"base_url": "http://model.test/v1"} | tree.pop("upstreams", {}).get("s", {})}
    models = tree.pop("models", {"m": {"upstreams": ["s"]}})
    for row in tree.get("guards", {}).values():
        if "timeout_seconds" in row:
            row["timeout_seconds"] /= 10
    server = {key: value / 10 if key == "commit_seconds" else value for key, value in tree.pop("server", {}).items()}
    return {"upstreams": upstreams, "models": models, "server": {"log_level": "error", **server}, **tree}


def _insert_signature(body: Json, clients: list[Got]) -> Json:
    text = json.dumps(body)
    if "<signature of reply 1>" in text:
        reply = clients[0].reply
        assert reply is not None
        text = text.replace("<signature of reply 1>", reply.signature)
    made: Json = json.loads(text)
    return made


def _ask(gateway: Running, played: Played, request: Json) -> Got:
    pieces: list[tuple[int, bool, bytes]] = []
    answer = gateway.loop.run_until_complete(
        gateway.ask_async(
            *(
                "POST",
                request["path"],
                [json.dumps(request["body"], separators=(",", ":")).encode()],
                request.get("headers"),
            ),
            on_body=lambda data: pieces.append((played.chunk, played.ended, data)),
        )
    )
    reply = read_reply(request["path"], answer) if answer.status == 200 else None
    return Got(answer, pieces, reply)
