"""Model servers that misbehave, one for each model name, and the gateway's settings for them."""

import asyncio
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
    "long": refusal(
        400,
        "This model's maximum context length is 4096 tokens. However, your prompt contains 5000 input tokens. Please "
        "reduce the length of the input prompt.",
        {},
    ),
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


UNGUIDED = ("prose", "fenced")
"""Models without grammars, whose replies the gateway holds back until they are valid."""
WEATHER_JSON = '{"city": "Paris", "degrees": 21}'


def unguided(body: dict[str, Any]) -> Reply:
    """Prose where JSON is demanded, until the gateway wants another reply; or JSON in a fence."""
    again = "Reply again with" in _texts(body["messages"][-1]["content"])
    fenced = f"```json\n{WEATHER_JSON}\n```"
    content = WEATHER_JSON if again else fenced if body["model"] == "fenced" else "It is warm in Paris."
    return Reply([chunk({"content": content}), chunk({}, "stop"), USAGE])


FROM, ALSO, TO = "FROM:", "ALSO:", "TO:"
"""Before the paths of the files in the task of a coding agent, each on a line of its own."""
SECRET, SECOND = "the secret is 4711", "the second file"
"""What the first file has, and how the second one begins."""
USAGE = b'data: {"choices":[],"usage":{"prompt_tokens":900,"completion_tokens":30,"total_tokens":930}}\n\n'


def coding(body: dict[str, Any]) -> Reply:
    """Copies a file for a coding agent: reads two files with parallel calls, writes another one, and says that it is
    done. Most agents have tools for files; Codex has a shell, or a tool that runs JavaScript."""
    texts = "\n".join(_texts(message["content"]) for message in body["messages"])
    source, second, target = (_find_path(texts, mark) for mark in (FROM, ALSO, TO))
    tools = {tool["function"]["name"]: tool["function"] for tool in body.get("tools", ())}
    results = [message for message in body["messages"] if message["role"] == "tool"]
    known = _find_calls(tools)
    if not source or known is None:
        return Reply([chunk({"content": "Copy a file"}), chunk({}, "stop")])
    read_file, write_file = known
    if len(results) == 0:
        calls = _call(0, "call_read", *read_file(source)) + _call(1, "call_also", *read_file(second))
        return Reply([chunk({"reasoning_content": "I read both first."}), *calls, chunk({}, "tool_calls"), USAGE])
    if len(results) == 2:
        read = "\n".join(_texts(result["content"]) for result in results)  # parallel results come in any order
        found = SECRET if SECOND in read and SECRET in read else "nothing"
        call = _call(0, "call_write", *write_file(target, found))
        said = [chunk({"reasoning_content": "Now I write."}), chunk({"content": "I write it."})]
        return Reply([*said, *call, chunk({}, "tool_calls"), USAGE])
    return Reply([chunk({"content": "The file is copied."}), chunk({}, "stop"), USAGE])


FILE_TOOLS = (("Read", "Write"), ("read", "write"), ("read_file", "write_file"))
"""What agents name their tools that read a file and write one. Their parameters for the path have different names."""
PATHS = ("file_path", "filePath", "filepath", "path")
OTHER_TOOLS: dict[tuple[str, ...], tuple[Any, Any]] = {
    ("read_files", "editor"): (
        lambda path: ("read_files", {"files": [{"path": path}]}),
        lambda path, text: ("editor", {"path": path, "new_text": text}),
    ),
    ("exec_command",): (
        lambda path: ("exec_command", {"cmd": f"cat '{path}'"}),
        lambda path, text: ("exec_command", {"cmd": f"printf '{text}' > '{path}'"}),
    ),
    ("functions__exec",): (
        lambda path: ("functions__exec", {"input": _script(f"cat '{path}'")}),
        lambda path, text: ("functions__exec", {"input": _script(f"printf '{text}' > '{path}'")}),
    ),
}
"""How an agent with these tools reads a file, and how it writes one: Cline, and Codex twice."""


