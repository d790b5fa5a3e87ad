"""Servers of tools that the gateway runs (MCP): which a reply may use, and their calls.

The protocol's SDK runs in a process for each server (`process`), which starts with the first request that needs it:
importing it takes a second and 45 MB, and nothing that a server sends may delay replies or other servers.
"""

from app.tools.hosted import HostedTool
from app.tools.process.protocol import ServerSpec
from app.tools.servers import ConfiguredServer, McpServers, ServerStatus, open_configured

__all__ = ["ConfiguredServer", "HostedTool", "McpServers", "ServerSpec", "ServerStatus", "open_configured"]
