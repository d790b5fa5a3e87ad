"""The words of which cases are made that are of the kind of the golden ones, in the same form."""

import base64
import hashlib
import json
import struct
import zlib
from typing import Any

Json = dict[str, Any]
UPSTREAM = {"up": {"base_url": "<UPSTREAM>/v1", "kind": "vllm"}}
CLAUDE = {
    "user-agent": "claude-cli/2.1.332 (external, cli)",
    "anthropic-version": "2023-06-01",
    "x-claude-code-session-id": "s-1",
}
MESSAGES, RESPONSES, CHAT, COMPACT = (
    "/v1/messages?beta=true",
    "/v1/responses",
    "/v1/chat/completions",
    "/v1/responses/compact",
)
CODEX_LIST = "/v1/models?client_version=0.171.0"
PAGES = [
    {"url": "https://a.example/one", "title": "One", "content": "The first page."},
    {"url": "https://b.example/two", "title": "Two", "content": "The second page."},
]
READ = "[1] One\nhttps://a.example/one\nThe first page.\n\n[2] Two\nhttps://b.example/two\nThe second page."
WEB: Json = {
    "tools": [{"name": name, "inputSchema": {"type": "object"}} for name in ("search", "fetch")],
    "answers": {
        "search": [{"content": [{"type": "text", "text": json.dumps({"results": PAGES})}]}],
        "fetch": [{"content": [{"type": "text", "text": "Page one.\nLine two."}]}],
    },
}
HOSTED: Json = {
    "mcp_servers": {"web": {}},
    "hosted_tools": {
        "web_search": {"mcp": "web", "tool": "search", "count": "max_results"},
        "web_fetch": {"mcp": "web", "tool": "fetch"},
    },
}
SEARCH = {"type": "web_search_20250305", "name": "web_search", "max_uses": 8}
FETCH = {"type": "web_fetch_20250910", "name": "web_fetch"}
READ_TOOL = {"name": "Read", "input_schema": {"type": "object", "properties": {}}}
READ_FUNCTION = {"type": "function", "name": "Read", "parameters": {"type": "object", "properties": {}}}
RESULTS = [
    {"type": "web_search_result", "url": page["url"], "title": page["title"], "encrypted_content": "<seal>"}
    for page in PAGES
]


def make_image(red: int) -> str:
    """A PNG of one pixel, in base64."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = chunk(b"IHDR", struct.pack(">IIBBBBB", 1, 1, 8, 2, 0, 0, 0))
    data = b"\x89PNG\r\n\x1a\n" + head + chunk(b"IDAT", zlib.compress(bytes([0, red, 0, 0]))) + chunk(b"IEND", b"")
    return base64.b64encode(data).decode()


def image(red: int) -> Json:
    return {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": make_image(red)}}


def models(**rows: Json) -> Json:
    return {"upstreams": UPSTREAM, "models": {name: {"upstreams": ["up"], **row} for name, row in rows.items()}}


def keys(**rows: Json) -> Json:
    return {name: {"sha256": hashlib.sha256(f"key-{name}".encode()).hexdigest(), **row} for name, row in rows.items()}


def bearer(name: str, **more: str) -> Json:
    return {"authorization": f"Bearer key-{name}", **more}


def call(name: str, arguments: Any, id_: str = "call_1") -> Json:
    return {"id": id_, "name": name, "arguments": arguments if isinstance(arguments, str) else json.dumps(arguments)}


def post(path: str, body: Json, headers: Json | None = None) -> Json:
    return {"method": "POST", "path": path, "headers": headers or {}, "body": {"model": "qwen3", **body}}


def get(path: str, headers: Json | None = None, method: str = "GET") -> Json:
    return {"method": method, "path": path, "headers": headers or {}}


def messages(text: Any = "hi", headers: Json | None = None, **body: Any) -> Json:
    """`text`: what the user says, or all messages."""
    is_whole = text.startswith("<history:") if isinstance(text, str) else "role" in text[0]
    said = text if is_whole else [{"role": "user", "content": text}]
    return post(MESSAGES, {"max_tokens": 1000, "messages": said, **body}, {**CLAUDE, **(headers or {})})


def socket(*steps: Json, headers: Json | None = None) -> Json:
    return {"socket": RESPONSES, "headers": headers or {}, "steps": list(steps)}


def create(text: str = "hi", **fields: Any) -> Json:
    said = [{"type": "message", "role": "user", "content": [{"type": "input_text", "text": text}]}]
    return {"send": {"type": "response.create", "model": "qwen3", "store": False, "input": said, **fields}}


def ok(**body: Any) -> Json:
    return {"status": 200, **({"body": body} if body else {})}


def case(config: Json, requests: list[Json], replies: list[Json], upstream: list[Json], **more: Any) -> Json:
    """`upstream` has pairs: what the model server answers, and what the call must have."""
    given = {name: more.pop(name) for name in ("mcp", "upstream_models") if name in more}
    if "mcp_calls" in more:
        more["mcp"] = more.pop("mcp_calls")
    answers = [row["answer"] for row in upstream if "answer" in row]
    asked = [row["asked"] for row in upstream if "asked" in row]
    return {
        "given": {"config": config, "upstream": answers, "requests": requests, **given},
        "expect": {"replies": replies, "upstream": asked, **more},
    }


def turn(answer: Any = "hello", **asked: Any) -> Json:
    return {"answer": {"text": answer} if isinstance(answer, str) else answer, "asked": asked}


QWEN = models(qwen3={})
WITH_WEB = {**QWEN, **HOSTED}
