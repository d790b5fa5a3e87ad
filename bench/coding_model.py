"""A model server for coding agents: each of its replies calls a tool that reads the next file, until all are read. With
each request it asks the gateway's metrics how much of the request was remembered."""

import json
import re
import threading
import urllib.request
from collections.abc import Sequence
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Self

from agent_bodies import make_conversation

Json = dict[str, Any]
TURNS = 20
"""Replies of the model in a session: all but the last one call a tool."""
_COUNTER = re.compile(r'^parley_request_bytes_total\{.*?remembered="(true|false)".*?\} (\S+)$', re.MULTILINE)


@dataclass(frozen=True, slots=True)
class RememberedRequest:
    """How many bytes of a request were remembered from earlier ones, and how many were not."""

    remembered: int
    new: int

    @property
    def share(self) -> float:
        return self.remembered / (self.remembered + self.new or 1)


def make_files(folder: Path) -> list[Path]:
    """Write a file for each turn but the last."""
    rounds = make_conversation(TURNS - 1, 0).rounds
    files = [folder / f"module_{number}.py" for number in range(len(rounds))]
    for file, each in zip(files, rounds, strict=True):
        file.write_text(each.result + "\n")
    return files


def choose_reply(body: Json, files: Sequence[Path]) -> tuple[Json, str]:
    """Return the delta of a reply, and its finish reason."""
    read = sum(message["role"] == "tool" for message in body["messages"])
    tools = {tool["function"]["name"]: tool["function"] for tool in body.get("tools", ())}
    if not tools or read >= len(files):
        return {"content": "They are all modules."}, "stop"
    name, arguments = _choose_call(tools, files[read])
    thought = {"reasoning_content": f"I have read {read} files, the next one is {files[read].name}. " * 5}
    call = {"index": 0, "id": f"call_{read:016x}", "type": "function"}
    calls = [{**call, "function": {"name": name, "arguments": json.dumps(arguments)}}]
    return {**thought, "content": f"I read {files[read].name}.", "tool_calls": calls}, "tool_calls"


def _choose_call(tools: Json, file: Path) -> tuple[str, Json]:
    """Return the name of a tool that reads files, and its arguments."""
    if "Read" in tools:
        return "Read", {"file_path": str(file)}
    command = f"cat {file}"
    if "exec_command" in tools:
        return "exec_command", {"cmd": command}
    properties = tools["shell"]["parameters"]["properties"]
    return "shell", {"command": ["bash", "-lc", command] if properties["command"]["type"] == "array" else command}


def write_stream(delta: Json, finish_reason: str) -> bytes:
    usage = {"prompt_tokens": 5, "completion_tokens": 2, "total_tokens": 7}
    fields = {"id": "c1", "object": "chat.completion.chunk", "created": 1, "model": "mock"}
    chunks = [
        {**fields, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]},
        {**fields, "choices": [{"index": 0, "delta": {}, "finish_reason": finish_reason}], "usage": usage},
    ]
    return b"".join(b"data: %b\n\n" % json.dumps(chunk).encode() for chunk in chunks) + b"data: [DONE]\n\n"


class CodingModel:
    """`with CodingModel(files) as model` serves on `model.port`."""

    def __init__(self, files: Sequence[Path]) -> None:
        self.requests: list[RememberedRequest] = []
        """Those with tools; the others, such as for a title, are no turns."""
        self.gateway_port = 0
        self._counted = RememberedRequest(0, 0)
        model = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["content-length"])))
                model._note(body)
                self._send("text/event-stream", write_stream(*choose_reply(body, files)))

            def do_GET(self) -> None:
                self._send("application/json", json.dumps({"object": "list", "data": [{"id": "mock"}]}).encode())

            def _send(self, media_type: str, data: bytes) -> None:
                self.send_response(200)
                self.send_header("content-type", media_type)
                self.send_header("content-length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, format: str, *args: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.port = self._server.server_address[1]

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def _note(self, body: Json) -> None:
        with urllib.request.urlopen(f"http://127.0.0.1:{self.gateway_port}/metrics", timeout=30) as response:
            counted = read_counters(response.read().decode())
        before, self._counted = self._counted, counted
        if body.get("tools"):
            self.requests.append(RememberedRequest(counted.remembered - before.remembered, counted.new - before.new))


def read_counters(metrics: str) -> RememberedRequest:
    found = {name: int(float(value)) for name, value in _COUNTER.findall(metrics)}
    return RememberedRequest(found.get("true", 0), found.get("false", 0))
