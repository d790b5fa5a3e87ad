"""Which servers of tools a request asks for, in every format's own words."""

import json
from typing import Any

import pytest
from app.chat.messages import ChatRequest
from app.chat.tool_asks import ALL_TOOLS, ApprovalRule, ServerAsk, ServerTools, ToolApproval, ToolFilter
from app.errors import InvalidInput
from app.formats.anthropic.body import parse_messages_body
from app.formats.body import ParsedRequest, RejectedRequest
from app.formats.chat_body import parse_chat_body
from app.formats.openai.body import parse_completions_body
from app.formats.request_limits import RequestLimits
from app.formats.responses.body import parse_responses_body
from app.formats.server_asks import is_ask, limit_asks

from tests.each_case import each_case

Json = dict[str, Any]
QUESTION = [{"role": "user", "content": "x"}]
PARSERS: dict[str, Any] = {
    "chat": parse_chat_body,
    "completions": parse_completions_body,
    "messages": parse_messages_body,
    "responses": parse_responses_body,
}


def parse(face: str, **fields: Any) -> ParsedRequest | RejectedRequest:
    body: Json = {"model": "m", **fields}
    if face == "responses":
        body = {"input": "x", **body}
    else:
        body = {"messages": QUESTION, **body}
    if face == "messages":
        body["max_tokens"] = 9
    parsed = PARSERS[face](json.dumps(body).encode(), RequestLimits(100, 100, 100, 100))
    assert isinstance(parsed, ParsedRequest | RejectedRequest)
    return parsed


def read(face: str, **fields: Any) -> ChatRequest:
    parsed = parse(face, **fields)
    assert isinstance(parsed, ParsedRequest), parsed.error
    return parsed.request


def list_refused(face: str, **fields: Any) -> list[str]:
    """Return the places of what keeps a request from a server of another API."""
    parsed = parse(face, **fields)
    if isinstance(parsed, ParsedRequest):
        assert parsed.request.source is not None
        return [violation.path for violation in parsed.request.source.violations]
    assert isinstance(parsed.error, InvalidInput)
    return [violation.path for violation in parsed.error.violations]


def read_asks(face: str, **fields: Any) -> list[tuple[Any, ...]]:
    asked = read(face, **fields).server_tools
    assert asked is not None
    return [(ask.server, ask.tools, ask.approval, ask.url, ask.path) for ask in asked.asks]


F = "functions[0]"


@each_case(
    ("item", "wanted"),
    [
        ("files", ("files", ALL_TOOLS, None, None, F)),
        ({"mcp": "files"}, ("files", ALL_TOOLS, None, None, F)),
        ({"mcp": "files", "tools": ["a"]}, ("files", ToolFilter(("a",)), None, None, F)),
        ({"mcp": "files", "approval": "always"}, ("files", ALL_TOOLS, ApprovalRule(always=ALL_TOOLS), None, F)),
        ({"mcp": "files", "approval": ["a"]}, ("files", ALL_TOOLS, ApprovalRule(always=ToolFilter(("a",))), None, F)),
        ({"mcpServers": {"files": {}}}, ("files", ALL_TOOLS, None, None, F)),
        ({"mcpServers": {"files": {"command": "", "args": [], "url": None}}}, ("files", ALL_TOOLS, None, None, F)),
        ({"mcpServers": {"files": {"url": "http://a/"}}}, ("files", ALL_TOOLS, None, "http://a/", F)),
        ({"type": "mcp", "server_label": "files"}, ("files", ALL_TOOLS, None, None, F)),
    ],
)
def test_a_server_is_named_among_the_functions(item: Any, wanted: tuple[Any, ...]) -> None:
    assert read_asks("chat", functions=[item]) == [wanted]
    assert read_asks("chat", functions=[item, {"name": "f"}]) == [wanted]


T = "tools[0]"


