"""Tools of the Responses API as functions, the only tools that a model server is offered.

A custom tool becomes a function with one string, `input`; its grammar is described in words. The tools of a namespace
become functions named `<namespace>__<name>`, and a search for tools that the client runs becomes the function
`tool_search`. Tools that run at OpenAI are refused if the caller relies on them, and left out with a warning if clients
send them with every request.
"""

import hashlib
from collections.abc import Iterable, Sequence
from typing import Any, Literal, TypeAlias

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from app.chat.hosted_tools import HostedAsks, HostedKind
from app.chat.messages import Tool
from app.chat.tool_asks import ServerAsk
from app.errors import Violation
from app.formats.hosted_asks import SEARCH_NAME as WEB_SEARCH_NAME
from app.formats.hosted_asks import read_responses_tool
from app.formats.request_memory import recall
from app.formats.server_asks import AskReader, limit_asks
from app.openai_messages.custom_tools import make_function
from app.other_apis import read_choice, read_function_tool, read_schema_tool, read_server_choice

SEARCH_NAME = "tool_search"
"""The function that a model calls for a search that the client runs."""
CALL_PREFIX = "mcp_"
"""The id of an item `mcp_call` is this and the id of the call."""
REQUEST_PREFIX = "mcpr_"
"""The same of an item `mcp_approval_request`."""
_SEPARATOR = "__"
_MAX_NAME = 64
"""OpenAI, and servers that follow it, refuse longer names of functions."""
_MAX_INNER_NAME = 40
_DIGEST_DIGITS = 8
SEARCH: HostedKind = "web_search"
"""The beginning of the types of the tool that searches the web."""
_LEFT_OUT = (SEARCH, "tool_search", "image_generation")
"""Types, or the beginnings of types, of tools that clients offer with every request (Codex sends `web_search`)."""
_NO_PROVIDER = "and no provider's tool runs here"
_CHOICES = ("auto", "none", "required")
_FORM = '{"type": "function", "name": "…", "description": "…", "parameters": {…}}'


def join_name(namespace: str | None, name: str) -> str:
    """Return the name of a tool as the model server knows it.

    A joined name that is too long is cut. It depends on nothing but the two names, so that the calls in a history have
    it too; it ends with the tool's own name, which says most, and a digest keeps it unique.
    """
    if not namespace:
        return name
    joined = f"{namespace}{_SEPARATOR}{name}"
    if len(joined) <= _MAX_NAME:
        return joined
    digest = hashlib.sha256(joined.encode("utf-8", "surrogatepass")).hexdigest()[:_DIGEST_DIGITS]
    tail = f"_{digest}{_SEPARATOR}{name[:_MAX_INNER_NAME]}"
    return namespace[: _MAX_NAME - len(tail)] + tail


class OfferedTools(Struct, frozen=True):
    """The functions of a request, and how calls of them are written."""

    tools: tuple[Tool, ...] = ()
    custom: frozenset[str] = frozenset()
    """The functions that are custom tools."""
    namespaces: dict[str, tuple[str, str]] = {}
    """(namespace, name) by the name of the function."""
    client_search: bool = False
    """A call of the function `tool_search` is a search that the client runs."""
    asks: tuple[ServerAsk, ...] = ()
    """The servers whose tools the gateway runs."""
    paths: dict[str, str] = {}
    """The JSON paths of the tools, by the names of the functions."""
    warnings: list[str] = []
    violations: list[Violation] = []
    hosted: HostedAsks | None = None
    """The search of the web, which the gateway may run."""

    def name_places(self, path: str) -> dict[int, tuple[str, ...]]:
        """Return the names of the functions that the tools of the list at a path became, by their places."""
        places: dict[int, tuple[str, ...]] = {}
        for name, place in self.paths.items():
            head, _, rest = place.partition("[")
            if head == path:
                number = int(rest.partition("]")[0])
                places[number] = (*places.get(number, ()), name)
        return places


