"""Turns of a model that calls tools of the gateway, as a model server streams them."""

import json
from typing import Any

import httpx

from tests.in_process_gateway import streamed
from tests.tool_loop.fake_servers import make_tool

Json = dict[str, Any]
NOW, SET = make_tool("wx", "now"), make_tool("wx", "set", approval=True)


def chunk(delta: Json, finish: str | None = None, cost: float | None = None) -> bytes:
    body: Json = {"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}
    if finish is not None:
        body["usage"] = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
        body["usage"] |= {} if cost is None else {"cost": cost}
    return f"data: {json.dumps(body)}\n\n".encode()


def calls(*names: str, text: str = "I look.", cost: float | None = None, finish: str = "tool_calls") -> httpx.Response:
    called = [
        {"index": at, "id": f"call_{at}", "type": "function", "function": {"name": name, "arguments": "{}"}}
        for at, name in enumerate(names)
    ]
    pieces = [chunk({"content": text}), chunk({"tool_calls": called}), chunk({}, finish, cost), b"data: [DONE]\n\n"]
    return streamed(*pieces)


def says(text: str = "Sunny.", cost: float | None = None) -> httpx.Response:
    return streamed(chunk({"content": text}), chunk({}, "stop", cost), b"data: [DONE]\n\n")