@each_case(
    ("more", "wanted"),
    [
        ({}, ("wx", ALL_TOOLS, None, None, T)),
        ({"server_url": "http://a/mcp"}, ("wx", ALL_TOOLS, None, "http://a/mcp", T)),
        ({"server_url": "litellm_proxy/mcp/clock"}, ("clock", ALL_TOOLS, None, None, T)),
        ({"allowed_tools": ["a", "b"]}, ("wx", ToolFilter(("a", "b")), None, None, T)),
        ({"allowed_tools": {"read_only": True}}, ("wx", ToolFilter(read_only=True), None, None, T)),
        ({"allowed_tools": {"tool_names": ["a"]}}, ("wx", ToolFilter(("a",)), None, None, T)),
        ({"require_approval": "never"}, ("wx", ALL_TOOLS, ApprovalRule(never=ALL_TOOLS), None, T)),
        (
            {"require_approval": {"always": {"tool_names": ["a"]}, "never": {"read_only": True}}},
            ("wx", ALL_TOOLS, ApprovalRule(ToolFilter(("a",)), ToolFilter(read_only=True), others=True), None, T),
        ),
        (
            {"require_approval": {"never": {"tool_names": ["a"]}}},
            ("wx", ALL_TOOLS, ApprovalRule(never=ToolFilter(("a",)), others=True), None, T),
        ),
        (
            {"require_approval": {"always": {"tool_names": ["a"]}, "never": None}},
            ("wx", ALL_TOOLS, ApprovalRule(always=ToolFilter(("a",))), None, T),
        ),
        ({"headers": None, "authorization": "", "server_description": "x"}, ("wx", ALL_TOOLS, None, None, T)),
    ],
)
def test_a_tool_of_the_type_mcp_names_a_server(more: Json, wanted: tuple[Any, ...]) -> None:
    for face in ("completions", "responses"):
        assert read_asks(face, tools=[{"type": "mcp", "server_label": "wx", **more}]) == [wanted]


def toolset(**more: Any) -> Json:
    return {"type": "mcp_toolset", "mcp_server_name": "wx", **more}


M = "mcp_servers"


@each_case(
    ("server", "tools", "wanted"),
    [
        ({}, [toolset()], [("wx", ALL_TOOLS, None, None, M)]),
        ({"url": ""}, [], [("wx", ALL_TOOLS, None, None, M)]),
        (
            {"tool_configuration": {"enabled": True, "allowed_tools": ["a"]}},
            [],
            [("wx", ToolFilter(("a",)), None, None, M)],
        ),
        (
            {},
            [toolset(configs={"a": {"enabled": False}, "b": {}})],
            [("wx", ToolFilter(excluded=("a",)), None, None, M)],
        ),
        (
            {},
            [toolset(default_config={"enabled": False}, configs={"a": {"enabled": True}})],
            [("wx", ToolFilter(("a",)), None, None, M)],
        ),
    ],
)
def test_messages_has_servers_and_toolsets(server: Json, tools: list[Json], wanted: list[Any]) -> None:
    given = {"type": "url", "name": "wx", **server}
    assert read_asks("messages", mcp_servers=[given], tools=tools) == wanted


def test_a_server_that_is_switched_off_is_not_asked_for() -> None:
    given = {"type": "url", "name": "wx", "tool_configuration": {"enabled": False}}
    assert read("messages", mcp_servers=[given]).server_tools is None


@each_case(
    ("face", "fields", "paths"),
    [
        ("chat", {"functions": [{"mcpServers": {"wx": {"command": "sh"}}}]}, ["functions[0].mcpServers.wx.command"]),
        ("chat", {"functions": [{"mcpServers": {}}]}, ["functions[0].mcpServers"]),
        ("chat", {"functions": [{"mcp": 1}]}, ["functions[0].mcp"]),
        ("chat", {"functions": [{"mcp": "wx", "tools": "a"}]}, ["functions[0].tools"]),
        ("chat", {"functions": [{"mcp": "wx", "approval": "yes"}]}, ["functions[0].approval"]),
        ("chat", {"functions": [{"mcp": "wx", "env": {"A": "b"}}]}, ["functions[0].env"]),
        ("chat", {"tool_approvals": [{"id": "c"}]}, ["tool_approvals[0].approve"]),
        ("completions", {"tools": [{"type": "mcp", "server_label": "a", "headers": {"a": "b"}}]}, ["tools[0].headers"]),
        ("completions", {"tools": [{"type": "mcp"}]}, ["tools[0].server_label"]),
        (
            "responses",
            {"tools": [{"type": "mcp", "server_label": "d", "connector_id": "c"}]},
            ["tools[0].connector_id"],
        ),
        (
            "responses",
            {"tools": [{"type": "mcp", "server_label": "d", "authorization": "t"}]},
            ["tools[0].authorization"],
        ),
        ("responses", {"tools": [], "tool_choice": {"type": "mcp", "server_label": "d"}}, ["tool_choice.type"]),
        (
            "responses",
            {"input": [{"type": "mcp_approval_response", "approval_request_id": "mcpr_1", "approve": True}]},
            ["input[0].approval_request_id"],
        ),
        (
            "messages",
            {"mcp_servers": [{"type": "url", "name": "a", "authorization_token": "t"}]},
            ["mcp_servers[0].authorization_token"],
        ),
        ("messages", {"tools": [toolset()]}, ["tools[0].mcp_server_name"]),
        ("messages", {"mcp_servers": [{"type": "sse", "name": "a"}]}, ["mcp_servers[0].type"]),
    ],
)
def test_what_a_client_may_not_say_is_refused_at_its_place(face: str, fields: Json, paths: list[str]) -> None:
    assert list_refused(face, **fields) == paths