class ToolSource(Struct, frozen=True):
    """A list of tools somewhere in a request."""

    path: str
    tools: Sequence[Any]
    found: bool = False
    """The tools are in the result of a search. Those that cannot be offered are left out with a warning, because the
    client cannot take the result back."""
    stored: bool = False
    """The tools are of an earlier request, so that they do not replace those that this one has."""


def parse_tools(sources: Iterable[ToolSource]) -> OfferedTools:
    """Parse the tools of all places of a request. A tool that a later place names again replaces the earlier one, in
    its position: servers keep the beginning of a prompt in their caches."""
    given = list(sources)
    if not any([source.tools for source in given]):
        return OfferedTools()
    if len(given) == 1 and not given[0].found:
        source = given[0]
        return recall(source.tools, (parse_tools, source.path, source.stored), lambda: _parse_tools(given))
    return _parse_tools(given)


def _parse_tools(sources: Iterable[ToolSource]) -> OfferedTools:
    parser = _ToolParser()
    for source in sources:
        parser.add_source(source)
    offered, asked = parser.offered, parser.asks.found
    return OfferedTools(
        tuple(one.tool for one in offered.values()),
        frozenset(name for name, one in offered.items() if one.kind == "custom"),
        {name: (one.namespace, one.name) for name, one in offered.items() if one.namespace},
        any(one.kind == "tool_search" for one in offered.values()),
        asked.asks,
        parser.paths,
        [*parser.warnings, *asked.warnings],
        [*parser.violations, *asked.violations],
        parser.hosted,
    )


def is_about_type(violation: Violation) -> bool:
    """Whether a tool is of a type that a server of this API may know, although the gateway does not."""
    return violation.message.endswith(_NO_PROVIDER)


_Kind: TypeAlias = Literal["function", "custom", "tool_search"]


class _OfferedTool(Struct, frozen=True):
    kind: _Kind
    namespace: str
    name: str
    source: ToolSource
    tool: Tool


