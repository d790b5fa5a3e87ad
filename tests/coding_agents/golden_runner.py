"""Plays a golden case of coding agents: a gateway in this process, with a model server and servers of tools that answer
as the case says."""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest.mock import patch

from tests.asgi_socket import ENDS, SocketClient
from tests.coding_agents.scripted_servers import Cut, ScriptedModel, ScriptedProcess
from tests.golden_comparison import Differences, fits, join_deltas
from tests.in_process_gateway import Answer, Running

Json = dict[str, Any]
CASES = Path(__file__).parent / "cases"
HEARTBEATS = ("ping", "keepalive")
_ID_OF = re.compile(r"<id_of:(\d+)(?:\.(\d+))?>")
_EARLIER = re.compile(r"<(output|history|codex):(\d+)>\+(.*)", re.DOTALL)


def list_cases() -> list[str]:
    return sorted(path.stem for path in CASES.glob("*.json"))


def read_case(name: str) -> Json:
    case: Json = json.loads((CASES / f"{name}.json").read_text())
    return case


@dataclass
class Reply:
    """What a client got. `sent` is the body of its request."""

    status: int
    headers: dict[str, str]
    sent: Json
    body: Any = None
    events: list[Json] | None = None
    frames: list[list[Json]] = field(default_factory=list)

    @property
    def final(self) -> Json:
        """The whole reply."""
        if self.events is None:
            whole: Json = self.body
            return whole
        ended = [event["response"] for event in self.events if event["type"] in ENDS and "response" in event]
        return ended[-1] if ended else {"content": join_blocks(self.events)}

    def find_id(self, step: int | None) -> str:
        frames = self.events if step is None else self.frames[step]
        if frames is None:
            own: str = self.body["id"]
            return own
        first: str = next(frame["response"]["id"] for frame in frames if "response" in frame)
        return first


@dataclass
class Run:
    replies: list[Reply]
    sent: list[tuple[str, Json]]
    tool_calls: list[list[Any]]


def join_blocks(events: list[Json]) -> list[Json]:
    """Return the blocks of a stream of Messages."""
    blocks: dict[int, Json] = {}
    arguments: dict[int, str] = {}
    for event in events:
        if event["type"] == "content_block_start":
            blocks[event["index"]] = json.loads(json.dumps(event["content_block"]))
        elif event["type"] == "content_block_delta":
            delta = event["delta"]
            if delta["type"] == "text_delta":
                blocks[event["index"]]["text"] += delta["text"]
            elif delta["type"] == "input_json_delta":
                arguments[event["index"]] = arguments.get(event["index"], "") + delta["partial_json"]
    for index, text in arguments.items():
        blocks[index]["input"] = json.loads(text)
    return [blocks[index] for index in sorted(blocks)]


def run_case(case: Json, folder: Path, cut: Cut = lambda text: [text] if text else []) -> Run:
    given = case["given"]
    model = ScriptedModel(list(given["upstream"]), given.get("upstream_models") or [{"id": "qwen3"}], cut)
    process = ScriptedProcess(given.get("mcp") or {}, [])
    replies: list[Reply] = []
    with (
        patch("app.tools.servers.ToolProcessClient", lambda: process),
        Running(make_settings(case, folder), model) as gateway,
    ):
        for request in given.get("requests", ()):
            ask = _ask_socket if "socket" in request else _ask
            replies.append(ask(gateway, request, replies))
    return Run(replies, model.sent, process.calls)


def make_settings(case: Json, folder: Path, upstream: str = "http://model.test") -> Json:
    """Return the configuration of a case; what it names lies in the folder."""
    tree: Json = _insert_places(case["given"]["config"], folder, upstream)
    for row in tree.get("mcp_servers", {}).values():
        row["command"] = "scripted"
    tree.setdefault("state", {"url": f"sqlite:///{folder}/state.db"})  # as a gateway has without a setting
    tree["server"] = {"log_level": "error", **tree.get("server", {})}
    return tree


