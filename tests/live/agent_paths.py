"""Every way into the gateway that coding agents have beside their messages, as requests over real sockets."""

import contextlib
import http.server
import json
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import websockets.sync.client
from app.access import hash_key

Json = dict[str, Any]
PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVR42mM4IScHAAK2AQUKW6YGAAAAAElFTkSuQmCC"
SECONDS = 30.0
_TOOLS = Path(__file__).parents[1] / "tools" / "search_mcp.py"
ENDS = ("error", "response.completed", "response.failed", "response.incomplete")


class ModelServer:
    """Searches or reads a page if that is offered and was not done, and says `Done.` else. While it holds, it stops
    behind the first bytes of each stream."""

    def __init__(self) -> None:
        self.gate = threading.Event()
        self.gate.set()
        self.held = 0
        self._lock = threading.Lock()
        server = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                self._send(b'{"object": "list", "data": [{"id": "m", "max_model_len": 32768}, {"id": "vl"}]}', "json")

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["content-length"])))
                chunks = server.answer(body)
                self.send_response(200)
                self.send_header("content-type", "text/event-stream")
                self.send_header("connection", "close")
                self.end_headers()
                self.close_connection = True
                self.wfile.write(chunks[0])
                server.wait()
                self.wfile.write(b"".join(chunks[1:]))

            def _send(self, data: bytes, kind: str) -> None:
                self.send_response(200)
                self.send_header("content-type", f"application/{kind}")
                self.send_header("content-length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *_: object) -> None: ...

            def handle(self) -> None:
                with contextlib.suppress(OSError):  # the gateway was killed
                    super().handle()

        self._http = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._http.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._http.server_port}/v1"
        self._thread = threading.Thread(target=self._http.serve_forever)
        self._thread.start()

    def answer(self, body: Json) -> list[bytes]:
        offered = [one["function"]["name"] for one in body.get("tools", ())]
        done = any(one["role"] == "tool" for one in body["messages"])
        hosted = {"web_search": {"query": "news"}, "web_fetch": {"url": "https://1.1.1.1/one"}}
        deltas: list[Json] = [{"role": "assistant", "content": "" if done or not offered else "I look. "}]
        call = next((name for name in offered if name in hosted), None)
        if call is not None and not done:
            function = {"name": call, "arguments": json.dumps(hosted[call])}
            deltas.append({"tool_calls": [{"index": 0, "id": "call_1", "type": "function", "function": function}]})
        else:
            deltas.append({"content": "Done."})
        reason = "stop" if "content" in deltas[-1] else "tool_calls"
        chunks: list[Json] = [{"choices": [{"index": 0, "delta": delta, "finish_reason": None}]} for delta in deltas]
        chunks.append({"choices": [{"index": 0, "delta": {}, "finish_reason": reason}]})
        chunks.append({"choices": [], "usage": {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}})
        return [*(b"data: " + json.dumps(one).encode() + b"\n\n" for one in chunks), b"data: [DONE]\n\n"]

    def wait(self) -> None:
        if not self.gate.is_set():
            with self._lock:
                self.held += 1
            self.gate.wait(SECONDS)

    def hold(self) -> None:
        self.held = 0
        self.gate.clear()

    def close(self) -> None:
        self.gate.set()
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()


@contextlib.contextmanager
def model_server() -> Iterator[ModelServer]:
    with contextlib.closing(ModelServer()) as server:
        yield server


def configure(upstream: str, folder: Path) -> str:
    """Return a configuration with all that the ways need. Its keys are `free`, `other`, which is for another model, and
    for each way by its place in `PATHS` one for a single request a minute (`once-0`) and one with a small budget."""
    keys = {"free": "", "other": 'models = ["other"]'}
    for place in range(len(PATHS)):
        keys[f"once-{place}"] = "limits = { requests_per_minute = 1 }"
        keys[f"poor-{place}"] = "limits = { spend_per_day = 0.000001 }"
    rows = [f'[keys.{name}]\nsha256 = "{hash_key(name)}"\n{rights}' for name, rights in keys.items()]
    return f"""
        [upstreams.up]
        base_url = "{upstream}"
        kind = "vllm"
        [models.m]
        upstreams = ["up"]
        describe_media_with = "vl"
        profile = {{ media = [] }}
        price = {{ input = 1000000.0, output = 1000000.0 }}
        [models.vl]
        upstreams = ["up"]
        profile = {{ media = ["image"] }}
        price = {{ input = 1000000.0, output = 1000000.0 }}
        [models.auto]
        use = "m"
        [mcp_servers.web]
        command = "{sys.executable}"
        args = ["{_TOOLS}"]
        [hosted_tools.web_search]
        mcp = "web"
        tool = "search"
        price = {{ per_1000 = 5000.0 }}
        [hosted_tools.web_fetch]
        mcp = "web"
        tool = "fetch"
        known_urls = false
        [state]
        url = "sqlite:///{folder}/state.db"
        [cache]
        url = "null:"
        {chr(10).join(rows)}
    """


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    text: str


