"""Tools of a request in Anthropic's form and in those of other APIs, and the choice of one."""

from typing import Any

from app.chat.messages import CacheMark, Tool
from app.formats.anthropic.tools import (
    AnthropicToolChoice,
    check_tool_choice,
    find_tools,
    parse_tools,
    read_choice_form,
)

from tests.each_case import each_case

Json = dict[str, Any]
SCHEMA: Json = {"type": "object", "properties": {"a": {"type": "string"}}}
NO_PARAMETERS: Json = {"type": "object", "properties": {}}


@each_case(
    ("given", "form"),
    [
        ({"type": "any"}, {"type": "any"}),
        ({"type": "tool", "name": "f"}, {"type": "tool", "name": "f"}),
        ("auto", {"type": "auto"}),
        ("required", {"type": "any"}),
        ({"type": "function", "function": {"name": "f"}}, {"type": "tool", "name": "f"}),
        ("f", {"type": "tool", "name": "f"}),
        (1, 1),
        ({"type": "odd"}, {"type": "odd"}),
    ],
)
def test_a_choice_of_other_apis_has_anthropics_form(given: Any, form: Any) -> None:
    assert read_choice_form(given) == form


@each_case(
    ("given", "schema"),
    [
        ({"name": "f", "input_schema": SCHEMA}, {"name": "f", "parameters": SCHEMA}),
        ({"name": "f", "inputSchema": SCHEMA}, {"name": "f", "parameters": SCHEMA}),
        (
            {"type": "function", "function": {"name": "f", "description": "d", "parameters": SCHEMA, "strict": True}},
            {"name": "f", "description": "d", "parameters": SCHEMA, "strict": True},
        ),
        ({"type": "function", "name": "f"}, {"name": "f", "parameters": NO_PARAMETERS}),
        ({"type": "custom", "name": "f", "input_schema": SCHEMA, "strict": False}, {"name": "f", "parameters": SCHEMA}),
    ],
)
def test_a_tool_of_any_api_is_a_function(given: Json, schema: Json) -> None:
    assert parse_tools([("tools[0]", given)]) == ((Tool("f", schema),), [], [])


def test_a_tool_can_have_a_cache_mark_and_unknown_keys_give_a_warning() -> None:
    given = {"name": "f", "input_schema": SCHEMA, "cache_control": {"type": "ephemeral"}, "odd": 1, "empty": []}
    [tool], _, warnings = parse_tools([("tools[0]", given)])
    assert tool.mark == CacheMark({"type": "ephemeral"}, "tools[0].cache_control")
    assert warnings == ["tools[0].odd is not a field of a tool and was ignored"]


TOOL: Json = {"name": "f", "input_schema": SCHEMA}


@each_case(
    ("given", "path", "start"),
    [
        ("f", "", "must be an object with a name and an input_schema"),
        ({"functionDeclarations": []}, "", "has the form of Gemini's API"),
        ({**TOOL, "type": 1}, ".type", "must be a string"),
        ({"type": "bash_20250124", "name": "bash"}, ".type", "bash_20250124 has a schema that only Anthropic's models"),
        ({"type": "function"}, "", "has no name, or not where OpenAI's tools have it"),
        ({"type": "function", "input_schema": SCHEMA}, ".name", "is required"),
        ({"type": "odd", "name": "f"}, ".type", "must be custom, or left out, not 'odd'"),
        ({"input_schema": SCHEMA}, ".name", "is required"),
        ({**TOOL, "name": " "}, ".name", "must be a string that is not blank"),
        ({"name": "f"}, ".input_schema", "is required"),
        ({"name": "f", "input_schema": []}, ".input_schema", "must be a JSON schema, which is an object"),
        ({**TOOL, "description": 1}, ".description", "must be a string"),
        ({**TOOL, "cache_control": "x"}, ".cache_control", "must be an object"),
    ],
)
def test_an_invalid_tool_is_refused_at_its_place(given: Any, path: str, start: str) -> None:
    tools, [violation], _ = parse_tools([("tools[0]", given)])
    assert tools == ()
    assert violation.path == f"tools[0]{path}"
    assert violation.message.startswith(start)


def test_a_name_that_two_tools_have_is_refused() -> None:
    tools, [violation], _ = parse_tools([("tools[0]", TOOL), ("tools[1]", TOOL)])
    assert len(tools) == 1
    assert (violation.path, violation.message) == ("tools[1].name", "must be unique: there are two tools named 'f'")


def change(type_: str, **tool: Any) -> Json:
    return {"role": "user", "content": [{"type": "text", "text": "t"}, {"type": type_, "tool": tool}]}


REMOVED, REFERRED = change("tool_removal", name="f"), change("tool_addition", name="f")
NEW = {**TOOL, "description": "new"}
DEFINED = change("tool_addition", type="tool_definition", definition=NEW)


