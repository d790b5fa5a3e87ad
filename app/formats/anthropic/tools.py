"""The tools that a request in Anthropic's format offers at the end of its conversation, and its choice of one."""

import re
from collections.abc import Iterator, Sequence
from typing import Any, Literal

from msgspec.structs import replace
from pydantic import BaseModel, ConfigDict

from app.chat.hosted_tools import HostedAsks
from app.chat.messages import CacheMark, Tool
from app.chat.tool_asks import ServerAsk
from app.errors import Violation
from app.formats.hosted_asks import find_kind, read_anthropic_tools
from app.formats.request_memory import map_entries, recall
from app.formats.server_asks import NOTHING_ASKED, AskReader, FoundAsks
from app.other_apis import NO_PARAMETERS, read_choice, read_function_tool
from app.validation.violations import json_path


def read_choice_form(value: Any) -> Any:
    """Write a choice of OpenAI's APIs in Anthropic's form."""
    if isinstance(value, dict) and value.get("type") in ("auto", "any", "tool", "none"):
        return value
    choice = read_choice(value)
    if isinstance(choice, dict):
        return {"type": "tool", "name": choice["function"]["name"]}
    if choice in ("auto", "none", "required"):
        return {"type": "any" if choice == "required" else choice}
    return value if choice is None else {"type": "tool", "name": choice}


class AnthropicToolChoice(BaseModel):
    model_config = ConfigDict(extra="allow", strict=True)

    type: Literal["auto", "any", "tool", "none"]
    name: str | None = None
    disable_parallel_tool_use: bool | None = None


_TOOL_CHANGES = ("tool_addition", "tool_removal")
_SEARCH_TOOLS = ("web_search_", "web_fetch_")
_TOOL_SEARCH = "tool_search_"
_HOSTED_TOOLS = (*_SEARCH_TOOLS, _TOOL_SEARCH, "code_execution_", "advisor", "memory_")
"""The beginnings of the types of tools that agents offer with every request. Only Anthropic's servers run them; memory
is run by the client, but only Anthropic's models know how to call it."""
_TOOL_KEYS = frozenset(
    {
        *("type", "name", "description", "input_schema", "strict", "cache_control"),
        *("defer_loading", "eager_input_streaming", "allowed_callers", "input_examples"),
    }
)
_DATED = re.compile(r"_\d{8}$")
"""The end of a type of tools that Anthropic defines."""
_MAX_SHOWN = 40
_SERVERS_FORM = '[{"type": "url", "name": "…"}]'
_TOOL_FORM = '{"name": "…", "description": "…", "input_schema": {…}}'


def find_tools(body: dict[str, Any], path: str) -> list[tuple[str, Any]]:
    """Return the tools that are offered at the end of the conversation, each with its path: those of `tools`, whose
    path is `path`, and those that messages define, without those that messages withdraw."""
    tools = [(f"{path}[{place}]", item) for place, item in enumerate(body.get("tools") or ())]
    withdrawn: set[str] = set()
    for place, block in _find_tool_changes(body.get("messages")):
        tool = block["tool"]
        if block["type"] == "tool_removal":
            withdrawn.add(str(tool.get("name")))
        elif tool.get("type") == "tool_definition":
            defined = tool.get("definition")
            name = defined.get("name") if isinstance(defined, dict) else None
            tools = [one for one in tools if name is None or _get_name(one[1]) != name]
            tools.append((f"{place}.tool.definition", defined))
            withdrawn.discard(str(name))
        else:
            withdrawn.discard(str(tool.get("name")))
    tools = [one for one in tools if _get_name(one[1]) not in withdrawn] if withdrawn else tools
    return _leave_out_deferred(tools, body) if tools else tools