def _insert_places(value: Any, folder: Path, upstream: str) -> Any:
    if isinstance(value, dict):
        return {key: _insert_places(item, folder, upstream) for key, item in value.items()}
    if isinstance(value, list):
        return [_insert_places(item, folder, upstream) for item in value]
    if not isinstance(value, str):
        return value
    if value.startswith("<FILE:"):
        file = folder / f"file-{len(list(folder.iterdir()))}"
        file.write_text(value.removeprefix("<FILE:").removesuffix(">"))
        return str(file)
    return value.replace("<UPSTREAM>", upstream).replace("<STATE>", f"sqlite:///{folder}/state.db")


def _ask(gateway: Running, request: Json, replies: list[Reply]) -> Reply:
    body = _insert_earlier(request["body"], replies) if "body" in request else None
    path = _insert_earlier(request["path"], replies)
    pieces = [b""] if body is None else [json.dumps(body).encode()]
    headers = {"host": "127.0.0.1:8000", "content-type": "application/json", **request.get("headers", {})}
    answer = gateway.ask(request["method"], path, pieces, headers)
    return _read_answer(answer, body or {})


def _read_answer(answer: Answer, sent: Json) -> Reply:
    reply = Reply(answer.status, dict(answer.headers), sent)
    if answer.headers.get("content-type", "").startswith("text/event-stream"):
        lines = answer.body.decode().split("\n")
        data = [line[5:].strip() for line in lines if line.startswith("data:")]
        reply.events = [json.loads(text) for text in data if text != "[DONE]"]
    elif answer.body:
        reply.body = answer.json
    return reply


def _ask_socket(gateway: Running, request: Json, replies: list[Reply]) -> Reply:
    headers = {"host": "127.0.0.1:8000", **request.get("headers", {})}
    client = SocketClient(gateway, headers, request["socket"])
    reply = Reply(client.status, client.headers, {}, {"error": client.error})
    if client.status != 101:
        return reply
    for step in request["steps"]:
        client.send(step["send_text"] if "send_text" in step else _insert_earlier(step["send"], replies, reply))
        read = 0 if step.get("no_wait") or step.get("expect_frames") == 0 else step.get("frames", 1)
        reply.frames.append([frame for _ in range(read) for frame in client.read_response()])
    client.leave()
    return reply


def _insert_earlier(value: Any, replies: Sequence[Reply], socket: Reply | None = None) -> Any:
    """Put what earlier replies were in the place of what stands for it."""
    if isinstance(value, dict):
        return {key: _insert_earlier(item, replies, socket) for key, item in value.items()}
    if isinstance(value, list):
        return [_insert_earlier(item, replies, socket) for item in value]
    if not isinstance(value, str):
        return value

    def find(found: "re.Match[str]") -> str:
        number, step = int(found[1]), found[2]
        if step is not None:
            return replies[number].find_id(int(step))
        return replies[number].find_id(None) if socket is None else socket.find_id(number)

    earlier = _EARLIER.fullmatch(value)
    if earlier is None:
        return _ID_OF.sub(find, value)
    reply, rest = replies[int(earlier[2])], json.loads(earlier[3])
    if earlier[1] == "output":
        return [*reply.final["output"], *rest]
    if earlier[1] == "history":
        return [*reply.sent["messages"], {"role": "assistant", "content": reply.final["content"]}, *rest]
    said = reply.sent["input"]
    said = [{"type": "message", "role": "user", "content": said}] if isinstance(said, str) else said
    return [*said, *map(_write_as_codex, reply.final["output"]), *rest]


