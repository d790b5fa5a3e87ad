"""Clients of each format, over each of their paths: each keeps its conversation as the client packages do."""

import asyncio
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from app.chat.messages import Reasoning, Text, ToolCall

from tests.asgi_socket import SocketClient
from tests.conversations.clients import CALLERS, frames
from tests.conversations.sample_conversations import normalize_messages
from tests.guards.random_talk import join_deltas
from tests.in_process_gateway import Answer, Running

Json = dict[str, Any]
FUNCTION: Json = {"name": "get_weather", "parameters": {"type": "object", "properties": {"to": {"type": "string"}}}}
POLLS, POLL_SECONDS = 500, 0.004


@dataclass
class Got:
    """What a client has of one reply."""

    status: int
    raw: str
    """All that came, and what its deltas make."""
    headers: Mapping[str, str] = field(default_factory=dict)
    kept: list[Json] = field(default_factory=list)
    """The messages of the reply, as the client sends them back; none of an error."""
    end: str = ""
    """Its finish reason, in the words of the format; `error` if it has failed."""
    text: str = ""
    reasoning: str = ""
    calls: list[ToolCall] = field(default_factory=list)
    reply_id: str | None = None


@dataclass(frozen=True)
class Kind:
    """One kind of client."""

    form: str
    write: Callable[[list[Json], bool], Json]
    """The body for messages, streamed or not, without the model."""
    path: str = "/v1/chat"
    refused_end: str = "content_filter"
    """How a reply ends that a guard has refused."""
    keeps: bool = False
    """The gateway keeps the conversation."""
    over: str = "http"
    """`http`, `background` or `socket`."""


def _chat(form: str, **fields: Any) -> Callable[[list[Json], bool], Json]:
    return lambda messages, stream: {
        "format": form,
        "messages": messages,
        "functions": [FUNCTION],
        "stream": stream,
        **({"stream_mode": "snapshot"} if stream and "snapshot" in fields else {}),
    }


def _completions(messages: list[Json], stream: bool) -> Json:
    return {"messages": messages, "stream": stream, "tools": [{"type": "function", "function": FUNCTION}]}


def _messages(messages: list[Json], stream: bool) -> Json:
    tool = {"name": FUNCTION["name"], "input_schema": FUNCTION["parameters"]}
    return {"messages": messages, "stream": stream, "max_tokens": 5000, "tools": [tool]}


def _responses(**fields: Any) -> Callable[[list[Json], bool], Json]:
    return lambda messages, stream: {
        "input": messages,
        "stream": stream,
        "tools": [{"type": "function", **FUNCTION}],
        **fields,
    }


def _gemini(messages: list[Json], stream: bool) -> Json:
    return {"contents": messages, "tools": [{"functionDeclarations": [FUNCTION]}]}


KINDS: dict[str, Kind] = {
    "qwen": Kind("qwen", _chat("qwen")),
    "qwen snapshots": Kind("qwen", _chat("qwen", snapshot=True)),
    "autogen": Kind("autogen", _chat("autogen")),
    "agentscope": Kind("agentscope", _chat("agentscope")),
    "agentscope2": Kind("agentscope2", _chat("agentscope2")),
    "openai": Kind("openai", _chat("openai")),
    "completions": Kind("openai", _completions, "/v1/chat/completions"),
    "messages": Kind("anthropic", _messages, "/v1/messages", "refusal"),
    "responses": Kind("responses", _responses(store=False), "/v1/responses", "error"),
    "stored": Kind("responses", _responses(), "/v1/responses", "error", keeps=True),
    "background": Kind(
        "responses", _responses(background=True), "/v1/responses", "error", keeps=True, over="background"
    ),
    "socket": Kind("responses", _responses(store=False), "/v1/responses", "error", keeps=True, over="socket"),
    "gemini": Kind("gemini", _gemini, "/v1beta/models/{model}", "PROHIBITED_CONTENT"),
}


