"""Reads which servers of tools a request asks the gateway to use, and how it answers calls that wait for approval.

A server is named as an entry of the request's functions: by its name, as `{"mcp": NAME}`, in Qwen-Agent's form
`{"mcpServers": {NAME: {}}}`, or as a tool of the type `mcp` in the form of OpenAI's APIs. Only servers that the
operator configured are used: what would say how a server is reached is refused.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace
from pydantic import BaseModel, ConfigDict, Field

from app.chat.hosted_tools import HostedAsks
from app.chat.messages import Message, Text, Tool, ToolCall, ToolResult
from app.chat.tool_asks import ALL_TOOLS, NO_TOOLS, ApprovalRule, ServerAsk, ServerTools, ToolApproval, ToolFilter
from app.errors import Violation
from app.formats.base import ParsedMessages
from app.validation.violations import describe_given, json_path

Json = Mapping[str, Any]
_CONFIGURED = (
    "only servers that the gateway's operator configured are used, with the operator's own commands, addresses and \
credentials"
)
_REFUSED = frozenset(
    {
        *("connector_id", "tunnel_id", "headers", "http_headers", "env_http_headers", "authorization"),
        *("authorization_token", "bearer_token", "bearer_token_env_var", "oauth", "command", "args", "env", "cwd"),
        *("transport", "sse_read_timeout"),
    }
)
"""Keys that say how a server is reached."""
_NO_EFFECT = frozenset({"type", "server_description", "defer_loading", "allowed_callers", "cache_control", "disabled"})
_LITELLM = "litellm_proxy/mcp/"
"""What LiteLLM's clients write before the name of a server that their gateway has configured."""
_FORM = '{"mcp": "name of the server", "tools": ["…"], "approval": "always"}'
_FILTER_FORM = 'a list of names, or {"tool_names": ["…"], "read_only": true}'
_APPROVAL_FORM = 'never, always, or {"always": {"tool_names": ["…"]}, "never": {"tool_names": ["…"]}}'


class ToolApprovalBody(BaseModel):
    """The answer to a call that waits for approval."""

    model_config = ConfigDict(extra="forbid", strict=True)

    id: str = Field(min_length=1, description="The id of the call.")
    approve: bool
    reason: str | None = Field(default=None, description="Told to the model if the call is not approved.")


class FoundAsks(Struct, frozen=True):
    asks: tuple[ServerAsk, ...] = ()
    violations: Sequence[Violation] = ()
    warnings: Sequence[str] = ()


NOTHING_ASKED = FoundAsks()


def is_ask(item: Any) -> bool:
    """Whether an entry of a list of functions names servers of tools."""
    if isinstance(item, str):
        return True
    if not isinstance(item, dict) or "name" in item or "function" in item:
        return False
    return item.get("type") == "mcp" or "mcp" in item or "mcpServers" in item


def read_asks(field: str, items: Sequence[Any]) -> FoundAsks:
    """Read the entries of a list of functions that name servers."""
    reader = AskReader()
    for place, item in enumerate(items):
        if is_ask(item):
            reader.add(item, f"{field}[{place}]")
    return reader.found


