"""A gateway that checks output, requests with a JSON schema, and a model server that answers them."""

import json
from collections.abc import Callable
from typing import Any

import httpx

from tests.in_process_gateway import Answer, Running, streamed

SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"], "additionalProperties": False}
GOOD, FENCED, BAD = '{"a": 1}', '```json\n{"a": 1,}\n```', "The answer is 1."
CHAT, PARLEY, MESSAGES, RESPONSES = "/v1/chat/completions", "/v1/chat", "/v1/messages", "/v1/responses"


def settings(mode: str, **model: Any) -> dict[str, Any]:
    profile = {"check_output": mode}
    return {
        "upstreams": {"local": {"base_url": "http://model.test/v1"}},
        "models": {
            "m": {"upstreams": ["local"], "profile": profile, **model},
            "other": {"upstreams": ["local"], "profile": profile},
        },
    }


def say(*texts: str, finish: str = "stop", calls: bool = False) -> Callable[[httpx.Request], httpx.Response]:
    """Answer with these texts, one for each request, in two pieces."""
    left = list(texts)

    def answer(_: httpx.Request) -> httpx.Response:
        text = left.pop(0)
        deltas: list[dict[str, Any]] = [{"content": text[:5]}, {"content": text[5:]}]
        if calls:
            deltas.append({"tool_calls": [{"index": 0, "id": "c", "function": {"name": "f", "arguments": "{}"}}]})
        chunks: list[dict[str, Any]] = [{"choices": [{"index": 0, "delta": delta}]} for delta in deltas]
        chunks.append({"choices": [{"index": 0, "delta": {}, "finish_reason": finish}]})
        chunks.append({"choices": [], "usage": {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}})
        return streamed(*[f"data: {json.dumps(chunk)}\n\n".encode() for chunk in chunks], b"data: [DONE]\n\n")

    return answer


def body(path: str, schema: Any = SCHEMA, **more: Any) -> dict[str, Any]:
    format_ = {"type": "json_schema", "name": "x", "schema": schema}
    wrapped = {"type": "json_schema", "json_schema": {"name": "x", "schema": schema}}
    messages = {"model": "m", "messages": [{"role": "user", "content": "x"}]}
    bodies: dict[str, dict[str, Any]] = {
        CHAT: {**messages, "response_format": wrapped},
        PARLEY: {**messages, "generate_cfg": {"response_format": wrapped}, "stream": False},
        MESSAGES: {
            **messages,
            "max_tokens": 99,
            "output_config": {"format": {"type": "json_schema", "schema": schema}},
        },
        RESPONSES: {"model": "m", "input": "x", "text": {"format": format_}, "store": False},
    }
    return bodies[path] | more


def ask(gateway: Running, path: str, body: dict[str, Any]) -> Answer:
    return gateway.ask("POST", path, [json.dumps(body).encode()])


def warnings(answer: Answer) -> list[str]:
    found: list[str] = answer.json["parley"]["warnings"] if "parley" in answer.json else answer.json.get("warnings", [])
    return found
