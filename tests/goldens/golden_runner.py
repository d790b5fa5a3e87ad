"""A golden case through the real gateway: its upstream's bytes on a real socket, its request through the application.

`llm_cfg.generate_cfg` is what the gateway's configuration calls a model's defaults, `extra_generate_cfg` the request's
`generate_cfg`.
"""

import json
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from urllib.parse import urlsplit

import httpx
from app.config.settings import Settings
from app.main import create_app
from app.validation.violations import to_violations
from pydantic import ValidationError

from tests.goldens.dashscope import compatible
from tests.scripted_server import Reply, Request, ScriptedServer

Json = dict[str, Any]

FOLDER = Path(__file__).parent / "qwen_agent"
DEFAULT_MODEL = "gpt-4o-mini"
"""What Qwen-Agent asks for when no model is named."""
DEFAULTS: dict[str, Json] = {
    "oai": {"use_raw_api": False},
    "qwenvl_oai": {"use_raw_api": False},
    "qwen_dashscope": {},
    "qwenvl_dashscope": {},
}
PROFILES: dict[str, Json] = {
    "oai": {"media": [], "file_text": False},
    "qwenvl_oai": {"media": ["image", "video"], "file_text": False, "text_parts": True},
    "qwen_dashscope": {"media": [], "file_text": False},
    "qwenvl_dashscope": {"media": ["image", "video"], "file_text": False, "text_parts": True},
}
"""What Qwen-Agent's classes of models take. Files are only named: Qwen-Agent's models read none."""
NO_FILES = ("<ASSETS>", "/nope")
"""Paths that Qwen-Agent reads, or looks for."""
HELLO: Any = {"choices": [{"index": 0, "delta": {"content": "Hello"}, "finish_reason": "stop"}]}


@dataclass(frozen=True, slots=True)
class Outcome:
    """What the gateway sent, and what it said."""

    requests: tuple[Request, ...] = ()
    messages: list[Json] | None = None
    finish_reason: str | None = None
    error: Json | None = None
    refused: tuple[str, ...] = ()
    """Places of a configuration that the gateway does not start with."""
    grown: tuple[str, ...] = ()
    """Of a stream of deltas: what they add up to, for each message."""

    @property
    def bodies(self) -> list[Json]:
        return [json.loads(request.body) for request in self.requests]


@dataclass(slots=True)
class _Read:
    messages: list[Json] | None = None
    finish_reason: str | None = None
    error: Json | None = None
    completed: dict[int, Json] = field(default_factory=dict)
    grown: dict[int, str] = field(default_factory=dict)
    """The text of all deltas of each message."""


GROUPS = ("01_", "02_", "03_", "04_", "05_", "06_", "07_", "08_", "09_", "10_", "12_", "13_")
"""Single requests and replies. Cached calls (group 11) are several, units are held against their steps."""


def load_cases() -> dict[str, Json]:
    """Every golden by its name."""
    paths = sorted(path for path in FOLDER.glob("[01]*.json") if path.name.startswith(GROUPS))
    cases = {path.stem: json.loads(path.read_text("utf-8")) for path in paths}
    return {name: compatible(case) if name.startswith("12_") else case for name, case in cases.items()}


def load_verdicts() -> dict[str, Json]:
    return {name: verdict for name, verdict in load_all_verdicts().items() if name.startswith(GROUPS)}


def load_all_verdicts() -> dict[str, Json]:
    """Those of cached calls too."""
    verdicts: dict[str, Json] = json.loads((FOLDER / "VERDICTS.json").read_text("utf-8"))
    return verdicts


async def play(case: Json) -> Outcome:
    """The case's request through a gateway of its configuration."""
    async with ScriptedServer(*(_replies(case) or [_reply({"kind": "sse", "chunks": [HELLO]})])) as server:
        return await _played(case, server, "null:")


async def play_calls(case: Json) -> list[Outcome]:
    """Calls one after another that share a cache, each to a gateway of its own configuration."""
    calls = [{**call, "env": case["env"]} for call in case["calls"]]
    replies = [reply for call in calls for reply in _replies(call)]
    with TemporaryDirectory() as folder:
        async with ScriptedServer(*replies) as server:
            return [await _played(call, server, f"sqlite:///{folder}/cache.db") for call in calls]