Send = Callable[[str, str], Answer]
"""Sends a request to the gateway with this URL, with this key."""


def _headers(key: str) -> Mapping[str, str]:
    return {"authorization": f"Bearer {key}", "anthropic-version": "2023-06-01"}


def post(path: str, body: Json) -> Send:
    def send(url: str, key: str) -> Answer:
        answer = httpx.post(url + path, json=body, headers=_headers(key), timeout=SECONDS)
        return Answer(answer.status_code, answer.text)

    return send


def _send_in_conversation(url: str, key: str) -> Answer:
    made = httpx.post(f"{url}/v1/conversations", json={}, headers=_headers(key), timeout=SECONDS)
    if made.status_code != 200:
        return Answer(made.status_code, made.text)
    body = {"model": "m", "input": "hi", "stream": True, "conversation": made.json()["id"]}
    return post("/v1/responses", body)(url, key)


def _send_by_socket(**fields: Any) -> Send:
    def send(url: str, key: str) -> Answer:
        address = url.replace("http", "ws") + "/v1/responses"
        with websockets.sync.client.connect(address, additional_headers=_headers(key), proxy=None) as socket:
            socket.send(json.dumps({"type": "response.create", "model": "m", "input": "hi", "store": False, **fields}))
            text = ""
            while True:
                frame = json.loads(socket.recv(SECONDS))
                text += json.dumps(frame)
                if frame["type"] in ENDS:
                    return Answer(frame.get("status", 200 if frame["type"] == "response.completed" else 502), text)

    return send


def _messages(text: str = "hi", **fields: Any) -> Json:
    return {"model": "m", "max_tokens": 50, "messages": [{"role": "user", "content": text}], **fields}


_SEARCH, _FETCH = (
    [{"type": f"web_{name}_20250305", "name": f"web_{name}", "max_uses": 2}] for name in ("search", "fetch")
)
_IMAGE = {"role": "user", "content": [{"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PIXEL}"}}]}
_LONG = [{"role": role, "content": "word " * 500} for role in ("user", "assistant", "user")]
_CALL = {"type": "tool_use", "id": "t1", "name": "read", "input": {}}
_CALLED = [
    {"role": "user", "content": "read"},
    {"role": "assistant", "content": [_CALL]},
    {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t1", "content": "x " * 200}]},
]
_CLEARS = {
    "type": "clear_tool_uses_20250919",
    "trigger": {"type": "tool_uses", "value": 1},
    "keep": {"type": "tool_uses", "value": 0},
}
_COMPACTS = {"type": "compact_20260112", "trigger": {"type": "input_tokens", "value": 1000}}

MODEL_PATHS: dict[str, Send] = {
    "id of Claude Code": post("/v1/messages", _messages(model="claude-parley-m", stream=True)),
    "compaction": post("/v1/responses/compact", {"model": "m", "input": "hi"}),
    "trigger of a compaction": post(
        "/v1/responses",
        {"model": "m", "stream": True, "input": [*_LONG, {"type": "compaction_trigger"}]},
    ),
    "socket": _send_by_socket(),
    "search in a socket": _send_by_socket(tools=[{"type": "web_search"}]),
    "search, streamed": post("/v1/messages", _messages(stream=True, tools=_SEARCH)),
    "search, whole": post("/v1/messages", _messages(tools=_SEARCH)),
    "search of Responses": post(
        "/v1/responses", {"model": "m", "input": "hi", "stream": True, "tools": [{"type": "web_search"}]}
    ),
    "search of chat completions": post(
        "/v1/chat/completions",
        {"model": "m", "stream": True, "messages": [{"role": "user", "content": "hi"}], "web_search_options": {}},
    ),
    "fetch": post("/v1/messages", _messages(stream=True, tools=_FETCH)),
    "described image": post("/v1/chat/completions", {"model": "m", "stream": True, "messages": [_IMAGE]}),
    "route": post("/v1/responses", {"model": "auto", "stream": True, "input": "hi"}),
    "cleared results": post(
        "/v1/messages", _messages(stream=True, messages=_CALLED, context_management={"edits": [_CLEARS]})
    ),
    "summary of a context": post(
        "/v1/messages", _messages(stream=True, messages=_LONG, context_management={"edits": [_COMPACTS]})
    ),
    "conversation": _send_in_conversation,
}
"""The ways that ask a model."""


def search_alone(query: str) -> Send:
    """Return the search of Codex, which asks no model."""
    return post("/v1/alpha/search", {"id": "s-1", "model": "m", "commands": {"search_query": [{"q": query}]}})


PATHS = {**MODEL_PATHS, "search of Codex": search_alone("news")}
