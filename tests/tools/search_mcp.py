"""A server of tools that searches and fetches, over stdio, for tests: the query says what it answers."""

import json
import sys
import time
from typing import Any

PAGES = [
    {"url": "https://a.example/one", "title": "One", "content": "The first page."},
    {"url": "https://b.example/two", "title": "Two", "content": "The second page."},
]
TOOLS = [{"name": name, "inputSchema": {"type": "object"}} for name in ("search", "fetch")]


def text(value: str, **more: Any) -> dict[str, Any]:
    return {"result": {"content": [{"type": "text", "text": value}], **more}}


def run_tool(name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    if name == "fetch":
        return text("x" * 400 if arguments["url"].endswith("/long") else f"The page {arguments['url']}.")
    query = arguments["query"]
    if query == "fail":
        return text("quota used up", isError=True)
    if query == "busy":
        return text("HTTP 429", isError=True)
    if query == "refuse":
        return {"error": {"code": -32000, "message": "engine is down"}}
    if query == "slow":
        time.sleep(1)
    if query == "nothing":
        return text("There is nothing.")
    if query == "empty":
        return {"result": {"content": []}}
    if query == "arguments":
        return text(json.dumps(arguments))
    return text(json.dumps({"results": PAGES}))


for line in sys.stdin:
    message = json.loads(line)
    method, params = message.get("method"), message.get("params") or {}
    if "id" not in message:
        continue
    answer: dict[str, Any] = {"result": {}}
    if method == "initialize":
        version, info = params["protocolVersion"], {"name": "search", "version": "1"}
        answer = {"result": {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": info}}
    elif method == "tools/list":
        answer = {"result": {"tools": TOOLS}}
    elif method == "tools/call":
        answer = run_tool(params["name"], params["arguments"])
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", "id": message["id"], **answer}) + "\n")
    sys.stdout.flush()