@each_case(
    ("messages", "tools"),
    [
        ("no list", [("tools[0]", TOOL)]),
        ([{"role": "user", "content": "t"}, "odd"], [("tools[0]", TOOL)]),
        ([REMOVED], []),
        ([REMOVED, REFERRED], [("tools[0]", TOOL)]),
        ([DEFINED], [("messages[0].content[1].tool.definition", NEW)]),
        ([DEFINED, REMOVED], []),
        ([REMOVED, DEFINED], [("messages[1].content[1].tool.definition", NEW)]),
        ([change("tool_removal", name="g")], [("tools[0]", TOOL)]),
    ],
)
def test_messages_define_and_withdraw_tools(messages: Any, tools: list[tuple[str, Json]]) -> None:
    assert find_tools({"tools": [TOOL], "messages": messages}, "tools") == tools


@each_case(
    ("choice", "tools", "found"),
    [
        (None, (), []),
        ({"type": "auto"}, (), []),
        ({"type": "none"}, (), []),
        ({"type": "any"}, (Tool("f", {}),), []),
        ({"type": "any"}, (), [("tool_choice", "needs tools to choose from, but the request has none")]),
        ({"type": "tool"}, (Tool("f", {}),), [("tool_choice.name", "is required")]),
        ({"type": "tool", "name": "f"}, (Tool("f", {}),), []),
        (
            {"type": "tool", "name": "g"},
            (Tool("f", {}), Tool("e", {})),
            [("tool_choice.name", "must be one of the tools (e, f), not 'g'")],
        ),
    ],
)
def test_a_choice_names_one_of_the_tools(
    choice: Json | None, tools: tuple[Tool, ...], found: list[tuple[str, str]]
) -> None:
    parsed = None if choice is None else AnthropicToolChoice.model_validate(choice)
    assert [(one.path, one.message) for one in check_tool_choice(parsed, tools, ())] == found


def offer(tools: list[Json], *messages: Json, **fields: Any) -> list[str]:
    body = {"tools": tools, "messages": [{"role": "user", "content": "Hi"}, *messages], **fields}
    return [tool.name for tool in parse_tools(find_tools(body, "tools"))[0]]


def found(*names: str) -> Json:
    references = [{"type": "tool_reference", "tool_name": name} for name in names]
    return {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t", "content": references}]}


SEARCHED = {
    "role": "assistant",
    "content": [
        {
            "type": "tool_search_tool_result",
            "content": {"tool_references": [{"type": "tool_reference", "tool_name": "b"}]},
        }
    ],
}
ADDED = {"role": "user", "content": [{"type": "tool_addition", "tool": {"name": "b"}}]}
LATER = [{**TOOL, "name": name, "defer_loading": True} for name in "abc"]
SEARCH = {"type": "tool_search_tool_regex_20251119", "name": "s"}


@each_case(
    ("tools", "messages", "expected"),
    [
        ([TOOL, *LATER], [], ["f"]),
        ([LATER[0], TOOL], [found("b")], ["f"]),
        ([*LATER, TOOL], [found("c"), found("a", "c")], ["f", "c", "a"]),
        ([*LATER, TOOL], [SEARCHED], ["f", "b"]),
        ([*LATER, TOOL], [ADDED], ["f", "b"]),
        (LATER, [], ["a", "b", "c"]),
        ([*LATER, {"type": "advisor_20260301", "name": "advisor"}], [], ["a", "b", "c"]),
        ([TOOL, *LATER, SEARCH], [], ["f", "a", "b", "c"]),
    ],
)
def test_a_deferred_tool_is_offered_behind_the_others_once_it_was_found(
    tools: list[Json], messages: list[Json], expected: list[str]
) -> None:
    assert offer(tools, *messages) == expected


def test_a_deferred_tool_that_is_chosen_is_offered() -> None:
    assert offer([TOOL, *LATER], tool_choice={"type": "tool", "name": "b"}) == ["f", "b"]


HOSTED = ("advisor_20260301", "web_search_20250305", "web_fetch_20250910", "code_execution_20250825", "memory_20250818")


@each_case("kind", HOSTED)
def test_a_tool_of_anthropics_servers_is_left_out_with_a_warning(kind: str) -> None:
    tools, violations, warnings = parse_tools([("tools[0]", TOOL), ("tools[1]", {"type": kind, "name": "x"})])
    assert ([tool.name for tool in tools], violations) == (["f"], [])
    assert warnings == [f"tools[1] was not offered: {kind} is run by Anthropic's servers"]


def test_a_request_for_nothing_but_a_search_is_refused() -> None:
    _, [violation], _ = parse_tools([("tools[0]", {"type": "web_search_20250305", "name": "w"})])
    assert violation.path == "tools[0].type"
    assert parse_tools([("tools[0]", {"type": "advisor_20260301", "name": "advisor"})])[1] == []
