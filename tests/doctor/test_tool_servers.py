import sys
from typing import Any

import pytest
from app.config.settings import Settings
from app.doctor.tool_servers import check_tool_servers

from tests.tools.local_servers import SCRIPT

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


async def check(**servers: dict[str, Any]) -> list[tuple[str, str, str, str]]:
    settings = Settings.model_validate({"demo": True, "mcp_servers": servers})
    found = await check_tool_servers(settings, lambda _: None)
    return [(row.subject.removeprefix("MCP server "), row.check, row.status, row.message) for row in found]


async def test_each_server_is_started_and_its_tools_are_named() -> None:
    server = {"command": sys.executable, "args": [SCRIPT]}
    found = await check(
        good={**server, "enabled_tools": ["echo"]},
        absent={**server, "enabled_tools": ["echo", "nothing"]},
        writing={**server, "enabled_tools": ["echo", "fail", "big"], "approval": ["big"]},
        bad={"command": "no-such-command"},
        off={"command": "no-such-command", "enabled": False},
    )
    assert found == [
        ("good", "tools", "ok", "echo"),
        ("absent", "tools", "ok", "echo"),
        ("absent", "tools", "warning", "enabled_tools names what the server does not list: nothing"),
        ("writing", "tools", "ok", "echo, fail, big"),
        ("writing", "approval", "warning", "1 tools that may change something run without approval: fail"),
        ("bad", "start", "problem", "its command, or its cwd, does not exist"),
    ]


async def test_without_servers_nothing_is_checked() -> None:
    assert await check() == []