class _ToolParser:
    def __init__(self) -> None:
        self.offered: dict[str, _OfferedTool] = {}
        """By the names of the functions."""
        self.paths: dict[str, str] = {}
        self.asks = AskReader()
        self.warnings: list[str] = []
        self.violations: list[Violation] = []
        self.hosted: HostedAsks | None = None
        self._names: set[str] = set()
        """The names of the functions of this source."""
        self._source = ToolSource("", ())

    def add_source(self, source: ToolSource) -> None:
        self._names, self._source = set(), source
        for number, tool in enumerate(source.tools):
            self._add(tool, f"{source.path}[{number}]", "")

    def _add(self, tool: Any, path: str, namespace: str) -> None:
        tool = _read_tool_form(tool)
        if not isinstance(tool, dict):
            self._refuse(path, f"must be a tool object with a type: write {_FORM}")
            return
        match tool.get("type"):
            case "function":
                self._add_function(tool, path, namespace)
            case "custom":
                self._add_custom(tool, path, namespace)
            case "namespace" if not namespace:
                self._add_namespace(tool, path)
            case "tool_search" if tool.get("execution") == "client" and not namespace:
                self._add_search(tool, path)
            case "mcp" if not namespace and not self._source.found and not self._source.stored:
                self.asks.add(tool, path)
            case str(kind) if kind.startswith(_LEFT_OUT):
                text = f"{kind} runs on OpenAI's servers and was not offered to the model"
                self.warnings.append(f"{path}: {text}")
                if kind.startswith(SEARCH) and not namespace and not self._source.found and not self._source.stored:
                    self._add_web_search(tool, path)
            case None:
                if "functionDeclarations" in tool or "function_declarations" in tool:
                    self._refuse(path, f"has the form of Gemini's API: write each function as {_FORM}")
                else:
                    self._refuse(f"{path}.type", f"is required: write {_FORM}")
            case kind if self._source.found:
                self.warnings.append(f"{path}: no tool of type {kind!r} runs at Parley, so it was not offered")
            case kind:
                text = f"is not supported here: {kind!r} is not function, custom, namespace or mcp"
                self._refuse(f"{path}.type", f"{text}, {_NO_PROVIDER}")

    def _add_web_search(self, tool: dict[str, Any], path: str) -> None:
        warning = self.warnings[-1]
        if self.hosted is None:
            asks, violations = read_responses_tool(tool, path)
            self.hosted = HostedAsks((SEARCH,), tuple(asks), violations=tuple(violations), warnings=(warning,))
        else:  # the first one counts
            self.hosted = replace(self.hosted, warnings=(*self.hosted.warnings, warning))

    def _refuse(self, path: str, message: str) -> None:
        self.violations.append(Violation(path, message))

    def _check_name(self, tool: dict[str, Any], path: str, namespace: str) -> str | None:
        """Return the name of a tool if no other function has it."""
        name = self._read_name(tool, path)
        if name is not None and join_name(namespace, name) in self._names:
            self._refuse(f"{path}.name", f"must be unique: there are two tools named {join_name(namespace, name)!r}")
            return None
        if name is not None:
            self.paths[join_name(namespace, name)] = path
        return name

    def _read_name(self, tool: dict[str, Any], path: str) -> str | None:
        name = tool.get("name")
        if name is None:
            self._refuse(f"{path}.name", f"is required: write {_FORM}")
        elif not isinstance(name, str) or not name.strip():
            self._refuse(f"{path}.name", "must be a string that is not blank")
        elif not isinstance(tool.get("description"), str | None):
            self._refuse(f"{path}.description", "must be a string")
        else:
            return name
        return None

    def _offer(self, kind: _Kind, namespace: str, name: str, function: dict[str, Any]) -> None:
        full = join_name(namespace, name)
        self._names.add(full)
        known, source = self.offered.get(full), self._source
        if known is None or known.source.stored or not source.stored:
            self.offered[full] = _OfferedTool(kind, namespace, name, source, Tool(full, {"name": full, **function}))

    def _add_function(self, tool: dict[str, Any], path: str, namespace: str) -> None:
        name = self._check_name(tool, path, namespace)
        if name is None:
            return
        function = self._read_function(tool, path)
        if function is None:
            return
        if tool.get("strict") is True:
            function["strict"] = True
        self._offer("function", namespace, name, function)

    def _read_function(self, tool: dict[str, Any], path: str) -> dict[str, Any] | None:
        """Return the description and the parameters of a tool. Clients send tools of MCP as they got them, too."""
        parameters = tool.get("parameters", tool.get("inputSchema"))
        if not isinstance(parameters, dict | None):
            self._refuse(f"{path}.parameters", "must be a JSON schema, which is an object")
            return None
        function = {"description": tool["description"]} if tool.get("description") is not None else {}
        return function | {"parameters": {"type": "object", "properties": {}} if parameters is None else parameters}

    def _add_search(self, tool: dict[str, Any], path: str) -> None:
        if self._check_name({**tool, "name": SEARCH_NAME}, path, "") is None:
            return
        function = self._read_function(tool, path)
        if function is not None:
            self._offer("tool_search", "", SEARCH_NAME, function)

    def _add_custom(self, tool: dict[str, Any], path: str, namespace: str) -> None:
        name = self._check_name(tool, path, namespace)
        if name is None:
            return
        function = make_function(tool.get("description"), tool.get("format"))
        self._offer("custom", namespace, name, function)

    def _add_namespace(self, tool: dict[str, Any], path: str) -> None:
        name = self._read_name(tool, path)
        members = [] if tool.get("tools") is None else tool["tools"]  # Codex's `multi_agent_v1` (coder/aibridge#285)
        if name is None:
            return
        if not isinstance(members, list):
            self._refuse(f"{path}.tools", "must be a list of tools")
            return
        for number, member in enumerate(members):
            self._add(member, f"{path}.tools[{number}]", name)


