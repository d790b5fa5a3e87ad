"""Which functions the tools of a Responses request become, and which tools and choices are refused at which place."""

from typing import Any

import pytest
from app.formats.responses.tools import (
    OfferedTools,
    ToolChoice,
    ToolSource,
    join_name,
    parse_tool_choice,
    read_object,
)
from app.formats.responses.tools import parse_tools as parse_sources

from tests.each_case import each_case

Json = dict[str, Any]
FUNCTION: Json = {"type": "function", "name": "f", "parameters": {"type": "object"}}
CUSTOM: Json = {"type": "custom", "name": "patch"}
NAMESPACE: Json = {"type": "namespace", "name": "crm", "tools": [FUNCTION | {"name": "find"}]}


def parse_tools(tools: list[Any]) -> OfferedTools:
    return parse_sources([ToolSource("tools", tools)])


TOOLS = parse_tools([FUNCTION, CUSTOM, NAMESPACE])


def names(tools: OfferedTools) -> list[str]:
    return [tool.name for tool in tools.tools]


def refused(found: OfferedTools | ToolChoice) -> list[str]:
    return [violation.path for violation in found.violations]


def test_functions_custom_tools_and_those_of_a_namespace_are_functions() -> None:
    assert names(TOOLS) == ["f", "patch", "crm__find"]
    assert TOOLS.custom == {"patch"}
    assert TOOLS.namespaces == {"crm__find": ("crm", "find")}
    assert not refused(TOOLS) and not TOOLS.warnings


def test_a_function_without_parameters_takes_none() -> None:
    [tool] = parse_tools([{"type": "function", "name": "f"}]).tools
    assert tool.schema == {"name": "f", "parameters": {"type": "object", "properties": {}}}


def test_the_schema_of_a_tool_of_mcp_is_its_parameters() -> None:
    schema = {"type": "object", "properties": {"q": {"type": "string"}}}
    member = {"type": "function", "name": "find", "inputSchema": schema}
    (tool,) = parse_tools([{**NAMESPACE, "tools": [member]}]).tools
    assert tool.schema["parameters"] == schema


def test_the_grammar_of_a_custom_tool_is_described_to_the_model() -> None:
    grammar = {"type": "grammar", "syntax": "lark", "definition": "start: 'x'"}
    [tool] = parse_tools([CUSTOM | {"description": "Edits.", "format": grammar}]).tools
    assert tool.schema["description"] == "Edits.\n\nThe input must match this lark grammar:\nstart: 'x'"
    assert tool.schema["parameters"]["required"] == ["input"]


@each_case("members", [{}, {"tools": None}, {"tools": []}])
def test_a_namespace_without_tools_offers_none(members: Any) -> None:
    tools = parse_tools([{"type": "namespace", "name": "multi_agent_v1"} | members, FUNCTION])
    assert names(tools) == ["f"]
    assert not refused(tools)


@each_case(
    ("tool", "path", "message"),
    [
        ("f", "tools[0]", "must be a tool object with a type"),
        ({"name": "f"}, "tools[0].type", "is required"),
        ({"functionDeclarations": [{"name": "f"}]}, "tools[0]", "has the form of Gemini's API"),
        ({"function_declarations": [{"name": "f"}]}, "tools[0]", "has the form of Gemini's API"),
        ({"type": "shell"}, "tools[0].type", "is not supported here"),
        ({"type": "function"}, "tools[0].name", "is required"),
        (FUNCTION | {"name": " "}, "tools[0].name", "must be a string that is not blank"),
        (FUNCTION | {"name": 5}, "tools[0].name", "must be a string that is not blank"),
        (FUNCTION | {"description": 5}, "tools[0].description", "must be a string"),
        (FUNCTION | {"parameters": []}, "tools[0].parameters", "must be a JSON schema"),
        ({"type": "custom"}, "tools[0].name", "is required"),
        ({"type": "namespace", "tools": []}, "tools[0].name", "is required"),
        (NAMESPACE | {"tools": {}}, "tools[0].tools", "must be a list of tools"),
        (NAMESPACE | {"tools": [NAMESPACE]}, "tools[0].tools[0].type", "is not supported here"),
    ],
)
def test_a_tool_is_refused_at_its_place(tool: Any, path: str, message: str) -> None:
    tools = parse_tools([tool])
    assert refused(tools) == [path]
    assert tools.violations[0].message.startswith(message)
    assert not tools.tools


def test_a_name_that_two_tools_have_is_refused_also_across_namespaces() -> None:
    tools = parse_tools([FUNCTION, NAMESPACE, FUNCTION | {"name": "crm__find"}, FUNCTION])
    assert [str(violation.message) for violation in tools.violations] == [
        "must be unique: there are two tools named 'crm__find'",
        "must be unique: there are two tools named 'f'",
    ]
    assert refused(tools) == ["tools[2].name", "tools[3].name"]