class Client:
    """One conversation of one client."""

    def __init__(
        self,
        gateway: Running,
        kind: Kind,
        *,
        stream: bool,
        key: str | None = None,
        model: str = "m",
        **fields: Any,
    ) -> None:
        self._gateway, self._kind, self._stream, self._model, self._fields = gateway, kind, stream, model, fields
        self._headers = {} if key is None else {"authorization": f"Bearer {key}"}
        self._caller = CALLERS[kind.form]
        self._socket: SocketClient | None = None
        self._sent: list[Json] = []
        """What the last reply answers: all messages, or those behind a reply that the gateway keeps."""
        self._last_id: str | None = None

    def ask(self, *texts: str) -> Got:
        return self._send([*self._sent, *map(self._caller.ask, texts)])

    def answer(self, results: Mapping[str, str]) -> Got:
        return self._send(self._caller.answer(self._sent, dict(results)))

    def leave(self) -> None:
        if self._socket is not None:
            self._socket.leave()

    def _send(self, messages: list[Json]) -> Got:
        kind = self._kind
        body = {"model": self._model, **kind.write(messages, self._stream), **self._fields}
        if self._last_id is not None:
            body["previous_response_id"] = self._last_id
        got = self._send_over_socket(body) if kind.over == "socket" else self._post(body)
        self._sent = messages
        if kind.keeps and got.reply_id is not None and got.end != "error":
            self._last_id, self._sent = got.reply_id, []
        elif got.end != "error":
            self._sent = [*messages, *got.kept]
        return got

    def _send_over_socket(self, body: Json) -> Got:
        self._socket = self._socket or SocketClient(self._gateway, self._headers)
        del body["stream"]
        sent = self._socket.ask({"type": "response.create", **body})
        data = b"".join(b"data: %b\n\n" % json.dumps(frame, ensure_ascii=False).encode() for frame in sent)
        headers = [(b"content-type", b"text/event-stream")]
        return self._read(Answer(int(sent[-1].get("status", 200)), headers, data))

    def _post(self, body: Json) -> Got:
        path = self._kind.path.format(model=body["model"])
        if self._kind.form == "gemini":
            path += ":streamGenerateContent?alt=sse" if self._stream else ":generateContent"
            del body["model"]
        answer = self._gateway.post(path, body, self._headers)
        if self._kind.over == "background" and not self._stream and answer.status == 200:
            answer = self._poll(answer)
        return self._read(answer)

    def _poll(self, answer: Answer) -> Answer:
        path = f"/v1/responses/{answer.json['id']}"
        for _ in range(POLLS):
            answer = self._gateway.get(path, self._headers)
            if answer.json["status"] not in ("queued", "in_progress"):
                return answer
            self._gateway.loop.run_until_complete(asyncio.sleep(POLL_SECONDS))
        raise AssertionError("a background response does not end")

    def _read(self, answer: Answer) -> Got:
        streams = answer.headers["content-type"].startswith("text/event-stream")
        sent = frames(answer) if streams else [answer.json]
        raw = "\n".join([*(json.dumps(frame, ensure_ascii=False) for frame in sent), join_deltas(answer)])
        got = Got(answer.status, raw, answer.headers, end=_find_end(self._kind.form, sent))
        got.reply_id = _find_id(sent)
        if answer.status != 200 or got.end == "error":
            got.end = "error"
            return got
        kept = self._caller.streamed(sent) if streams else self._caller.whole(sent[0])
        if self._kind.form == "qwen" and "stream_mode" in self._kind.write([], True) and streams:
            kept = [frame["messages"] for frame in sent if frame["type"] == "messages"][-1]
        got.kept = json.loads(json.dumps(kept))
        for message in normalize_messages(self._kind.form, [self._caller.ask("?"), *got.kept])[1:]:
            for part in message.parts:
                if isinstance(part, Text):
                    got.text += part.text
                elif isinstance(part, Reasoning):
                    got.reasoning += part.text
                elif isinstance(part, ToolCall):
                    got.calls.append(part)
        return got


def _find_id(sent: list[Json]) -> str | None:
    last = sent[-1].get("response", sent[-1])
    return last.get("id") if last.get("object") == "response" else None


def _find_end(form: str, sent: list[Json]) -> str:
    last = sent[-1]
    if form == "responses":
        status = str(last.get("response", last).get("status"))
        return "error" if status in ("failed", "400", "503") or last.get("type") == "error" else status
    if form == "gemini":
        candidates = last.get("candidates") or [{}]
        return str(candidates[0].get("finishReason", "error"))
    names = {"openai": "finish_reason", "anthropic": "stop_reason", "autogen": "stop_reason"}
    ends = [end for frame in sent for end in _list_named(frame, names.get(form, "finish_reason"))]
    if form == "agentscope2":
        ends = ends or _list_named(last, "finished_reason")
    failed = any(frame.get("error") or frame.get("type") == "response.failed" for frame in sent)
    return "error" if failed or not ends else ends[-1]


def _list_named(value: Any, name: str) -> list[str]:
    """Return the texts that fields of this name have."""
    if isinstance(value, list):
        return [text for item in value for text in _list_named(item, name)]
    if not isinstance(value, dict):
        return []
    own = [value[name]] if isinstance(value.get(name), str) else []
    return own + [text for item in value.values() for text in _list_named(item, name)]