def _write_as_codex(item: Json) -> Json:
    """Return an item as Codex 0.171 sends it back."""
    fields = {
        "web_search_call": ("id", "status", "action"),
        "reasoning": ("summary", "content", "encrypted_content"),
        "message": ("role", "content"),
        "function_call": ("name", "arguments", "call_id"),
    }[item["type"]]
    sent = {"type": item["type"], **{name: item.get(name) for name in fields}}
    if "action" in sent:
        sent["action"] = {name: value for name, value in sent["action"].items() if name != "sources"}
    return sent


def compare(case: Json, run: Run) -> list[str]:
    """Return what differs from what the case expects."""
    expect = case["expect"]
    differences = Differences()
    ids: dict[str, str] = {}
    for number, (wanted, reply) in enumerate(zip(expect.get("replies", ()), run.replies, strict=True)):
        _compare_reply(differences, wanted, reply, f"reply[{number}]", ids)
    if expect.get("upstream") is not None:
        if len(expect["upstream"]) != len(run.sent):
            differences.found.append(f"{len(run.sent)} calls of the model, not {len(expect['upstream'])}: {run.sent}")
        for number, (wanted, (path, body)) in enumerate(zip(expect["upstream"], run.sent, strict=False)):
            _compare_call(differences, wanted, path, body, f"upstream[{number}]", ids)
    left = list(run.tool_calls)
    for wanted in expect.get("mcp", ()):
        found = next((call for call in left if fits(wanted, call)), None)
        if found is None:
            differences.found.append(f"no call {wanted} of a tool: {left}")
        else:
            left.remove(found)
    differences.found += [f"the call {call} of a tool" for call in left if "mcp" in expect]
    return differences.found


def _compare_reply(differences: Differences, wanted: Json, reply: Reply, path: str, ids: dict[str, str]) -> None:
    differences.compare(wanted["status"], reply.status, f"{path}.status", ids)
    headers = {name.lower(): value for name, value in wanted.get("headers", {}).items()}
    differences.compare(headers, reply.headers, f"{path}.headers", ids)
    if "body" in wanted:
        differences.compare(wanted["body"], reply.body, f"{path}.body", ids)
    if "events" in wanted:
        _compare_frames(differences, wanted["events"], reply.events or [], f"{path}.events", ids)
    if "frames" in wanted:
        steps = zip(wanted["frames"], reply.frames, strict=True)
        for number, (expected, frames) in enumerate(steps):
            _compare_frames(differences, expected, frames, f"{path}.frames[{number}]", ids)


def _compare_frames(
    differences: Differences, wanted: list[Json], frames: list[Json], path: str, ids: dict[str, str]
) -> None:
    shown = [frame for frame in frames if frame.get("type") not in HEARTBEATS]
    differences.compare(join_deltas(wanted), join_deltas(shown), path, ids)
    numbers = [frame["sequence_number"] for frame in frames if "sequence_number" in frame]
    expected: list[int] = []
    for number in numbers:  # several responses may follow each other, each from 0
        expected.append(0 if number == 0 or not expected else expected[-1] + 1)
    if numbers != expected:
        differences.found.append(f"{path} has the numbers {numbers}")


def _compare_call(
    differences: Differences, wanted: Json, path: str, body: Json, place: str, ids: dict[str, str]
) -> None:
    text = json.dumps(body, ensure_ascii=False)
    rest = {key: value for key, value in wanted.items() if key not in ("contains", "lacks", "absent", "path")}
    differences.compare(rest, body, place, ids)
    differences.found += [f"{place} lacks {one!r}: {text}" for one in wanted.get("contains", ()) if not _has(text, one)]
    differences.found += [f"{place} has {one!r}: {text}" for one in wanted.get("lacks", ()) if _has(text, one)]
    differences.found += [f"{place} has the field {name}" for name in wanted.get("absent", ()) if name in body]
    if wanted.get("path", "") not in path:
        differences.found.append(f"{place} has the path {path!r}, not {wanted['path']!r}")


def _has(text: str, part: str) -> bool:
    return part in text or json.dumps(part, ensure_ascii=False)[1:-1] in text