@each_case(
    ("face", "fields", "choice"),
    [
        ("completions", {"type": "mcp", "server_label": "wx", "name": "a b"}, {"name": "wx-a_b_2c8f5d"}),
        ("completions", {"type": "mcp", "server_label": "wx"}, "required"),
        ("responses", {"type": "mcp", "server_label": "wx", "name": "get"}, {"name": "wx-get"}),
        ("responses", "required", "required"),
        ("responses", {"type": "function", "name": "wx-get"}, {"name": "wx-get"}),
    ],
)
def test_a_choice_may_be_a_server_or_one_of_its_tools(face: str, fields: Any, choice: Any) -> None:
    request = read(face, tools=[{"type": "mcp", "server_label": "wx"}], tool_choice=fields)
    found = request.params.get("function_choice") or request.params.get("tool_choice")
    assert isinstance(found, dict | str)
    if isinstance(found, dict):
        assert found["function"]["name"].startswith(choice["name"][:5])
    else:
        assert found == choice


def test_messages_may_choose_a_tool_of_a_server() -> None:
    fields: Json = {"mcp_servers": [{"type": "url", "name": "wx"}], "tools": [toolset()]}
    chosen = read("messages", **fields, tool_choice={"type": "tool", "name": "wx-get"})
    assert chosen.params["tool_choice"] == {"function": {"name": "wx-get"}}
    assert read("messages", **fields, tool_choice={"type": "any"}).params["tool_choice"] == "required"
    assert list_refused("messages", **fields, tool_choice={"type": "tool", "name": "get"}) == ["tool_choice.name"]


def test_a_choice_that_allows_some_tools_limits_the_servers() -> None:
    tools = [
        {"type": "mcp", "server_label": "wx"},
        {"type": "mcp", "server_label": "b"},
        {"type": "function", "name": "f"},
    ]
    allowed = {"type": "allowed_tools", "mode": "auto", "tools": [{"type": "mcp", "server_label": "wx", "name": "a"}]}
    asked = read("responses", tools=tools, tool_choice=allowed).server_tools
    assert asked is not None
    assert [(ask.server, ask.tools.names) for ask in asked.asks] == [("wx", ("a",))]
    chosen = {
        "type": "allowed_tools",
        "tools": [{"type": "function", "name": "wx-a"}, {"type": "function", "name": "f"}],
    }
    wrapped = [*tools[:2], {"type": "function", "function": {"name": "f"}}]
    request = read("completions", tools=wrapped, tool_choice=chosen)
    assert request.server_tools is not None
    assert [(ask.server, ask.tools.names) for ask in request.server_tools.asks] == [("wx", ("a",))]
    assert [tool.name for tool in request.tools] == ["f"]


def test_the_names_of_no_server_are_left() -> None:
    asks = [ServerAsk("wx", ToolFilter(("a", "b"))), ServerAsk("clock")]
    limited, left = limit_asks(asks, ["wx-a", "wx-c", "f"])
    assert [(ask.server, ask.tools.names) for ask in limited] == [("wx", ("a",))]
    assert left == ["f"]


def test_paths_of_names_and_of_functions_are_kept_for_later_errors() -> None:
    functions: list[Any] = [
        {"mcp": "wx", "tools": ["a", "b"]},
        {"type": "function", "function": {"name": "f"}},
        {"name": "g"},
    ]
    asked = read("chat", functions=functions).server_tools
    assert asked is not None
    assert asked.asks[0].name_paths == ("functions[0].tools[0]", "functions[0].tools[1]")
    assert asked.function_paths == ("functions[1].function", "functions[2]")
    asked = read(
        "responses", tools=[{"type": "function", "name": "f"}, {"type": "mcp", "server_label": "wx"}]
    ).server_tools
    assert asked is not None
    assert asked.function_paths == ("tools[0]",)