class AskReader:
    def __init__(self) -> None:
        self._asks: list[ServerAsk] = []
        self._violations: list[Violation] = []
        self._warnings: list[str] = []

    @property
    def found(self) -> FoundAsks:
        return FoundAsks(tuple(self._asks), self._violations, self._warnings)

    def add(self, item: Any, path: str) -> None:
        """Add an entry for which `is_ask` is true."""
        if isinstance(item, str):
            self._add_server(item, path, {}, path)
        elif item.get("type") == "mcp":
            self._add_openai(item, path)
        elif "mcp" in item:
            self._add_named(item, path)
        else:
            self._add_qwen(item, path)

    def add_toolset(self, server: Json, path: str, toolset: Json | None, toolset_path: str) -> None:
        """Add a server of Anthropic's Messages, with the toolset that names it; without one, all of its tools or those
        of the older `tool_configuration`."""
        name = server.get("name")
        if not isinstance(name, str) or not name:
            self._refuse(f"{path}.name", f"must be the name of a server{describe_given(name)}")
            return
        self._check_keys(server, path, {"name", "url", "tool_configuration"})
        url = self._read_url(server.get("url"), f"{path}.url")
        if toolset is None:
            tools, paths = self._read_configuration(server.get("tool_configuration"), f"{path}.tool_configuration")
        else:
            self._check_keys(toolset, toolset_path, {"mcp_server_name", "default_config", "configs", "tools"})
            tools, paths = self._read_configs(toolset, toolset_path)
        if tools != NO_TOOLS:
            ask = ServerAsk(name, tools, path="mcp_servers", url=url, url_path=f"{path}.url", name_paths=paths)
            self._asks.append(ask)

    # The forms.

    def _add_openai(self, item: Json, path: str) -> None:
        label, url = item.get("server_label"), item.get("server_url")
        if isinstance(url, str) and url.startswith(_LITELLM):
            label, url = url.removeprefix(_LITELLM), None
        if not isinstance(label, str) or not label:
            self._refuse(f"{path}.server_label", "is required: the name of a server of tools")
            return
        keys = {"server_label", "server_url", "allowed_tools", "require_approval"}
        self._check_keys(item, path, keys)
        tools, paths = self._read_filter(item.get("allowed_tools"), f"{path}.allowed_tools")
        approval_path = f"{path}.require_approval"
        approval = self._read_approval(item.get("require_approval"), approval_path)
        url_path = f"{path}.server_url"
        url = self._read_url(url, url_path)
        self._asks.append(ServerAsk(label, tools, approval, path, url, url_path, paths, approval_path))

    def _add_named(self, item: Json, path: str) -> None:
        name = item["mcp"]
        if not isinstance(name, str) or not name:
            self._refuse(f"{path}.mcp", f"must be the name of a server: write {_FORM}")
            return
        self._check_keys(item, path, {"mcp", "tools", "approval", "url"})
        self._add_server(name, path, item, path)

    def _add_qwen(self, item: Json, path: str) -> None:
        servers = item["mcpServers"]
        if not isinstance(servers, dict) or not servers:
            self._refuse(
                f"{path}.mcpServers", 'must be an object with names of servers: write {"mcpServers": {"…": {}}}'
            )
            return
        for key in item.keys() - {"mcpServers"}:
            self._warnings.append(f"{json_path([key], path)} is not a field of a server of tools and was ignored")
        for name, settings in servers.items():
            place = json_path([name], f"{path}.mcpServers")
            if not isinstance(settings, dict):
                self._refuse(place, f"must be an object{describe_given(settings)}: write {{}}")
                continue
            self._check_keys(settings, place, {"tools", "approval", "url"})
            self._add_server(name, path, settings, place)

    def _add_server(self, name: str, path: str, item: Json, place: str) -> None:
        """Add a server with the fields of Parley's own form. `path` is that of the entry, `place` that of the
        fields."""
        tools, paths = self._read_filter(item.get("tools"), f"{place}.tools")
        approval = self._read_approval(item.get("approval"), f"{place}.approval")
        url = self._read_url(item.get("url"), f"{place}.url")
        self._asks.append(ServerAsk(name, tools, approval, path, url, f"{place}.url", paths, f"{place}.approval"))

    # Their parts.

    def _refuse(self, path: str, message: str) -> None:
        self._violations.append(Violation(path, message))

    def _check_keys(self, item: Json, path: str, known: set[str]) -> None:
        for key in item:
            if key in known or key in _NO_EFFECT or item[key] in (None, "", [], {}):
                continue
            place = json_path([key], path)
            if key in _REFUSED:
                self._refuse(place, f"is not taken from a request: {_CONFIGURED}")
            else:
                self._warnings.append(f"{place} is not a field of a server of tools and was ignored")

    def _read_url(self, value: Any, path: str) -> str | None:
        if isinstance(value, str | None):
            return value or None
        self._refuse(path, f"must be a string{describe_given(value)}")
        return None

    def _read_filter(self, value: Any, path: str) -> tuple[ToolFilter, tuple[str, ...]]:
        """Return (filter, JSON paths of its names)."""
        if value is None:
            return ALL_TOOLS, ()
        names, read_only, names_path = value, None, path
        if isinstance(value, dict):
            names, read_only, names_path = value.get("tool_names"), value.get("read_only"), f"{path}.tool_names"
        if not isinstance(read_only, bool | None) or not _are_names(names) or not isinstance(value, list | dict):
            self._refuse(path, f"must be {_FILTER_FORM}{describe_given(value)}")
            return ALL_TOOLS, ()
        paths = tuple(f"{names_path}[{place}]" for place in range(len(names or ())))
        return ToolFilter(None if names is None else tuple(names), read_only=read_only), paths

    def _read_approval(self, value: Any, path: str) -> ApprovalRule | None:
        if value is None:
            return None
        if value in ("always", "never"):
            return ApprovalRule(always=ALL_TOOLS) if value == "always" else ApprovalRule(never=ALL_TOOLS)
        if isinstance(value, list):
            return ApprovalRule(always=self._read_filter(value, path)[0])
        if isinstance(value, dict) and value and value.keys() <= {"always", "never"}:
            read = {key: self._read_filter(value[key], f"{path}.{key}")[0] for key in value if value[key] is not None}
            # OpenAI asks for the approval of every call that a request does not exempt.
            others = True if "never" in read else None
            return ApprovalRule(read.get("always", NO_TOOLS), read.get("never", NO_TOOLS), others)
        self._refuse(path, f"must be {_APPROVAL_FORM}{describe_given(value)}")
        return None

    def _read_configuration(self, value: Any, path: str) -> tuple[ToolFilter, tuple[str, ...]]:
        """Read `tool_configuration` (beta 2025-04-04)."""
        if value is None:
            return ALL_TOOLS, ()
        if not isinstance(value, dict) or not isinstance(value.get("enabled"), bool | None):
            self._refuse(path, 'must be an object: write {"enabled": true, "allowed_tools": ["…"]}')
            return ALL_TOOLS, ()
        if value.get("enabled") is False:
            return NO_TOOLS, ()
        return self._read_filter(value.get("allowed_tools"), f"{path}.allowed_tools")

    def _read_configs(self, toolset: Json, path: str) -> tuple[ToolFilter, tuple[str, ...]]:
        """Read `default_config` and `configs` of a toolset (beta 2025-11-20)."""
        default, configs = toolset.get("default_config") or {}, toolset.get("configs") or {}
        if not isinstance(default, dict) or not isinstance(default.get("enabled"), bool | None):
            self._refuse(f"{path}.default_config", 'must be an object: write {"enabled": true}')
            return ALL_TOOLS, ()
        if not isinstance(configs, dict) or not all(map(_is_config, configs.values())):
            self._refuse(f"{path}.configs", 'must be an object: write {"name of a tool": {"enabled": true}}')
            return ALL_TOOLS, ()
        enabled = default.get("enabled") is not False
        if enabled:
            excluded = tuple(name for name, config in configs.items() if config.get("enabled") is False)
            return ToolFilter(excluded=excluded), ()
        names = tuple(name for name, config in configs.items() if config.get("enabled") is not False)
        return ToolFilter(names), tuple(json_path([name], f"{path}.configs") for name in names)