def _read_tool_form(tool: Any) -> Any:
    """Return a function in the form of another API as one of this API; anything else as it is."""
    if not isinstance(tool, dict) or ("name" in tool and tool.get("type") is not None and "input_schema" not in tool):
        return tool
    function = read_function_tool(read_schema_tool(tool))
    return tool if function is None else {"type": "function", **function}


class ToolChoice(Struct, frozen=True):
    value: str | dict[str, Any] | None = None
    """`tool_choice` of OpenAI's chat completions."""
    allowed: frozenset[str] | None = None
    """The only functions that are offered; None: all of them."""
    asks: tuple[ServerAsk, ...] = ()
    """The only servers that are offered beside, if `allowed` is not None."""
    violations: list[Violation] = []


def parse_tool_choice(given: Any, tools: OfferedTools) -> ToolChoice:
    if given is None and not tools.asks:
        return ToolChoice()
    names = {tool.name for tool in tools.tools}
    choice = _read_choice_form(given, names)
    if tools.asks and (served := _choose_served(choice, tools)) is not None:
        return served
    match choice:
        case None:
            return ToolChoice()
        case "required" if not names:
            return _refuse_choice("tool_choice", "is required, but the request offers no tool that could be called")
        case str() if choice in _CHOICES:
            return ToolChoice(choice if names else None)
        case {"type": "function" | "custom" | "tool_search" as kind}:
            found = _find_name(choice, tools, names)
            if found is None and kind == "tool_search":
                return _refuse_choice("tool_choice", "names no tool of this request that its client runs")
            if found is None:
                return _refuse_choice("tool_choice.name", f"names no tool of this request: {choice.get('name')!r}")
            return ToolChoice({"type": "function", "function": {"name": found}})
        case {"type": "allowed_tools", "tools": list(allowed)}:
            return _parse_allowed(choice.get("mode", "auto"), allowed, tools, names)
        case {"type": "allowed_tools"}:
            return _refuse_choice("tool_choice.tools", "must be a list of tools")
        case {"type": kind}:
            text = f"is not supported here: {kind!r} is not function, custom or allowed_tools"
            return _refuse_choice("tool_choice.type", text)
        case _:
            return _refuse_choice("tool_choice", "must be auto, none, required or an object with a type")


def choose_hosted(given: Any, tools: OfferedTools, choice: ToolChoice) -> HostedAsks | None:
    """Return the search of a request with what its choice means if the gateway runs the search; None if the choice
    leaves it out. `choice` is what the choice means without it."""
    hosted = tools.hosted
    if hosted is None:
        return None
    named = {"type": "function", "function": {"name": WEB_SEARCH_NAME}}
    if isinstance(given, dict) and given.get("type") == "allowed_tools":
        allowed = given.get("tools")
        if not any(map(_is_search, allowed if isinstance(allowed, list) else ())):
            return None
        value = given.get("mode", "auto") if not choice.allowed else None
    elif _is_search(given) or given == WEB_SEARCH_NAME:
        value = named
    else:
        value = given if isinstance(given, str) and given in _CHOICES else None
    return replace(hosted, choice=value, unserved=tuple(choice.violations))


def _is_search(tool: Any) -> bool:
    kind = tool.get("type") if isinstance(tool, dict) else None
    return isinstance(kind, str) and kind.startswith(SEARCH)


def _choose_served(choice: Any, tools: OfferedTools) -> ToolChoice | None:
    """Return a choice that the servers of the request allow; None if it is not about them."""
    if isinstance(choice, str) and choice in _CHOICES:
        return ToolChoice(choice)
    served = read_server_choice(choice)
    if served is not None:
        label = choice["server_label"]
        if all(ask.server != label for ask in tools.asks):
            return _refuse_choice("tool_choice.server_label", f"names no server of this request: {label!r}")
        return ToolChoice(served)
    name = choice.get("name") if isinstance(choice, dict) and choice.get("type") == "function" else None
    if isinstance(name, str) and name.startswith(tuple(f"{ask.server}-" for ask in tools.asks)):
        return ToolChoice({"type": "function", "function": {"name": name}})
    return None