def test_max_tool_calls_bounds_the_calls_of_responses() -> None:
    asked = read("responses", tools=[{"type": "mcp", "server_label": "wx"}], max_tool_calls=3).server_tools
    assert asked is not None
    assert asked.max_calls == 3


def test_answers_to_waiting_calls_are_read() -> None:
    answers = [{"id": "c1", "approve": True}, {"id": "c2", "approve": False, "reason": "no"}]
    found = (
        ToolApproval("c1", True, path="tool_approvals[0].id"),
        ToolApproval("c2", False, "no", "tool_approvals[1].id"),
    )
    for face in ("chat", "completions"):
        assert read(face, tool_approvals=answers).server_tools == ServerTools((), found)
    items = [
        *QUESTION,
        {"type": "mcp_approval_request", "id": "mcpr_c1", "server_label": "wx", "name": "get", "arguments": "{}"},
        {"type": "mcp_approval_response", "approval_request_id": "mcpr_c1", "approve": True},
    ]
    answer = ToolApproval("c1", True, path="input[2].approval_request_id")
    assert read("responses", input=items).server_tools == ServerTools((), (answer,))


def test_a_call_that_waits_is_refused_without_an_answer() -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "wx-get", "arguments": "{}"}, "approval": "required"}
    entry = {"index": 0, "role": "assistant", "content": "", "tool_calls": [call]}
    messages: list[Json] = [*QUESTION, {"role": "assistant", "content": "", "server_messages": [entry]}]
    request = read("completions", messages=[*messages, *QUESTION])
    assert request.server_tools is None
    assert [message.role for message in request.messages] == ["user", "assistant", "tool", "user"]
    answered = [*messages, {"role": "tool", "tool_call_id": "c1", "content": "done"}, *QUESTION]
    assert read("completions", messages=answered).server_tools is None


@pytest.mark.parametrize(
    "item", [{"name": "f"}, {"type": "function", "function": {"name": "f"}}, {"mcp": 1, "name": "f"}, 5]
)
def test_a_function_is_not_taken_for_a_server(item: Any) -> None:
    assert not is_ask(item)


WAITING: dict[str, list[Json]] = {
    "qwen": [
        {"role": "user", "content": "x"},
        {
            "role": "assistant",
            "content": "",
            "function_call": {"name": "wx-get", "arguments": "{}"},
            "extra": {"function_id": "c1", "approval": "required"},
        },
    ],
    "autogen": [
        {"type": "TextMessage", "source": "user", "content": "x"},
        {
            "type": "ToolCallRequestEvent",
            "source": "assistant",
            "metadata": {"approval": '["c1"]'},
            "content": [{"id": "c1", "arguments": "{}", "name": "wx-get"}],
        },
    ],
    "agentscope": [
        {"name": "user", "role": "user", "content": "x"},
        {
            "name": "assistant",
            "role": "assistant",
            "content": [{"type": "tool_use", "id": "c1", "name": "wx-get", "input": {}}],
            "metadata": {"approval": ["c1"]},
        },
    ],
    "agentscope2": [
        {"name": "user", "role": "user", "content": [{"type": "text", "text": "x"}]},
        {
            "name": "assistant",
            "role": "assistant",
            "content": [{"type": "tool_call", "id": "c1", "name": "wx-get", "input": "{}", "state": "asking"}],
        },
    ],
}


@pytest.mark.parametrize("format_", WAITING)
def test_each_format_marks_the_calls_that_wait(format_: str) -> None:
    messages = WAITING[format_]
    request = read("chat", format=format_, messages=messages, functions=["wx"])
    [call] = [part for message in request.messages for part in message.parts if part.kind == "tool_call"]
    assert (call.id, call.awaits_approval) == ("c1", True)
    refused = read("chat", format=format_, messages=[*messages, messages[0]])
    assert [message.role for message in refused.messages] == ["user", "assistant", "tool", "user"]


def test_the_state_of_a_call_of_agentscope_2_approves_it() -> None:
    messages = json.loads(json.dumps(WAITING["agentscope2"]).replace("asking", "allowed"))
    asked = read("chat", format="agentscope2", messages=messages, functions=["wx"]).server_tools
    assert asked is not None
    assert asked.approvals == (ToolApproval("c1", True, path="messages[1].content[0].state"),)
