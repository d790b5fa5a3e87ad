"""Model servers that misbehave, one for each model name, and the gateway's settings for them."""

import json
from typing import Any

from tests.scripted_server import Reply, Request, ScriptedServer

JSON = {"content-type": "application/json"}
LOST = {"error": {"message": "the model lost the plot", "type": "server_error", "code": 500}}


def chunk(delta: dict[str, Any], finish_reason: str | None = None) -> bytes:
    choice = {"index": 0, "delta": delta, "finish_reason": finish_reason}
    return b"data: " + json.dumps({"choices": [choice]}).encode() + b"\n\n"


def called(name: str, arguments: Any) -> dict[str, Any]:
    """A call in one piece, without id, under an index that is always the same, its arguments an object."""
    return {"tool_calls": [{"index": 0, "type": "function", "function": {"name": name, "arguments": arguments}}]}


def refusal(status: int, message: str, headers: dict[str, str]) -> Reply:
    body = json.dumps({"error": {"message": message, "type": None, "code": status}}).encode()
    return Reply([body], status=status, headers={**JSON, "content-length": str(len(body)), **headers})


REPLIES = {
    "busy": refusal(429, "Too many requests", {"retry-after": "7"}),
    "failing": refusal(500, "Something broke", {}),
    "broken": Reply([chunk({"content": "Half a"}), b"data: " + json.dumps(LOST).encode() + b"\n\n"]),
    "cut": Reply([chunk({"content": "Half a"})]),
    "quirky": Reply(
        [
            chunk({"role": "assistant", "content": "<thi"}),
            chunk({"content": "nk>Two cities.</think>\n\n"}),
            chunk({"content": "Let me look."}),
            chunk(called("get_weather", {"city": "Paris"})),
            chunk(called("get_weather", '{"city": "Tokyo"}')),
            chunk({"content": ""}, "stop"),
        ]
    ),
}

CALLED_IN_TEXT = '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Paris"}}\n</tool_call>'
"""How a model answers that Qwen-Agent's prompt, and not its server, has told of functions."""


def prompted(body: dict[str, Any]) -> Reply:
    """A call as text where none was answered yet, else the answer."""
    answered = "21 degrees" in json.dumps(body["messages"])
    content = "It is 21 degrees in Paris." if answered else CALLED_IN_TEXT
    return Reply([chunk({"content": content}), chunk({}, "stop")])


FROM, TO = "FROM:", "TO:"
"""Before the paths of the files in the task of a coding agent, each on a line of its own."""


def coding(body: dict[str, Any]) -> Reply:
    """Copies a file for a coding agent: reads it, writes the other, and says that it is done. Claude Code has tools for
    files, Codex has a shell."""
    texts = "\n".join(_texts(message["content"]) for message in body["messages"])
    source, target = (_find_path(texts, mark) for mark in (FROM, TO))
    names = {tool["function"]["name"] for tool in body.get("tools", ())}
    results = [message for message in body["messages"] if message["role"] == "tool"]
    if not source or not ({"Read", "Write"} <= names or "exec_command" in names):
        return Reply([chunk({"content": "Copy a file"}), chunk({}, "stop")])
    by_shell = "exec_command" in names
    if len(results) == 0:
        read = {"cmd": f"cat '{source}'"} if by_shell else {"file_path": source}
        call = _call("call_read", "exec_command" if by_shell else "Read", read)
        return Reply([chunk({"reasoning_content": "I read it first."}), *call, chunk({}, "tool_calls")])
    if len(results) == 1:
        found = "the secret is 4711" if "4711" in _texts(results[0]["content"]) else "nothing"
        write = {"cmd": f"printf '{found}' > '{target}'"} if by_shell else {"file_path": target, "content": found}
        call = _call("call_write", "exec_command" if by_shell else "Write", write)
        return Reply(
            [
                chunk({"reasoning_content": "Now I write."}),
                chunk({"content": "I write it."}),
                *call,
                chunk({}, "tool_calls"),
            ]
        )
    return Reply([chunk({"content": "The file is copied."}), chunk({}, "stop")])


def _texts(content: Any) -> str:
    parts = content if isinstance(content, list) else [{"text": content or ""}]
    return "\n".join(part.get("text", "") for part in parts)


def _find_path(texts: str, mark: str) -> str:
    return next((line.removeprefix(mark).strip() for line in texts.split("\n") if line.startswith(mark)), "")


def _call(id_: str, name: str, arguments: dict[str, str]) -> list[bytes]:
    """A call whose arguments come in two pieces."""
    text = json.dumps(arguments)
    head = {"index": 0, "id": id_, "type": "function", "function": {"name": name, "arguments": text[:9]}}
    rest = {"index": 0, "function": {"arguments": text[9:]}}
    return [chunk({"tool_calls": [head]}), chunk({"tool_calls": [rest]})]


class Misbehaving(ScriptedServer):
    """Answers by the model that a request names."""

    def reply_to(self, request: Request) -> Reply:
        body = json.loads(request.body)
        if body["model"] == "coder":
            return coding(body)
        return REPLIES.get(body["model"]) or prompted(body)


def settings(url: str) -> dict[str, Any]:
    """The demo model, and one model for each script."""
    return {
        "demo": True,
        "server": {"log_level": "error"},
        "upstreams": {"scripted": {"base_url": f"{url}/v1"}},
        "models": {name: {"upstreams": ["scripted"]} for name in [*REPLIES, "prompted", "coder"]},
    }