def _read_choice_form(choice: Any, names: set[str]) -> Any:
    """Write a choice of another API in the form of this one."""
    if isinstance(choice, str) and choice in names:
        return {"type": "function", "name": choice}
    if isinstance(choice, dict) and choice.get("type") not in ("function", "tool", "any", "auto", "none", "required"):
        return choice
    read = read_choice(choice)
    if isinstance(read, dict):
        namespace = choice.get("namespace") if isinstance(choice, dict) else None
        found = {"type": "function", "name": read["function"]["name"]}
        return found if namespace is None else {**found, "namespace": namespace}
    return choice if read is None else read


def _refuse_choice(path: str, message: str) -> ToolChoice:
    return ToolChoice(violations=[Violation(path, message)])


def _find_name(tool: Any, tools: OfferedTools, names: set[str]) -> str | None:
    """Return the function that a choice names; inside a namespace it may be named with or without it."""
    if not isinstance(tool, dict):
        return None
    if tool.get("type") == "tool_search":
        return SEARCH_NAME if tools.client_search else None
    name = tool.get("name")
    if not isinstance(name, str):
        return None
    namespace = tool.get("namespace")
    full = join_name(namespace if isinstance(namespace, str) else None, name)
    if full in names:
        return full
    return next((known for known, (_, inner) in tools.namespaces.items() if inner == name), None)


def _parse_allowed(mode: Any, allowed: list[Any], tools: OfferedTools, names: set[str]) -> ToolChoice:
    if mode not in ("auto", "required"):
        return _refuse_choice("tool_choice.mode", "must be auto or required")
    found = [_find_names(tool, tools, names) for tool in allowed]
    asks = _find_servers(allowed, tools)
    labels = {ask.server for ask in asks}
    violations = [
        Violation(f"tool_choice.tools[{number}].name", "names no tool of this request")
        for number, (tool, some) in enumerate(zip(allowed, found, strict=True))
        if not some and not _is_left_out(tool) and not (_is_server(tool) and tool.get("server_label") in labels)
    ]
    kept = frozenset(name for some in found for name in some)
    if asks and not violations:
        return ToolChoice(mode, kept, asks)
    if not kept and not violations:
        violations = [Violation("tool_choice.tools", "names no tool that this request can offer to the model")]
    return ToolChoice(mode, kept, violations=violations)


def _is_server(tool: Any) -> bool:
    return isinstance(tool, dict) and tool.get("type") == "mcp"


def _find_servers(allowed: list[Any], tools: OfferedTools) -> tuple[ServerAsk, ...]:
    """Return the servers that `allowed_tools` names, with the tools that it names."""
    found: list[ServerAsk] = []
    for ask in tools.asks:
        entries = [tool for tool in allowed if _is_server(tool) and tool.get("server_label") == ask.server]
        names = [f"{ask.server}-{tool['name']}" for tool in entries if isinstance(tool.get("name"), str)]
        if entries:
            found += limit_asks([ask], names)[0] if len(names) == len(entries) else [ask]
    return tuple(found)


def _find_names(tool: Any, tools: OfferedTools, names: set[str]) -> list[str]:
    """Return the functions that an entry of `allowed_tools` names: all of a namespace, or one."""
    if isinstance(tool, dict) and tool.get("type") == "namespace":
        return [full for full, (namespace, _) in tools.namespaces.items() if namespace == tool.get("name")]
    name = _find_name(tool, tools, names)
    return [] if name is None else [name]


def _is_left_out(tool: Any) -> bool:
    kind = tool.get("type") if isinstance(tool, dict) else None
    return isinstance(kind, str) and kind.startswith(_LEFT_OUT)


def read_object(arguments: str) -> Any:
    """Return the object that arguments are; the arguments as they are if they are none."""
    try:
        return msgspec.json.decode(arguments, type=dict[str, Any])
    except (msgspec.MsgspecError, RecursionError, UnicodeEncodeError):
        return arguments