async def _played(case: Json, server: ScriptedServer, cache: str) -> Outcome:
    known = len(server.requests)
    tree = {**_settings(case, server.url), "cache": {"url": cache}}
    try:
        settings = Settings.model_validate(tree)
    except ValidationError as error:
        return Outcome(refused=tuple(item.path for item in to_violations(error, tree)))
    app = create_app(settings, retry_seconds=0.0)
    async with app.router.lifespan_context(app):
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            response = await client.post("/v1/chat", json=_request(case))
    read = _read_events(response.text) if _streamed(response) else _read_whole(response.json())
    grown = tuple(read.grown.get(index, "") for index in sorted(read.completed))
    return Outcome(tuple(server.requests[known:]), read.messages, read.finish_reason, read.error, grown=grown)


def _replies(case: Json) -> list[Reply]:
    return [_reply(exchange["response"]) for exchange in case["upstream"]]


def _settings(case: Json, url: str) -> Json:
    config = case["llm_cfg"]
    base = config.get("api_base") or config.get("base_url") or config["model_server"]
    upstream = {"base_url": url + urlsplit(base).path, "api_key": config.get("api_key", "EMPTY").strip()}
    upstream |= {"kind": "dashscope"} if config["model_type"].endswith("dashscope") else {}
    defaults = DEFAULTS[config["model_type"]] | config["generate_cfg"]
    profile = PROFILES[config["model_type"]] | {"special_code_mode": bool(case["env"].get("SPECIAL_CODE_MODE"))}
    model = {"upstreams": ["golden"], "defaults": defaults, "profile": profile}
    name = config["model"] or DEFAULT_MODEL
    return {"upstreams": {"golden": upstream}, "models": {name: model}}


def _request(case: Json) -> Json:
    body: Json = {"messages": [of_the_web(message) for message in case["messages"]], "stream": case["stream"]}
    body["stream_mode"] = "delta" if case["delta_stream"] else "snapshot"
    if case["llm_cfg"]["model"]:
        body["model"] = case["llm_cfg"]["model"]
    if case["functions"] is not None:
        body["functions"] = case["functions"]
    if case["extra_generate_cfg"] is not None:
        body["generate_cfg"] = case["extra_generate_cfg"]
    return body


def words(message: Json) -> str:
    """What a message, or a delta, says: a call's arguments, a thought or content."""
    call = message.get("function_call")
    return str(call["arguments"] if call else message.get("reasoning_content") or message.get("content", ""))


def of_the_web(message: Json) -> Json:
    """What is only a name, which Qwen-Agent tells without looking, is here the name of something on the web."""
    if isinstance(message.get("content"), list):
        return {**message, "content": [_named(item) for item in message["content"]]}
    return message


def _named(item: Json) -> Json:
    return {kind: _url(value) if kind in ("image", "file", "audio") else value for kind, value in item.items()}


def _url(value: Any) -> Any:
    if not isinstance(value, str) or value.startswith(("http", "data:", *NO_FILES)):
        return value
    return "https://x.com/" + value.rsplit("/", 1)[-1]


def _reply(response: Json) -> Reply:
    if response["kind"] == "sse":
        chunks = [_line(chunk) for chunk in response["chunks"]]
        done = [] if response.get("done") is False else [b"data: [DONE]\n\n"]
        return Reply(chunks=chunks + done, abrupt=bool(response.get("cut")))
    body = json.dumps(response["body"]).encode()
    headers = {"content-type": "application/json", "content-length": str(len(body)), **response.get("headers", {})}
    return Reply(chunks=[body], status=response.get("status", 200), headers=headers)


def _line(chunk: Json | str) -> bytes:
    return (chunk if isinstance(chunk, str) else f"data: {json.dumps(chunk)}\n\n").encode()


def _streamed(response: httpx.Response) -> bool:
    return response.headers["content-type"].startswith("text/event-stream")


def _read_whole(body: Json) -> _Read:
    return _Read(body.get("messages"), body.get("finish_reason"), body.get("error"))


def _read_events(text: str) -> _Read:
    """The last list of messages: of snapshots the newest, of deltas the completed ones."""
    read = _Read(messages=[])
    for line in text.splitlines():
        event = json.loads(line.removeprefix("data: ")) if line.startswith("data: ") else {}
        if event.get("type") == "messages":
            read.messages = event["messages"]
        elif event.get("type") == "message.delta":
            read.grown[event["index"]] = read.grown.get(event["index"], "") + words(event["delta"])
        elif event.get("type") == "message.completed":
            read.completed[event["index"]] = event["message"]
        elif event.get("type") == "response.completed":
            read.finish_reason = event["finish_reason"]
        elif event.get("type") == "response.failed":
            read.error = event["error"]
    if read.completed:
        read.messages = [read.completed[index] for index in sorted(read.completed)]
    return read