def test_a_namespace_may_have_the_name_of_a_function() -> None:
    tools = parse_tools([FUNCTION | {"name": "crm"}, NAMESPACE, NAMESPACE | {"tools": [CUSTOM]}])
    assert names(tools) == ["crm", "crm__find", "crm__patch"]
    assert not refused(tools)


def test_tools_of_several_places_are_offered_once_each_as_they_were_named_last() -> None:
    newer = FUNCTION | {"description": "Newer."}
    places = [
        ToolSource("tools", [FUNCTION, NAMESPACE]),
        ToolSource("input[0].tools", [NAMESPACE, CUSTOM]),
        ToolSource("input[2].tools", [newer, CUSTOM | {"name": "f"} | {"name": "g"}]),
    ]
    tools = parse_sources(places)
    assert names(tools) == ["f", "crm__find", "patch", "g"]
    assert tools.tools[0].schema["description"] == "Newer."
    assert not refused(tools)


def test_tools_of_an_earlier_request_replace_none_of_this_one_but_each_other() -> None:
    def describe(text: str) -> list[Json]:
        return [FUNCTION | {"description": text}]

    stored = [ToolSource("stored", describe(text), stored=True) for text in ("One.", "Two.")]
    ours = ToolSource("tools", describe("Ours."))
    for places, description in ((stored, "Two."), ([ours, *stored], "Ours."), ([*stored, ours], "Ours.")):
        tools = parse_sources(places)
        assert [tool.schema["description"] for tool in tools.tools] == [description]
        assert not refused(tools)


def test_what_a_later_place_makes_a_function_of_is_no_custom_tool_any_more() -> None:
    tools = parse_sources([ToolSource("tools", [CUSTOM]), ToolSource("input[0].tools", [FUNCTION | {"name": "patch"}])])
    assert (names(tools), tools.custom) == (["patch"], frozenset())


def test_a_name_that_a_place_has_twice_is_refused_there() -> None:
    tools = parse_sources([ToolSource("tools", [FUNCTION]), ToolSource("input[0].tools", [FUNCTION, FUNCTION])])
    assert refused(tools) == ["input[0].tools[1].name"]


SEARCH: Json = {
    "type": "tool_search",
    "execution": "client",
    "description": "Finds tools.",
    "parameters": {"type": "object", "properties": {"query": {"type": "string"}}},
}


def test_a_search_that_the_client_runs_is_a_function() -> None:
    tools = parse_tools([SEARCH, FUNCTION])
    assert tools.tools[0].schema == {
        "name": "tool_search",
        "description": "Finds tools.",
        "parameters": SEARCH["parameters"],
    }
    assert tools.client_search and not tools.warnings
    [tool] = parse_tools([{"type": "tool_search", "execution": "client"}]).tools
    assert tool.schema["parameters"] == {"type": "object", "properties": {}}


def test_a_search_that_openai_runs_is_left_out() -> None:
    for tool in ({"type": "tool_search"}, {"type": "tool_search", "execution": "server"}):
        tools = parse_tools([tool])
        assert (names(tools), tools.client_search, len(tools.warnings)) == ([], False, 1)


@each_case(
    ("tool", "path"),
    [
        (FUNCTION | {"name": "tool_search"}, "tools[1].name"),
        (SEARCH, "tools[1].name"),
        (SEARCH | {"parameters": 5}, "tools[0].parameters"),
        (SEARCH | {"description": 5}, "tools[0].description"),
    ],
)
def test_a_search_is_refused_like_any_function(tool: Json, path: str) -> None:
    tools = parse_tools([SEARCH, tool] if path.startswith("tools[1]") else [tool])
    assert refused(tools) == [path]


def test_a_search_can_be_chosen() -> None:
    tools = parse_tools([SEARCH, FUNCTION])
    chosen = {"type": "function", "function": {"name": "tool_search"}}
    assert parse_tool_choice({"type": "tool_search"}, tools) == ToolChoice(chosen)
    assert refused(parse_tool_choice({"type": "tool_search"}, TOOLS)) == ["tool_choice"]
    allowed = {"type": "allowed_tools", "tools": [{"type": "tool_search"}]}
    assert parse_tool_choice(allowed, tools).allowed == frozenset({"tool_search"})


def test_tools_that_were_found_are_left_out_rather_than_refused() -> None:
    found = [{"type": "mcp", "server_label": "x"}, {"type": "web_search"}, FUNCTION]
    tools = parse_sources([ToolSource("input[3].tools", found, found=True)])
    assert (names(tools), refused(tools)) == (["f"], [])
    assert [warning.partition(":")[0] for warning in tools.warnings] == ["input[3].tools[0]", "input[3].tools[1]"]


def test_a_namespace_can_be_allowed_as_a_whole() -> None:
    tools = parse_tools([FUNCTION, NAMESPACE | {"tools": [FUNCTION | {"name": "find"}, CUSTOM]}])
    allowed = {"type": "allowed_tools", "tools": [{"type": "namespace", "name": "crm"}]}
    assert parse_tool_choice(allowed, tools).allowed == frozenset({"crm__find", "crm__patch"})


