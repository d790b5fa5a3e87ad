"""What clients of each format append to their history: the turns of the user, the results of two calls, and replies."""

import json
from collections.abc import Sequence
from typing import Any

import httpx

from tests.in_process_gateway import ModelServer, Running

Json = dict[str, Any]
FUNCTIONS = [{"name": name, "parameters": {"type": "object", "properties": {}}} for name in ("look", "shell")]
FORMATS = ("qwen", "openai", "agentscope", "agentscope2", "autogen", "anthropic", "responses")


def results(format_: str, *, custom: bool = False) -> list[Json]:
    """The results of the two calls, as a client of the format writes them. `custom`: the second is a custom call."""
    calls = (("call_1", "look", "seen"), ("call_2", "shell", "total 0"))
    if format_ == "qwen":
        return [
            {"role": "function", "name": name, "content": text, "extra": {"function_id": id_}}
            for id_, name, text in calls
        ]
    if format_ == "openai":
        return [{"role": "tool", "tool_call_id": id_, "content": text} for id_, _, text in calls]
    if format_ == "anthropic":
        blocks = [{"type": "tool_result", "tool_use_id": id_, "content": text} for id_, _, text in calls]
        return [{"role": "user", "content": blocks}]
    if format_ == "responses":
        return [
            {"type": "function_call_output", "call_id": "call_1", "output": "seen"},
            {
                "type": f"{'custom_tool' if custom else 'function'}_call_output",
                "call_id": "call_2",
                "output": "total 0",
            },
        ]
    if format_ == "autogen":
        content = [{"call_id": id_, "name": name, "content": text, "is_error": False} for id_, name, text in calls]
        return [{"type": "ToolCallExecutionEvent", "source": "assistant", "content": content}]
    kind = "tool_result"
    fields = {"state": "success"} if format_ == "agentscope2" else {}
    parts: list[Json] = [
        {"type": kind, "id": id_, "name": name, "output": [{"type": "text", "text": text}]} | fields
        for id_, name, text in calls
    ]
    role = "assistant" if format_ == "agentscope2" else "system"
    return [{"name": "system", "role": role, "content": parts}]


def user(format_: str, text: str) -> Json:
    if format_ == "agentscope2":
        return {"role": "user", "name": "user", "content": [{"type": "text", "text": text}]}
    if format_ == "responses":
        return {"type": "message", "role": "user", "content": text}
    if format_ == "autogen":
        return {"type": "TextMessage", "source": "user", "content": text}
    return {"role": "user", "content": text} | ({"name": "user"} if format_.startswith("agentscope") else {})


def read_turn(format_: str, reply: Json) -> list[Json]:
    """What a client of the format appends to its history."""
    if format_ == "openai":
        return [reply["choices"][0]["message"]]
    if format_ == "responses":
        return list(reply["output"])
    if format_ == "anthropic":
        return [{"role": "assistant", "content": reply["content"]}]
    return [reply["msg"]] if "msg" in reply else list(reply["messages"])


def converse(
    settings: Json,
    replies: Sequence[httpx.Response],
    format_: str,
    *,
    stream: bool = False,
    custom: bool = False,
) -> Json:
    """Let a client ask, send the results of the first reply's calls, and ask once more, with these three replies of its
    model server. Returns the last body that the server is sent. `custom`: one of the functions is a custom tool."""
    answers = list(replies)
    server = ModelServer(lambda _: answers.pop(0))
    history = [user(format_, "Hi")]
    streams = stream and format_ == "responses"
    body = {"model": "m", "format": format_, "stream": streams, "functions": FUNCTIONS}
    with Running(settings, server) as gateway:
        for more in (results(format_, custom=custom), [user(format_, "More")], []):
            reply = gateway.post("/v1/chat", body | {"messages": history})
            assert reply.status == 200, reply.body
            history += read_turn(format_, reply.frames[-1]["response"] if streams else reply.json) + more
    sent: Json = json.loads(server.requests[2].content)
    return sent
