"""`GuardedSession`: tools of the gateway, which get masked values as they are, and whose results guards look at."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from app.chat.messages import Text
from app.chat.server_tools import ListedServer, OfferedTool, ToolAnswer, ToolBounds, ToolSession
from app.config.tables.tools import McpServer

if TYPE_CHECKING:
    from app.guards import RequestGuard


class GuardedSession:
    """Implements `ToolSession`."""

    def __init__(self, session: ToolSession, guard: "RequestGuard", servers: Mapping[str, McpServer]) -> None:
        self._session = session
        self._guard = guard
        self._servers = servers

    @property
    def servers(self) -> Sequence[ListedServer]:
        return self._session.servers

    @property
    def warnings(self) -> Sequence[str]:
        return self._session.warnings

    @property
    def bounds(self) -> ToolBounds:
        return self._session.bounds

    async def call(self, tool: OfferedTool, arguments: dict[str, Any], traceparent: bytes | None) -> ToolAnswer:
        row = self._servers.get(tool.server)
        if row is None or row.restore:
            arguments = self._guard.restore_value(arguments)
        answer = await self._session.call(tool, arguments, traceparent)
        content = [
            replace(part, text=await self._guard.admit_result(tool.name, part.text)) if isinstance(part, Text) else part
            for part in answer.content
        ]
        return replace(answer, content=tuple(content))

    def close(self) -> None:
        self._session.close()
