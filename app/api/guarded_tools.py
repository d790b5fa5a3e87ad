"""`GuardedSession`: tools of the gateway, which get masked values as they are, and whose results guards look at."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from app.chat.messages import Media, Text
from app.chat.server_tools import ListedServer, OfferedTool, ToolAnswer, ToolBounds, ToolSession
from app.config.tables.tools import McpServer
from app.errors import ParleyError

if TYPE_CHECKING:
    from app.guards.admission import RequestGuard


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
        try:
            content = [await self._admit(tool, part) for part in answer.content]
        except ParleyError as error:  # a tool never fails the reply
            content = [Text(f"[withheld: {error.message}]")]
        return answer if tuple(content) == answer.content else _replace_content(answer, tuple(content))

    async def _admit(self, tool: OfferedTool, part: Text | Media) -> Text | Media:
        """Raises ParleyError."""
        if not isinstance(part, Text):
            return part
        return replace(part, text=await self._guard.admit_result(tool.name, part.text))

    def close(self) -> None:
        self._session.close()


def _replace_content(answer: ToolAnswer, content: tuple[Text | Media, ...]) -> ToolAnswer:
    """Return an answer with what guards have left of it. Its other fields say the same, also to clients."""
    error, hosted = answer.error, answer.hosted
    if error is not None:
        error = replace(error, message="\n".join([part.text for part in content if isinstance(part, Text)]))
    if hosted is not None:
        hosted = replace(hosted, entries=())
    return replace(answer, content=content, error=error, entries=None, hosted=hosted)