def _leave_out_deferred(tools: list[tuple[str, Any]], body: dict[str, Any]) -> list[tuple[str, Any]]:
    """Return the tools without those that wait until the model has searched for them (`defer_loading`).

    Those that were found follow all others, in the order in which they were found first, so that the beginning of the
    prompt stays as it is. Where nothing that is offered could find them, all are.
    """
    deferred = {_get_name(one[1]): one for one in tools if _is_deferred(one[1])}
    if not deferred:
        return tools
    others = [one for one in tools if not _is_deferred(one[1])]
    hosted = [one for one in others if _has_type(one[1], _HOSTED_TOOLS)]
    if len(hosted) == len(others) or any(_has_type(tool, (_TOOL_SEARCH,)) for _, tool in hosted):
        return tools
    choice = body.get("tool_choice")
    found: list[Any] = [name for names in map_entries(body.get("messages") or (), _find_references) for name in names]
    found += [choice.get("name")] if isinstance(choice, dict) else []
    return others + [deferred[name] for name in dict.fromkeys(found) if name in deferred]


def _is_deferred(tool: Any) -> bool:
    return isinstance(tool, dict) and tool.get("defer_loading") is True and isinstance(tool.get("name"), str)


def _has_type(tool: Any, starts: tuple[str, ...]) -> bool:
    return isinstance(tool, dict) and str(tool.get("type")).startswith(starts) and tool.get("input_schema") is None


def is_hosted(tool: Any) -> bool:
    """Whether a tool is one that only Anthropic's servers run, and so no function."""
    return _has_type(tool, _HOSTED_TOOLS)


def _find_references(messages: Sequence[Any]) -> list[list[str]]:
    return list(map(_list_references, messages))


def _list_references(message: Any) -> list[str]:
    """Return the names of the tools that a message says were found."""
    content = message.get("content") if isinstance(message, dict) else None
    names: list[Any] = [
        block["tool"].get("name") for _, block in _list_tool_changes([message])[0] if block["type"] == "tool_addition"
    ]
    for block in content if isinstance(content, list) else ():
        if not isinstance(block, dict):
            continue
        found = block.get("content")
        if block.get("type") == "tool_search_tool_result" and isinstance(found, dict):
            found = found.get("tool_references")
        for one in (block, *(found if isinstance(found, list) else ())):
            if isinstance(one, dict) and one.get("type") == "tool_reference":
                names.append(one.get("tool_name"))
    return [name for name in names if isinstance(name, str)]


def _find_tool_changes(messages: Any) -> Iterator[tuple[str, dict[str, Any]]]:
    found = map_entries(messages, _list_tool_changes) if isinstance(messages, list) else ()
    for place, blocks in enumerate(found):
        for at, block in blocks:
            yield f"messages[{place}].content[{at}]", block


def _list_tool_changes(messages: Sequence[Any]) -> list[list[tuple[int, dict[str, Any]]]]:
    """Return the blocks of each message that change the tools, each with its place."""
    found: list[list[tuple[int, dict[str, Any]]]] = []
    for message in messages:
        changes: list[tuple[int, dict[str, Any]]] = []
        content = message.get("content") if isinstance(message, dict) else None
        for at, block in enumerate(content if isinstance(content, list) else ()):
            if isinstance(block, dict) and block.get("type") in _TOOL_CHANGES and isinstance(block.get("tool"), dict):
                changes.append((at, block))
        found.append(changes)
    return found


def _get_name(tool: Any) -> Any:
    return tool.get("name") if isinstance(tool, dict) else None


def is_toolset(tool: Any) -> bool:
    return isinstance(tool, dict) and tool.get("type") == "mcp_toolset"


def read_servers(servers: Any, toolsets: Sequence[tuple[str, Any]]) -> FoundAsks:
    """Read `mcp_servers` and the toolsets, each with its path. A server without a toolset offers all of its tools, or
    those of the older `tool_configuration`."""
    if servers is None and not toolsets:
        return NOTHING_ASKED
    if not isinstance(servers, list | None) or not all(isinstance(server, dict) for server in servers or ()):
        return FoundAsks(violations=[Violation("mcp_servers", f"must be a list of servers: write {_SERVERS_FORM}")])
    reader = AskReader()
    violations: list[Violation] = []
    by_name: dict[Any, tuple[str, Any]] = {}
    names = [server.get("name") for server in servers or ()]
    for path, toolset in toolsets:
        name = toolset.get("mcp_server_name")
        if name not in names:
            text = f"names no server of mcp_servers: {str(name)[:_MAX_SHOWN]!r}"
            violations.append(Violation(f"{path}.mcp_server_name", text))
        elif name in by_name:
            violations.append(Violation(path, f"there are two toolsets of the server {name!r}"))
        else:
            by_name[name] = path, toolset
    for place, server in enumerate(servers or ()):
        path = f"mcp_servers[{place}]"
        if server.get("type", "url") != "url":
            violations.append(Violation(f"{path}.type", "must be url"))
        toolset_path, toolset = by_name.get(server.get("name"), ("", None))
        reader.add_toolset(server, path, toolset, toolset_path)
    found = reader.found
    return FoundAsks(found.asks, [*violations, *found.violations], found.warnings)


