"""Check the MCP servers of a configuration: each is started, and its tools are listed."""

from collections.abc import Callable, Sequence

from app.chat.server_tools import ListedServer, OfferedTool
from app.config.settings import Settings
from app.config.tool_servers import list_tool_servers
from app.doctor.findings import Finding
from app.tools import ConfiguredServer, open_configured

_MAX_SHOWN = 10


async def check_tool_servers(settings: Settings, progress: Callable[[str], None]) -> list[Finding]:
    servers = list_tool_servers(settings)
    if not servers:
        return []
    progress("the MCP servers")
    async with open_configured(servers, [server.spec.name for server in servers]) as session:
        pairs = zip(servers, session.servers, strict=True)
        return [finding for server, listed in pairs for finding in _examine(server, listed)]


def _examine(server: ConfiguredServer, listed: ListedServer) -> list[Finding]:
    subject = f"MCP server {listed.server}"
    if listed.full_error is not None:
        advice = "run its command in a shell to see its errors" if server.spec.url is None else "look at its url"
        return [Finding(subject, "start", "problem", listed.full_error, advice)]
    found = [Finding(subject, "tools", "ok", _name_tools(listed.tools))]
    known = {tool.tool for tool in listed.tools}
    absent = [name for name in server.enabled_tools or () if name not in known and name not in server.disabled_tools]
    if absent:
        text = f"enabled_tools names what the server does not list: {', '.join(absent)}"
        found.append(Finding(subject, "tools", "warning", text, "correct the names, or update the server"))
    writing = [tool for tool in listed.tools if not tool.read_only and not tool.approval]
    if writing:
        text = f"{len(writing)} tools that may change something run without approval: {_name_tools(writing)}"
        found.append(
            Finding(subject, "approval", "warning", text, 'set approval = "always", or list these tools in it')
        )
    return found


def _name_tools(tools: Sequence[OfferedTool]) -> str:
    names = [tool.tool for tool in tools]
    more = f" and {len(names) - _MAX_SHOWN} more" if len(names) > _MAX_SHOWN else ""
    return f"{', '.join(names[:_MAX_SHOWN])}{more}" if names else "it has no tools"