def _are_names(value: Any) -> bool:
    return value is None or (isinstance(value, list) and all(isinstance(name, str) for name in value))


def _is_config(value: Any) -> bool:
    return isinstance(value, dict) and isinstance(value.get("enabled"), bool | None)


def limit_asks(asks: Sequence[ServerAsk], names: Sequence[str]) -> tuple[tuple[ServerAsk, ...], list[str]]:
    """Return the servers of the tools that a choice allows by their names for the model, with these tools only, and the
    names that are of none of them."""
    kept: list[ServerAsk] = []
    left = list(names)
    for ask in asks:
        head = f"{ask.server}-"
        tools = [name.removeprefix(head) for name in names if name.startswith(head)]
        left = [name for name in left if not name.startswith(head)]
        if ask.tools.names is not None:
            tools = [name for name in tools if name in ask.tools.names]
        if tools:
            kept.append(replace(ask, tools=replace(ask.tools, names=tuple(tools)), name_paths=()))
    return tuple(kept), left


def read_approvals(given: Sequence[ToolApprovalBody] | None) -> tuple[ToolApproval, ...]:
    return tuple(
        ToolApproval(one.id, one.approve, one.reason, f"tool_approvals[{place}].id")
        for place, one in enumerate(given or ())
    )


def make_server_tools(
    asks: Sequence[ServerAsk],
    approvals: Sequence[ToolApproval],
    *,
    max_calls: int | None = None,
    function_paths: Sequence[str] = (),
    hosted: HostedAsks | None = None,
) -> ServerTools | None:
    """Return what a request says of tools that the gateway runs; None if it says nothing."""
    if not asks and not approvals and max_calls is None and hosted is None:
        return None
    return ServerTools(tuple(asks), tuple(approvals), max_calls, tuple(function_paths), hosted)


def settle_waiting_calls(parsed: ParsedMessages, *, can_answer: bool) -> tuple[Message, ...]:
    """Return the messages of a request. `can_answer`: it names servers, or answers calls, so that the reply begins with
    the results of calls that wait."""
    return refuse_waiting_calls(parsed.messages) if parsed.has_waiting and not can_answer else parsed.messages


def _list_parts(messages: Sequence[Message]) -> Iterator[Any]:
    return (part for message in messages for part in message.parts)


def mark_waiting_calls(messages: Sequence[Message], ids: Collection[str]) -> tuple[Message, ...]:
    """Return the messages with the calls of these ids marked as waiting for approval."""
    return tuple(
        replace(message, parts=tuple([_mark_call(part, ids) for part in message.parts]))
        if any(isinstance(part, ToolCall) for part in message.parts)
        else message
        for message in messages
    )


def _mark_call(part: Any, ids: Collection[str]) -> Any:
    return replace(part, awaits_approval=True) if isinstance(part, ToolCall) and part.id in ids else part


def refuse_waiting_calls(messages: Sequence[Message]) -> tuple[Message, ...]:
    """Return the messages with a result for each call that waits for approval, behind its turn. The caller went on
    without an answer, and offers no tools with which the call could be run."""
    answered = {part.id for part in _list_parts(messages) if isinstance(part, ToolResult)}
    out: list[Message] = []
    refused: list[Message] = []
    for message in messages:
        if message.role not in ("assistant", "tool"):
            out += refused
            refused = []
        out.append(message)
        for part in message.parts:
            if isinstance(part, ToolCall) and part.awaits_approval and part.id not in answered:
                content = (Text("Error: the call was not approved by the user."),)
                result = ToolResult(content, part.name, part.id, is_error=True)
                refused.append(Message("tool", (result,), path=message.path))
    return (*out, *refused)


def list_function_paths(tools: Sequence[Tool], paths: Mapping[str, str]) -> tuple[str, ...]:
    """Return the JSON path of each function, from those by name."""
    return tuple(paths.get(tool.name, "") for tool in tools)
