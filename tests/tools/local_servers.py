"""Servers of tools for tests: the scripted one, and sessions with it."""

import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from subprocess import PIPE, Popen
from typing import Any

from app.access import ModelGlobs
from app.chat.messages import Text
from app.chat.server_tools import ToolAnswer
from app.chat.tool_asks import ServerAsk
from app.tools import ConfiguredServer, McpServers, ServerSpec
from app.tools.servers import McpSession

SCRIPT = str(Path(__file__).parent / "scripted_mcp.py")


def configure(name: str = "s", url: str | None = None, **changes: Any) -> ConfiguredServer:
    """A server; the changes are those of its spec and of itself."""
    spec: dict[str, Any] = {"startup_seconds": 10.0, "max_message_bytes": 300_000, "max_tools": 100}
    spec |= {"url": url} if url else {"command": sys.executable, "args": (SCRIPT,), "env": {}}
    own: dict[str, Any] = {
        "tool_seconds": 10.0,
        "max_result_bytes": 1000,
        "max_media_bytes": 1000,
        "max_concurrent_calls": 16,
    }
    for key, value in changes.items():
        (spec if key in ServerSpec.__struct_fields__ else own)[key] = value
    return ConfiguredServer(ServerSpec(name, **spec), **own)


@asynccontextmanager
async def run_servers(*servers: ConfiguredServer) -> AsyncIterator[McpServers]:
    found = McpServers()
    found.configure(servers, {})
    try:
        yield found
    finally:
        await found.aclose()


async def open_session(servers: McpServers, *asks: ServerAsk, approvable: bool = True) -> McpSession:
    return await servers.open(asks or [ServerAsk("s")], "", "m", approvable=approvable)


async def call(session: McpSession, tool: str, arguments: dict[str, Any] | None = None) -> ToolAnswer:
    offered = next(row for server in session.servers for row in server.tools if row.tool == tool)
    return await session.call(offered, arguments or {}, b"00-1-2-01")


def text_of(answer: ToolAnswer) -> str:
    return "|".join(part.text if isinstance(part, Text) else "<media>" for part in answer.content)


@contextmanager
def serve_http(mode: str = "", log: Path | None = None) -> Iterator[str]:
    """Run the scripted server over HTTP, and yield its URL."""
    env = {"MCP_MODE": mode, **({} if log is None else {"MCP_LOG": str(log)})}
    with Popen([sys.executable, SCRIPT, "0"], stdout=PIPE, env=env) as process:
        assert process.stdout is not None
        try:
            yield f"http://127.0.0.1:{int(process.stdout.readline())}/mcp"
        finally:
            process.kill()


NO_KEYS = ModelGlobs(())
