"""`parley tools`: list and call the tools of the MCP servers of a configuration."""

import argparse
import asyncio
import json
import sys
from collections.abc import Collection, Sequence
from typing import Any

import msgspec

from app.chat.messages import Text
from app.chat.server_tools import ListedServer, OfferedTool, ToolAnswer
from app.commands.command_line import UsageError
from app.commands.configuration import load_settings
from app.config.settings import Settings
from app.config.tool_servers import list_tool_servers
from app.terminal.screen import replace_control_characters
from app.tools import open_configured
from app.validation.nearest import suggest_name

_HEADER = ("SERVER", "TOOL", "READS ONLY", "APPROVAL", "DESCRIPTION")
_MAX_DESCRIPTION = 60


def run(arguments: argparse.Namespace) -> int:
    settings = load_settings(arguments.config)
    names = [name for name, row in settings.mcp_servers.items() if row.enabled]
    if not names:
        raise UsageError("the configuration has no MCP server: add [mcp_servers.NAME] with a command or a url")
    if arguments.server is not None and arguments.server not in names:
        raise UsageError(f"there is no MCP server {arguments.server!r}{suggest_name(arguments.server, names)}")
    wanted = names if arguments.server is None else [arguments.server]
    if arguments.action == "call":
        return _call(settings, arguments)
    servers = asyncio.run(_list(settings, wanted))
    if arguments.json:
        print(json.dumps(msgspec.to_builtins(servers), indent=2))
    else:
        _print_table([_describe(tool) for server in servers for tool in server.tools])
    failed = [server for server in servers if server.error is not None]
    for server in failed:
        print(f"parley: MCP server {server.server}: {server.full_error}", file=sys.stderr)
    return 1 if failed else 0


async def _list(settings: Settings, names: Collection[str]) -> Sequence[ListedServer]:
    async with open_configured(list_tool_servers(settings), names) as session:
        return session.servers


def _call(settings: Settings, arguments: argparse.Namespace) -> int:
    try:
        given = json.loads(arguments.arguments)
    except ValueError as error:
        raise UsageError(f"the arguments are not valid JSON: {error}") from None
    if not isinstance(given, dict):
        raise UsageError(f"the arguments must be a JSON object, not {arguments.arguments[:100]}")
    answer = asyncio.run(_run_tool(settings, arguments.server, arguments.tool, given))
    for part in answer.content:
        print(part.text if isinstance(part, Text) else f"[{part.media}: {part.urls[0].partition(';')[0]}]")
    return 0 if answer.error is None else 1


async def _run_tool(settings: Settings, server: str, tool: str, arguments: dict[str, Any]) -> ToolAnswer:
    async with open_configured(list_tool_servers(settings), [server]) as session:
        (listed,) = session.servers
        if listed.error is not None:
            raise UsageError(f"MCP server {server}: {listed.full_error}")
        known = {row.tool: row for row in listed.tools}
        if tool not in known:
            raise UsageError(f"the MCP server {server} has no tool {tool!r}{suggest_name(tool, known)}")
        return await session.call(known[tool], arguments, None)


def _describe(tool: OfferedTool) -> tuple[str, ...]:
    text = " ".join((tool.description or "").split())
    short = text if len(text) <= _MAX_DESCRIPTION else f"{text[: _MAX_DESCRIPTION - 1]}…"
    return tool.server, tool.tool, "yes" if tool.read_only else "-", "yes" if tool.approval else "-", short


def _print_table(rows: Sequence[tuple[str, ...]]) -> None:
    table = [_HEADER, *(tuple(replace_control_characters(cell) for cell in row) for row in rows)]
    widths = [max(len(row[column]) for row in table) for column in range(len(_HEADER))]
    for row in table:
        print("  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip())