@each_case(
    ("namespace", "name"),
    [("n" * 40, "t" * 40), ("n" * 200, "t"), ("n", "t" * 200), ("n" * 62, "t"), ("n" * 1000, "t" * 1000)],
)
def test_a_joined_name_has_at_most_64_characters(namespace: str, name: str) -> None:
    joined = join_name(namespace, name)
    assert len(joined) <= 64
    assert joined == join_name(namespace, name) != join_name(namespace + "n", name) != join_name(namespace, name + "t")
    tools = parse_tools([{"type": "namespace", "name": namespace, "tools": [FUNCTION | {"name": name}]}])
    assert tools.namespaces == {joined: (namespace, name)}


def test_a_name_that_is_short_enough_or_not_joined_stays() -> None:
    assert join_name("n" * 31, "t" * 31) == "n" * 31 + "__" + "t" * 31
    assert join_name(None, "t" * 100) == join_name("", "t" * 100) == "t" * 100


def test_a_long_name_ends_with_that_of_the_tool() -> None:
    assert join_name("mcp__" + "n" * 60, "create_event").endswith("__create_event")


def test_a_tool_that_clients_send_with_every_request_is_left_out_with_a_warning() -> None:
    tools = parse_tools([{"type": "web_search_preview"}, FUNCTION])
    assert names(tools) == ["f"]
    assert tools.warnings == ["tools[0]: web_search_preview runs on OpenAI's servers and was not offered to the model"]


@each_case(
    ("choice", "value"),
    [
        (None, None),
        ("auto", "auto"),
        ("required", "required"),
        ({"type": "function", "name": "f"}, {"type": "function", "function": {"name": "f"}}),
        ("f", {"type": "function", "function": {"name": "f"}}),
        ("crm__find", {"type": "function", "function": {"name": "crm__find"}}),
        ({"type": "custom", "name": "patch"}, {"type": "function", "function": {"name": "patch"}}),
        (
            {"type": "function", "namespace": "crm", "name": "find"},
            {"type": "function", "function": {"name": "crm__find"}},
        ),
        ({"type": "function", "name": "find"}, {"type": "function", "function": {"name": "crm__find"}}),
    ],
)
def test_a_choice_becomes_the_one_of_chat_completions(choice: Any, value: Any) -> None:
    assert parse_tool_choice(choice, TOOLS) == ToolChoice(value)


@pytest.mark.parametrize("choice", ["auto", "none"])
def test_without_tools_there_is_nothing_to_choose(choice: str) -> None:
    assert parse_tool_choice(choice, OfferedTools()) == ToolChoice()


def test_only_the_allowed_tools_are_offered() -> None:
    allowed = [{"type": "function", "name": "f"}, {"type": "web_search"}, {"type": "function", "name": "find"}]
    choice = parse_tool_choice({"type": "allowed_tools", "mode": "required", "tools": allowed}, TOOLS)
    assert choice == ToolChoice("required", frozenset({"f", "crm__find"}))


@each_case(
    ("choice", "path"),
    [
        ("always", "tool_choice"),
        (["f"], "tool_choice"),
        ({"type": "mcp"}, "tool_choice.type"),
        ({"type": "function", "name": "g"}, "tool_choice.name"),
        ({"type": "function"}, "tool_choice.name"),
        ({"type": "allowed_tools"}, "tool_choice.tools"),
        ({"type": "allowed_tools", "mode": "none", "tools": []}, "tool_choice.mode"),
        ({"type": "allowed_tools", "tools": []}, "tool_choice.tools"),
        ({"type": "allowed_tools", "tools": [{"type": "web_search"}]}, "tool_choice.tools"),
        (
            {"type": "allowed_tools", "tools": [FUNCTION, {"type": "function", "name": "g"}]},
            "tool_choice.tools[1].name",
        ),
        ({"type": "allowed_tools", "tools": ["f"]}, "tool_choice.tools[0].name"),
    ],
)
def test_a_choice_that_cannot_be_made_is_refused_at_its_place(choice: Any, path: str) -> None:
    assert refused(parse_tool_choice(choice, TOOLS)) == [path]


def test_a_call_cannot_be_required_without_a_tool() -> None:
    assert refused(parse_tool_choice("required", OfferedTools())) == ["tool_choice"]


@each_case(
    ("arguments", "read"),
    [
        ('{"query": "mail"}', {"query": "mail"}),
        ("{}", {}),
        ("[1]", "[1]"),
        ("", ""),
        ('{"query": ', '{"query": '),
        ('{"a": "\ud800"}', '{"a": "\ud800"}'),
        ('{"a":' * 5000, '{"a":' * 5000),
    ],
)
def test_arguments_are_an_object_or_stay_as_they_are(arguments: str, read: Any) -> None:
    assert read_object(arguments) == read
