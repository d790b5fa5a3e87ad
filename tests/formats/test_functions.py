"""Which functions a request may bring."""

import json
from typing import Any

import pytest
from app.chat.messages import CHAT_PATHS, CacheMark, Tool
from app.formats.functions import choose_tools, find_unknown_tool_keys, parse_tools

from tests.each_case import each_case
from tests.formats.recorded_functions import CASES, why_different


@pytest.mark.parametrize("case", CASES, ids=lambda case: json.dumps(case["input"]))
def test_a_function_is_taken_where_qwen_agent_knows_a_tool_or_looser(case: Any) -> None:
    tools, wrong = parse_tools("functions", [case["input"]])
    assert (len(tools) == 1) == (not wrong) == (case["result"] or bool(why_different(case)))


@pytest.mark.parametrize(
    ("tool", "path", "message"),
    [
        ({"function": {"name": "f"}}, "tools[0].type", "is required"),
        ({"type": None, "function": {"name": "f"}}, "tools[0].type", "is required"),
        ({"type": "custom", "function": {"name": "f"}}, "tools[0].type", "must be function"),
        ({"type": "web_search", "name": "f"}, "tools[0].type", "must be function, custom or mcp"),
        ({"type": "custom", "custom": None}, "tools[0].custom", "must be a custom object"),
        ({"type": "custom", "custom": {}}, "tools[0].custom.name", "is required"),
        ({"type": "custom"}, "tools[0].name", "is required"),
        ({"type": "function"}, "tools[0].function", "is required"),
        ({"type": "function", "function": None}, "tools[0].function", "must be a function object"),
        ({"type": "function", "function": {}}, "tools[0].function.name", "is required"),
        ({"description": "d"}, "tools[0].name", "is required"),
    ],
)
def test_what_a_tool_lacks_is_named_where_it_is_missing(tool: Any, path: str, message: str) -> None:
    tools, [wrong] = parse_tools("tools", [tool])
    assert (tools, wrong.path) == ((), path)
    assert wrong.message.startswith(message)


def test_a_tool_may_be_bare_or_wrapped() -> None:
    for tool in ({"name": "f"}, {"type": "function", "name": "f"}, {"type": "function", "function": {"name": "f"}}):
        [read], wrong = parse_tools("tools", [tool])
        assert (read.name, wrong) == ("f", [])


@each_case(
    ("tool", "path", "start"),
    [
        (1, "tools[0]", "must be a function object with a name"),
        ({"functionDeclarations": []}, "tools[0]", "has the form of Gemini's API"),
        ({"type": "function"}, "tools[0].function", "is required"),
        ({}, "tools[0].name", "is required"),
        ({"name": " "}, "tools[0].name", "must be a string that is not blank"),
        ({"name": "f", "description": 1}, "tools[0].description", "must be a string"),
        ({"name": "f", "cache_control": 1}, "tools[0].cache_control", "must be an object"),
        (
            {"name": "f", "parameters": "x"},
            "tools[0].parameters",
            "must be a JSON schema, which is an object",
        ),
        ({"name": "f", "parameters": 1}, "tools[0].parameters", "must be a JSON schema, which is an object"),
        ({"name": "f", "parameters": [{"name": "a"}, {}]}, "tools[0].parameters[1]", "must be a parameter object"),
        ({"type": "function", "function": 1}, "tools[0].function", "must be a function object with a name"),
    ],
)
def test_an_invalid_function_is_refused_at_its_place(tool: Any, path: str, start: str) -> None:
    functions, [violation] = parse_tools("tools", [tool])
    assert functions == ()
    assert violation.path == path
    assert violation.message.startswith(start)


def test_a_name_that_two_functions_have_is_refused() -> None:
    functions, [violation] = parse_tools("tools", [{"name": "f"}, {"name": "f"}])
    assert len(functions) == 1
    assert (violation.path, violation.message) == ("tools[1].name", "must be unique: there are two functions named 'f'")


MARK = {"type": "ephemeral"}


@each_case(
    ("tool", "path"),
    [
        ({"type": "function", "function": {"name": "f"}, "cache_control": MARK}, "tools[0].cache_control"),
        ({"type": "function", "function": {"name": "f", "cache_control": MARK}}, "tools[0].function.cache_control"),
        ({"name": "f", "cache_control": MARK}, "tools[0].cache_control"),
    ],
)
def test_a_cache_mark_is_read_inside_and_beside_the_function(tool: Any, path: str) -> None:
    [function], _ = parse_tools("tools", [tool])
    assert (function.schema, function.mark) == ({"name": "f"}, CacheMark(MARK, path))


def test_a_custom_tool_is_a_function_with_one_text() -> None:
    [tool], _ = parse_tools("tools", [{"type": "custom", "custom": {"name": "c", "description": "d"}}])
    assert (tool.name, tool.custom, tool.schema["name"]) == ("c", True, "c")


@each_case(
    ("tool", "warnings"),
    [
        ({"name": "f", "strict": True}, []),
        ({"name": "f", "odd": 1}, ["tools[0].odd is not a field of a function and was sent as it is"]),
        (
            {"type": "function", "function": {"name": "f", "odd": 1}, "own": 1},
            [
                "tools[0].own is not a field of a tool and was ignored",
                "tools[0].function.odd is not a field of a function and was sent as it is",
            ],
        ),
        (
            {"type": "custom", "custom": {"name": "c", "odd": 1}},
            ["tools[0].custom.odd is not a field of a custom tool and was ignored"],
        ),
    ],
)
def test_unknown_keys_give_warnings(tool: Any, warnings: list[str]) -> None:
    assert find_unknown_tool_keys("tools", [tool]) == warnings


def test_a_choice_leaves_only_the_allowed_functions() -> None:
    tools = (Tool("f", {"name": "f"}), Tool("g", {"name": "g"}))
    allowed = {
        "type": "allowed_tools",
        "mode": "required",
        "tools": [{"type": "function", "name": "g"}, {"type": "function", "name": "h"}],
    }
    params, left, _, [violation] = choose_tools({"tool_choice": allowed, "top_p": 1}, tools, (), CHAT_PATHS)
    assert params == {"tool_choice": "required", "top_p": 1}
    assert [tool.name for tool in left] == ["g"]
    assert violation.message == "names no function of this request: 'h'"
    assert choose_tools({"tool_choice": "auto"}, tools, (), CHAT_PATHS) == ({"tool_choice": "auto"}, tools, (), [])
