"""Functions, and the choice of them."""

from typing import Any

from app.chat.messages import Tool
from app.formats.gemini.tools import GeminiToolConfig, choose_tools, parse_tools

from tests.each_case import each_case

F, G = Tool("f", {"name": "f"}), Tool("g", {"name": "g"})


def test_functions_of_all_entries_are_offered() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "string"}}}
    found = parse_tools(
        [
            {"functionDeclarations": [{"name": "f", "description": "d", "parametersJsonSchema": schema}]},
            {
                "functionDeclarations": [
                    {"name": "g", "parameters": {"type": "OBJECT"}},
                    {"name": "h", "parameters": {}},
                ]
            },
        ]
    )
    assert [dict(tool.schema) for tool in found.tools] == [
        {"name": "f", "description": "d", "parameters": schema},
        {"name": "g", "parameters": {"type": "object"}},
        {"name": "h", "parameters": {"type": "object", "properties": {}}},
    ]
    assert found.paths[2] == "tools[1].functionDeclarations[1]"
    assert not found.violations and not found.warnings
    assert parse_tools(None).tools == ()


@each_case(
    ("tools", "paths"),
    [
        ("x", ["tools"]),
        (["x"], ["tools[0]"]),
        ([{"googleSearch": {}}, {"urlContext": {}}], ["tools[0].googleSearch", "tools[1].urlContext"]),
        ([{"functionDeclarations": "x"}], ["tools[0].functionDeclarations"]),
        (
            [{"functionDeclarations": [{"name": " "}, {}]}],
            ["tools[0].functionDeclarations[0].name", "tools[0].functionDeclarations[1].name"],
        ),
        ([{"functionDeclarations": [{"name": "f"}, {"name": "f"}]}], ["tools[0].functionDeclarations[1].name"]),
    ],
)
def test_other_tools_are_refused_at_their_place(tools: Any, paths: list[str]) -> None:
    assert [one.path for one in parse_tools(tools).violations] == paths


def test_unknown_fields_are_warnings() -> None:
    found = parse_tools([{"odd": 1, "functionDeclarations": [{"name": "f", "behavior": "BLOCKING", "new": 1}]}])
    assert [text.partition(" ")[0] for text in found.warnings] == [
        "tools[0].odd",
        "tools[0].functionDeclarations[0].new",
    ]


def choose(tools: tuple[Tool, ...] = (F, G), **calling: Any) -> Any:
    return choose_tools(GeminiToolConfig.model_validate({"functionCallingConfig": calling}), tools)


@each_case(
    ("calling", "choice", "names"),
    [
        ({}, "auto", "fg"),
        ({"mode": "auto"}, "auto", "fg"),
        ({"mode": "ANY"}, "required", "fg"),
        ({"mode": "NONE"}, "none", "fg"),
        ({"mode": "VALIDATED"}, "auto", "fg"),
        ({"mode": "ANY", "allowedFunctionNames": ["f"]}, {"type": "function", "function": {"name": "f"}}, "fg"),
        ({"mode": "VALIDATED", "allowedFunctionNames": ["g"]}, "auto", "g"),
        ({"mode": "ANY", "allowedFunctionNames": ["g", "f"]}, "required", "fg"),
    ],
)
def test_a_mode_is_a_choice(calling: Any, choice: Any, names: str) -> None:
    found = choose(**calling)
    assert found.choice == choice
    assert "".join(tool.name for tool in found.tools) == names
    assert not found.violations and not found.warnings


@each_case(
    ("tools", "calling", "path"),
    [
        ((F,), {"mode": "SOMETIMES"}, "mode"),
        ((), {"mode": "ANY"}, "mode"),
        ((F,), {"mode": "ANY", "allowedFunctionNames": ["f", "x"]}, "allowedFunctionNames[1]"),
    ],
)
def test_a_choice_that_cannot_be_is_refused(tools: tuple[Tool, ...], calling: Any, path: str) -> None:
    assert [one.path for one in choose(tools, **calling).violations] == [f"toolConfig.functionCallingConfig.{path}"]


def test_without_functions_there_is_nothing_to_choose() -> None:
    assert choose((), mode="NONE", allowedFunctionNames=["x"]).choice is None
    assert choose_tools(None, (F,)).choice is None
    assert choose_tools(GeminiToolConfig(), (F,)).choice is None


def test_names_in_another_mode_are_ignored_with_a_warning() -> None:
    found = choose(mode="AUTO", allowedFunctionNames=["f"])
    assert len(found.warnings) == 1
    assert len(found.tools) == 2