def name_own_tools(tools: Any) -> dict[int, tuple[str, ...]]:
    """Return the names of the functions that the tools of a body became, by their places."""
    forms = enumerate(map(_read_tool_form, tools if isinstance(tools, list) else ()))
    return {place: (tool["name"],) for place, tool in forms if isinstance(tool, dict) and "input_schema" in tool}


def parse_tools(items: Sequence[tuple[str, Any]]) -> tuple[tuple[Tool, ...], list[Violation], list[str]]:
    """Parse tools, each with its path. Return (tools, violations, warnings). Tools that run at Anthropic's servers are
    left out with a warning."""
    paths, given = tuple([path for path, _ in items]), [tool for _, tool in items]
    tools, violations, warnings = recall(given, (parse_tools, paths), lambda: _parse_tools(items))
    return tools, list(violations), list(warnings)


def _parse_tools(items: Sequence[tuple[str, Any]]) -> tuple[tuple[Tool, ...], list[Violation], list[str]]:
    tools: list[Tool] = []
    violations: list[Violation] = []
    warnings: list[str] = []
    names: set[str] = set()
    only_searches = all([_has_type(given, _SEARCH_TOOLS) for _, given in items])
    for path, given in items:
        item = _read_tool_form(given)
        if _has_type(item, _HOSTED_TOOLS) and not only_searches:
            warnings.append(_describe_left_out(path, item))
            continue
        problem = _check_tool(item, names)
        if problem is not None:
            violations.append(Violation(path + problem[0], problem[1]))
            continue
        names.add(item["name"])
        tools.append(_parse_tool(item, path))
        for key in item:
            if key not in _TOOL_KEYS and item[key] not in (None, [], {}):
                warnings.append(f"{json_path([key], path)} is not a field of a tool and was ignored")
    return tuple(tools), violations, warnings


def _describe_left_out(path: str, item: dict[str, Any]) -> str:
    return f"{path} was not offered: {item['type'][:_MAX_SHOWN]} is run by Anthropic's servers"


def read_hosted_tools(
    items: Sequence[tuple[str, Any]],
    tools: Sequence[Tool],
    choice: AnthropicToolChoice | None,
    asks: Sequence[ServerAsk],
    foreign: Sequence[Violation],
) -> HostedAsks | None:
    """Return the searches and fetches among the tools, each with its path; None if there are none. `foreign` is what is
    wrong with the request without them."""
    given = [(path, item) for path, item in items if find_kind(item) is not None]
    if not given:
        return None
    found = read_anthropic_tools(given, [tool.name for tool in tools])
    places = {f"{path}.type" for path, _ in given}
    named = [ask.name for ask in found.asks]
    mistakes = [] if found.violations else check_tool_choice(choice, tools, asks, named)
    return replace(
        found,
        choice=None if choice is None else translate_choice(choice),
        violations=(*found.violations, *mistakes),
        unserved=tuple(one for one in foreign if one.path in places or one.path.startswith("tool_choice")),
        warnings=tuple(_describe_left_out(path, item) for path, item in given),
    )


_WORDS = {"auto": "auto", "none": "none", "any": "required"}


def translate_choice(choice: AnthropicToolChoice) -> str | dict[str, Any]:
    """Return a choice in the form of OpenAI's chat completions."""
    return _WORDS.get(choice.type) or {"function": {"name": choice.name}}


