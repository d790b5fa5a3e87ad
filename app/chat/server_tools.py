"""Tools that the gateway runs: which are offered to a model, and what their calls brought."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal, Protocol, TypeAlias

from msgspec import Struct

from app.chat.hosted_tools import HostedKind, HostedResult, SearchEntry
from app.chat.messages import Media, Text
from app.chat.tool_asks import ServerAsk

ToolOutcome: TypeAlias = Literal["ok", "error", "not_run"]
"""`not_run`: the call reached no server."""
ToolLimit: TypeAlias = Literal["rounds", "calls", "seconds", "tokens", "bytes"]
"""The bound of a reply that it has met."""


class OfferedTool(Struct, frozen=True):
    """A tool that a reply offers to its model."""

    name: str
    """The name for the model: `tool_asks.make_tool_name`."""
    server: str
    tool: str
    description: str | None
    parameters: Mapping[str, Any]
    """Its JSON schema, as the server sent it."""
    approval: bool = False
    """A call must be approved before it is run."""
    read_only: bool = False
    annotations: Mapping[str, Any] | None = None
    """As the server sent them."""
    hosted: HostedKind | None = None
    """The client knows it as a tool of its API, and not as one of a server."""
    resumes: bool = False
    """A call without a result at the end of the conversation is run first."""
    waits: bool = False
    """It is offered once a search of this reply has found a page: before, there is nothing that it could open."""

    def to_schema(self) -> dict[str, Any]:
        """Return it as a function object of `chat.messages.Tool`."""
        schema: dict[str, Any] = {"name": self.name}
        if self.description is not None:
            schema["description"] = self.description
        return schema | {"parameters": self.parameters}


class ListedServer(Struct, frozen=True):
    """What one server offers to a reply."""

    server: str
    tools: tuple[OfferedTool, ...] = ()
    error: str | None = None
    """Why its tools are absent."""
    hosted: bool = False
    """Its tools are those that the client has named in the words of its API, so that they are not listed to it."""
    last_line: str = ""
    """What the server wrote last to its standard error, for the operator."""

    @property
    def full_error(self) -> str | None:
        return f"{self.error}; its last line of stderr: {self.last_line}" if self.last_line else self.error


def describe_part(part: Text | Media) -> str:
    """Return a part of a result as a text: media by their types, for formats whose results have only text."""
    if isinstance(part, Text):
        return part.text
    url = part.urls[0]
    type_ = url[len("data:") :].partition(",")[0].partition(";")[0] if url.startswith("data:") else ""
    return f"[{part.media}: {type_ or part.media}]"


class ToolError(Struct, frozen=True):
    """Why a call failed."""

    kind: Literal["execution", "protocol", "http"]
    """`execution`: the tool itself says so (MCP's `isError`); `protocol`: a JSON-RPC error, or one of the gateway;
    `http`: an HTTP status of the server."""
    code: int
    """That of JSON-RPC, or the HTTP status; 0 for `execution`."""
    message: str


class ToolAnswer(Struct, frozen=True):
    """What one call brought: always something that can be sent to the model."""

    content: tuple[Text | Media, ...]
    """For an error of the gateway or the protocol, one text that begins with `Error: `."""
    error: ToolError | None = None
    outcome: ToolOutcome = "ok"
    size: int = 0
    """The bytes of its text and media."""
    entries: tuple[SearchEntry, ...] | None = None
    """The pages that the result names; None if they were not looked for."""
    hosted: HostedResult | None = None
    """Of a search or a fetch that the client knows as a tool of its API."""


def refuse_call(message: str, code: int) -> ToolAnswer:
    """Return the answer to a call that was not sent to a server. `message` is one plain sentence."""
    text = f"Error: {message}"
    return ToolAnswer((Text(text),), ToolError("protocol", code, message), "not_run", len(text.encode()))


class ToolBounds(Struct, frozen=True):
    """The bounds of one reply."""

    max_rounds: int = 20
    """Calls to the model."""
    max_calls: int = 100
    max_parallel_calls: int = 8
    max_seconds: float = 600.0
    max_tokens: int = 200_000
    """Input and output of all calls to the model."""
    max_result_bytes: int = 1024 * 1024
    """Of all results together."""


class ToolSession(Protocol):
    """The tools of one reply."""

    @property
    def servers(self) -> Sequence[ListedServer]:
        """Those that are offered, in their order."""

    @property
    def warnings(self) -> Sequence[str]:
        """One sentence for each server or tool that is absent."""

    @property
    def bounds(self) -> ToolBounds: ...

    async def call(self, tool: OfferedTool, arguments: dict[str, Any], traceparent: bytes | None) -> ToolAnswer:
        """Run a tool within the time of its server. A failure is an answer. The call is cancelled with its task."""

    def close(self) -> None:
        """End connections that are only for this reply. No call is running then."""


class ToolServers(Protocol):
    """The servers of tools that the operator configured."""

    def is_offered(self, model: str) -> bool:
        """Whether the model's configuration offers tools with every request."""

    async def open(self, asks: Sequence[ServerAsk], key: str, model: str, *, approvable: bool) -> ToolSession:
        """Connect the servers that a request names and those of the model, and list their tools.

        `key` is the name of the caller's API key, "" without one. If not `approvable`, the format has no words for an
        approval: tools that need it are left out with a warning. Raises Forbidden for a server that the key or the
        model may not use, InvalidInput for one that is unknown, and Busy if a required one cannot be reached.
        """


class ModelCall(Struct, frozen=True):
    """One call to the model within a reply."""

    finish_reason: str
    usage: dict[str, Any] | None = None
    cached: bool = False

    def to_dict(self) -> dict[str, Any]:
        usage = self.usage
        if usage is None or "cost" not in usage:
            return {"finish_reason": self.finish_reason, "usage": usage, "cached": self.cached}
        return {
            "finish_reason": self.finish_reason,
            "usage": {name: value for name, value in usage.items() if name != "cost"},
            "cached": self.cached,
            "cost": usage["cost"],
        }


class ToolCallSummary(Struct, frozen=True):
    id: str
    server: str
    tool: str
    outcome: ToolOutcome
    milliseconds: int
    size: int
    """Bytes of the result's text."""

    def to_dict(self) -> dict[str, Any]:
        return {
            "id": self.id,
            "server": self.server,
            "tool": self.tool,
            "outcome": self.outcome,
            "ms": self.milliseconds,
            "bytes": self.size,
        }


class ServerToolsSummary(Struct, frozen=True):
    """What a reply did with tools that the gateway runs."""

    model_calls: tuple[ModelCall, ...]
    calls: tuple[ToolCallSummary, ...] = ()
    limit: ToolLimit | None = None
    """The bound at which the reply ended."""
    searches: int = 0
    """Searches of the web that reached their server."""
    fetches: int = 0

    @property
    def cached(self) -> bool:
        """Whether all model calls were answered from the cache."""
        return bool(self.model_calls) and all(call.cached for call in self.model_calls)

    def to_dict(self) -> dict[str, Any]:
        """Return the object `server_tools` of all formats."""
        summary: dict[str, Any] = {
            "model_calls": [call.to_dict() for call in self.model_calls],
            "calls": [call.to_dict() for call in self.calls],
        }
        return summary if self.limit is None else summary | {"limit": self.limit}
