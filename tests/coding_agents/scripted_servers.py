"""The model server and the servers of tools of a golden case of coding agents, in this process."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import httpx
from app.chat.server_tools import ToolAnswer
from app.tools.process.client import ConnectionEvents
from app.tools.process.connection import read_tool
from app.tools.process.entries import read_entries
from app.tools.process.protocol import ListedTool, ServerSpec
from app.tools.process.results import fail, read_result
from msgspec.structs import replace

from tests.golden_gateway import Broken
from tests.httpx_upstream import HttpxUpstream
from tests.in_process_gateway import Pieces

Json = dict[str, Any]
Cut = Callable[[str], list[str]]
USAGE = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}


@dataclass(eq=False)
class ScriptedModel(HttpxUpstream):
    """Answers with the rows of a case, in the order of the calls. `cut` divides each text into deltas."""

    rows: list[Json]
    models: list[Json]
    cut: Cut
    sent: list[tuple[str, Json]] = field(default_factory=list)
    """The path and the body of each call."""

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        await request.aread()
        path = request.url.path
        if request.method == "GET":
            found = path.endswith("/models")
            return self._answer(
                request, 200 if found else 404, {"object": "list", "data": self.models} if found else {}
            )
        body = json.loads(request.content)
        self.sent.append((path, body))
        row = self._take(path, body)
        if row is None:
            return self._answer(request, 404, {"error": {"message": "the case has no answer to this"}})
        if "body" in row or row.get("status", 200) != 200:
            return self._answer(request, row.get("status", 200), row.get("body") or {"error": {"message": "failed"}})
        if not body.get("stream"):
            return self._answer(request, 200, _write_whole(row))
        pieces = (Broken if row.get("cut") else Pieces)(_write_chunks(row, self.cut))
        return httpx.Response(200, headers={"content-type": "text/event-stream"}, stream=pieces, request=request)

    def _take(self, path: str, body: Json) -> Json | None:
        for row in self.rows:
            if row.get("model", body.get("model")) == body.get("model") and row.get("path", "") in path:
                self.rows.remove(row)
                return row
        return None

    def _answer(self, request: httpx.Request, status: int, value: Json) -> httpx.Response:
        return httpx.Response(status, stream=Pieces([json.dumps(value).encode()]), request=request)


def _write_chunks(row: Json, cut: Cut) -> list[bytes]:
    deltas: list[Json] = [{"role": "assistant", "content": ""}]
    deltas += [{"reasoning_content": piece} for piece in cut(row.get("reasoning") or "")]
    deltas += [{"content": piece} for piece in cut(row.get("text") or "")]
    for index, call in enumerate(row.get("calls") or ()):
        head = {"index": index, "id": call.get("id", f"call_{index}"), "type": "function"}
        deltas.append({"tool_calls": [{**head, "function": {"name": call["name"], "arguments": ""}}]})
        rest = cut(call["arguments"])
        deltas += [{"tool_calls": [{"index": index, "function": {"arguments": piece}}]} for piece in rest]
    chunks: list[Json] = [{"choices": [{"index": 0, "delta": delta, "finish_reason": None}]} for delta in deltas]
    if row.get("cut"):
        return [_data(chunk) for chunk in chunks]
    chunks.append({"choices": [{"index": 0, "delta": {}, "finish_reason": _find_reason(row)}]})
    chunks.append({"choices": [], "usage": USAGE})
    return [*map(_data, chunks), b"data: [DONE]\n\n"]


def _write_whole(row: Json) -> Json:
    calls = [
        {
            "id": call.get("id", f"call_{index}"),
            "type": "function",
            "function": {"name": call["name"], "arguments": call["arguments"]},
        }
        for index, call in enumerate(row.get("calls") or ())
    ]
    message = {
        "role": "assistant",
        "content": row.get("text"),
        "reasoning_content": row.get("reasoning"),
        "tool_calls": calls,
    }
    choice = {"index": 0, "message": message, "finish_reason": _find_reason(row)}
    return {"object": "chat.completion", "choices": [choice], "usage": USAGE}


def _find_reason(row: Json) -> str:
    reason: str = row.get("finish") or ("tool_calls" if row.get("calls") else "stop")
    return reason


def _data(chunk: Json) -> bytes:
    return b"data: " + json.dumps(chunk).encode() + b"\n\n"


@dataclass(eq=False)
class ScriptedProcess:
    """In the place of `ToolProcessClient`: servers that answer as `given` says, read as the tool process reads them."""

    given: Mapping[str, Json]
    calls: list[list[Any]]
    """Server, tool and arguments of each call that reached a tool."""
    pid: int | None = None
    is_used: bool = False
    _names: list[str] = field(default_factory=list)
    _used: dict[tuple[str, str], int] = field(default_factory=dict)

    def add(self, spec: ServerSpec, events: ConnectionEvents) -> int:
        self._names.append(spec.name)
        return len(self._names) - 1

    def remove(self, connection: int) -> None:
        """Nothing runs."""

    async def list_tools(self, connection: int, seconds: float) -> list[ListedTool]:
        rows = self.given.get(self._names[connection], {}).get("tools", ())
        return [read_tool(row) for row in rows]

    async def call(
        self,
        connection: int,
        tool: str,
        arguments: bytes,
        seconds: float,
        max_text_bytes: int,
        max_media_bytes: int,
        traceparent: str | None,
        *,
        reads_entries: bool = False,
    ) -> ToolAnswer:
        server = self._names[connection]
        self.calls.append([server, tool, json.loads(arguments)])
        answers = self.given[server].get("answers", {}).get(tool) or [{"content": [{"type": "text", "text": "ok"}]}]
        number = self._used.get((server, tool), 0)
        self._used[server, tool] = number + 1
        result = answers[min(number, len(answers) - 1)]
        if "error" in result:
            return fail(result["error"]["message"], result["error"]["code"])
        answer = read_result(result, max_text_bytes, max_media_bytes)
        return replace(answer, entries=read_entries(result)) if reads_entries and answer.error is None else answer

    async def aclose(self) -> None:
        """Nothing runs."""