def _read_tool_form(tool: Any) -> Any:
    """Return a tool of OpenAI's APIs or of MCP in Anthropic's form; anything else as it is."""
    function = None if isinstance(tool, dict) and "input_schema" in tool else read_function_tool(tool)
    if function is None:
        return tool
    rest = {key: value for key, value in function.items() if key != "parameters"}
    return {**rest, "input_schema": function.get("parameters", NO_PARAMETERS)}


def is_about_type(violation: Violation) -> bool:
    """Whether a tool is of a type that a server of this API may know, although the gateway does not."""
    return violation.path.endswith("].type") and violation.message != _NO_TYPE


_NO_TYPE = "must be a string"


def _check_tool(item: Any, names: set[str]) -> tuple[str, str] | None:
    """Return the (path, message) of what is invalid."""
    if not isinstance(item, dict):
        return "", f"must be an object with a name and an input_schema: write {_TOOL_FORM}"
    problem = _check_tool_type(item)
    if problem is not None:
        return problem
    name, schema = item.get("name"), item.get("input_schema")
    if not isinstance(name, str) or not name.strip():
        return ".name", f"is required: write {_TOOL_FORM}" if name is None else "must be a string that is not blank"
    if name in names:
        return ".name", f"must be unique: there are two tools named {name!r}"
    if not isinstance(schema, dict):
        text = f"is required: write {_TOOL_FORM}" if schema is None else "must be a JSON schema, which is an object"
        return ".input_schema", text
    if not isinstance(item.get("description"), str | None):
        return ".description", "must be a string"
    if not isinstance(item.get("cache_control"), dict | None):
        return ".cache_control", "must be an object"
    return None


def _check_tool_type(item: dict[str, Any]) -> tuple[str, str] | None:
    kind = item.get("type")
    if "functionDeclarations" in item or "function_declarations" in item:
        return "", f"has the form of Gemini's API: write each function as {_TOOL_FORM}"
    if kind is None or kind == "custom":
        return None
    if not isinstance(kind, str):
        return ".type", _NO_TYPE
    if kind.startswith(_SEARCH_TOOLS):  # a request of an agent for nothing but a search
        setting = f"hosted_tools.{find_kind(item) or 'web_search'}"
        return ".type", (
            f"{kind} is run by Anthropic's servers, or by this gateway if its operator configures {setting}: send a "
            "tool with an input_schema, and run it in the client"
        )
    if item.get("input_schema") is not None:
        return None
    if kind == "function":
        return "", f"has no name, or not where OpenAI's tools have it: write {_TOOL_FORM}"
    if _DATED.search(kind):
        return ".type", f"{kind} has a schema that only Anthropic's models know: send a tool with an input_schema"
    return ".type", f"must be custom, or left out, not {kind[:_MAX_SHOWN]!r}: no provider's tool runs here"


def _parse_tool(item: dict[str, Any], path: str) -> Tool:
    schema: dict[str, Any] = {"name": item["name"]}
    if item.get("description") is not None:
        schema["description"] = item["description"]
    schema["parameters"] = item["input_schema"]
    if item.get("strict") is True:
        schema["strict"] = True
    mark = CacheMark(item["cache_control"], f"{path}.cache_control") if item.get("cache_control") else None
    return Tool(item["name"], schema, mark)


def check_tool_choice(
    choice: AnthropicToolChoice | None, tools: Sequence[Tool], asks: Sequence[ServerAsk], hosted: Sequence[str] = ()
) -> Iterator[Violation]:
    """`hosted` are the names of the searches and fetches that are offered."""
    if choice is None or choice.type in ("auto", "none"):
        return
    names = [*(tool.name for tool in tools), *hosted]
    heads = tuple(f"{ask.server}-" for ask in asks)
    if not names and not asks:
        yield Violation("tool_choice", "needs tools to choose from, but the request has none")
    elif choice.type == "tool" and choice.name is None:
        yield Violation("tool_choice.name", "is required")
    elif choice.type == "tool" and choice.name not in names and not str(choice.name).startswith(heads):
        yield Violation(
            "tool_choice.name", f"must be one of the tools ({', '.join(sorted(names))}), not {choice.name!r}"
        )