def _find_calls(tools: dict[str, Any]) -> tuple[Any, Any] | None:
    """How an agent with these tools reads a file, and how it writes one."""
    for names in FILE_TOOLS:
        if set(names) <= set(tools):
            return _use_file_tools(*(tools[name] for name in names))
    return next((calls for names, calls in OTHER_TOOLS.items() if set(names) <= set(tools)), None)


def _use_file_tools(reader: dict[str, Any], writer: dict[str, Any]) -> tuple[Any, Any]:
    read_path, write_path = (
        next(path for path in PATHS if path in tool["parameters"]["properties"]) for tool in (reader, writer)
    )
    return (
        lambda path: (reader["name"], {read_path: path}),
        lambda path, text: (writer["name"], {write_path: path, "content": text}),
    )


def _script(command: str) -> str:
    """JavaScript for Codex's tool `exec`, in the namespace `functions` of an `additional_tools` item."""
    return f"text(await tools.exec_command({json.dumps({'cmd': command})}))"


def _texts(content: Any) -> str:
    parts = content if isinstance(content, list) else [{"text": content or ""}]
    return "\n".join(part.get("text", "") for part in parts)


def _find_path(texts: str, mark: str) -> str:
    return next((line.removeprefix(mark).strip(' "') for line in texts.split("\n") if line.startswith(mark)), "")


def _call(index: int, id_: str, name: str, arguments: dict[str, Any]) -> list[bytes]:
    """A call whose arguments come in two pieces."""
    text = json.dumps(arguments)
    head = {"index": index, "id": id_, "type": "function", "function": {"name": name, "arguments": text[:9]}}
    rest = {"index": index, "function": {"arguments": text[9:]}}
    return [chunk({"tool_calls": [head]}), chunk({"tool_calls": [rest]})]


SILENT_SECONDS = 10.0
ONCE = {"busy-once": "busy", "failing-once": "failing", "broken-once": "broken", "cut-once": "cut"}
"""Models whose first request has the reply of another model; the next ones succeed."""
CODERS = ("coder", "gpt-6.2-sol")
"""Models of coding agents. Codex knows the second one, and sends its tools in an item of the input."""
ALL_WELL = [chunk({"role": "assistant", "content": "All "}), chunk({"content": "is well."}), chunk({}, "stop"), USAGE]


class Misbehaving(ScriptedServer):
    """Answers by the model that a request names."""

    def __init__(self) -> None:
        super().__init__()
        self._asked: set[tuple[str, str]] = set()

    def reply_to(self, request: Request) -> Reply:
        body = json.loads(request.body)
        model = body["model"]
        if model in CODERS:
            return coding(body)
        if model in UNGUIDED:
            return unguided(body)
        if model == "silent":
            return Reply(ALL_WELL, hold=_pass_after(SILENT_SECONDS))
        if model in ONCE:
            question = json.dumps(body["messages"][-1])
            first = (model, question) not in self._asked
            self._asked.add((model, question))
            return REPLIES[ONCE[model]] if first else Reply(ALL_WELL)
        return REPLIES.get(body["model"]) or prompted(body)


def _pass_after(seconds: float) -> asyncio.Event:
    event = asyncio.Event()
    asyncio.get_running_loop().call_later(seconds, event.set)
    return event


def settings(url: str) -> dict[str, Any]:
    """The demo model, and one model for each script."""
    plain = {name: {"upstreams": ["scripted"]} for name in [*REPLIES, *ONCE, *CODERS, "prompted", "silent"]}
    checked = {"upstreams": ["scripted"], "profile": {"check_output": "enforce"}}
    return {
        "demo": True,
        "server": {"log_level": "error", "heartbeat_seconds": 1},
        "upstreams": {"scripted": {"base_url": f"{url}/v1"}},
        "models": plain | dict.fromkeys(UNGUIDED, checked),
    }
