"""Servers of tools that answer by a script, without a process."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from app.chat.messages import Media, Text
from app.chat.server_tools import ListedServer, OfferedTool, ToolAnswer, ToolBounds, ToolError
from app.chat.tool_asks import ServerAsk, make_tool_name

Answer = ToolAnswer | Callable[[dict[str, Any]], ToolAnswer]


def text_answer(text: str) -> ToolAnswer:
    return ToolAnswer((Text(text),), size=len(text.encode()))


def error_answer(text: str) -> ToolAnswer:
    return ToolAnswer((Text(text),), ToolError("execution", 0, text), "error", len(text.encode()))


def image_answer(text: str, url: str) -> ToolAnswer:
    return ToolAnswer((Text(text), Media("image", (url,))), size=len(text) + len(url))


def make_tool(server: str, tool: str, *, approval: bool = False) -> OfferedTool:
    return OfferedTool(make_tool_name(server, tool), server, tool, None, {"type": "object"}, approval)


class FakeServers:
    """Offers the same tools with every request, or those that it asks for."""

    def __init__(
        self,
        tools: Sequence[OfferedTool],
        answers: Mapping[str, Answer] | None = None,
        *,
        bounds: ToolBounds | None = None,
        always: bool = True,
        warnings: Sequence[str] = (),
    ) -> None:
        """`answers` are found by the names of the tools for the model. Others answer `ok`."""
        self._tools = tools
        self.answers = dict(answers or {})
        self.bounds = bounds or ToolBounds()
        self._always = always
        self.warnings = warnings
        self.calls: list[tuple[str, dict[str, Any]]] = []
        self.cancelled: list[str] = []
        self.running = 0
        self.most_running = 0
        self.closed = 0
        self.gates: dict[str, asyncio.Event] = {}
        """Waited for within the calls of these tools."""

    def is_offered(self, model: str) -> bool:
        return self._always

    async def open(self, asks: Sequence[ServerAsk], key: str, model: str, *, approvable: bool) -> "FakeServers":
        return self

    @property
    def servers(self) -> list[ListedServer]:
        names = dict.fromkeys(tool.server for tool in self._tools)
        return [ListedServer(name, tuple(tool for tool in self._tools if tool.server == name)) for name in names]

    async def call(self, tool: OfferedTool, arguments: dict[str, Any], traceparent: bytes | None) -> ToolAnswer:
        self.calls.append((tool.name, arguments))
        self.running += 1
        self.most_running = max(self.most_running, self.running)
        try:
            gate = self.gates.get(tool.name)
            if gate is None:
                await asyncio.sleep(0)
            else:
                await gate.wait()
        except asyncio.CancelledError:
            self.cancelled.append(tool.name)
            raise
        finally:
            self.running -= 1
        answer = self.answers.get(tool.name, text_answer("ok"))
        return answer(arguments) if callable(answer) else answer

    def close(self) -> None:
        self.closed += 1

    def start_required(self) -> None:
        """None is required."""

    def list_status(self) -> list[Any]:
        return []

    async def aclose(self) -> None:
        """No process is to be ended."""
