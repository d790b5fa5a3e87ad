"""The body of a request to a server of the Gemini API."""

from typing import Any

import pytest
from app.chat.messages import Tool
from app.errors import InvalidInput

from tests.each_case import each_case
from tests.upstream.gemini.requests import Json, list_options, send

TOOL = Tool("f", {"name": "f", "parameters": {"type": "object", "properties": {"a": {"type": "string"}}}})


def test_tools_are_one_entry_and_a_function_without_properties_has_no_schema() -> None:
    plain = Tool("g", {"name": "g", "description": "G", "parameters": {"type": "object", "properties": {}}})
    reference = Tool("h", {"name": "h", "parameters": {"$id": "x", "$schema": "y", "type": "object", "$ref": "#/a"}})
    body, _ = send(tools=(TOOL, plain, reference))
    [entry] = body["tools"]
    assert entry["functionDeclarations"] == [
        {"name": "f", "parametersJsonSchema": TOOL.schema["parameters"]},
        {"name": "g", "description": "G"},
        {"name": "h", "parametersJsonSchema": {"type": "object", "$ref": "#/a", "properties": {}}},
    ]
    [old] = send(tools=(TOOL,), change={"tool_schema": "openapi"})[0]["tools"]
    assert old["functionDeclarations"][0]["parameters"] == {
        "type": "OBJECT",
        "properties": {"a": {"type": "STRING"}},
    }


@each_case(
    ("choice", "config"),
    [
        ("auto", None),
        ("none", {"mode": "NONE"}),
        ("required", {"mode": "ANY"}),
        ("f", {"mode": "ANY", "allowedFunctionNames": ["f"]}),
        ({"type": "function", "function": {"name": "f"}}, {"mode": "ANY", "allowedFunctionNames": ["f"]}),
    ],
)
def test_a_choice_of_functions_has_a_mode(choice: Any, config: Json | None) -> None:
    body, _ = send(tools=(TOOL,), params={"tool_choice": choice})
    assert body.get("toolConfig", {}).get("functionCallingConfig") == config


@each_case("choice", ["other", {"type": "function"}])
def test_a_choice_of_an_unknown_function_is_refused(choice: Any) -> None:
    with pytest.raises(InvalidInput, match="one of the functions"):
        send(tools=(TOOL,), params={"tool_choice": choice})


def test_a_choice_needs_functions() -> None:
    with pytest.raises(InvalidInput, match="needs functions"):
        send(params={"tool_choice": "required"})
    assert "toolConfig" not in send(params={"tool_choice": "none"})[0]


def test_choices_that_the_profile_does_not_have() -> None:
    params = {"tool_choice": "required"}
    assert "toolConfig" not in send(tools=(TOOL,), params=params, change={"tool_choice_required": None})[0]
    assert "tools" not in send(tools=(TOOL,), params={"tool_choice": "none"}, change={"tool_choice_none": False})[0]


def test_options_have_the_names_of_the_api_and_its_order() -> None:
    params = {"top_k": 3, "temperature": 0, "seed": 1, "max_tokens": 9, "stop": "x", "presence_penalty": 0.5}
    options = list_options(**params, top_p=0.5, frequency_penalty=0.25)
    assert list(options.items())[:-1] == [
        ("temperature", 0),
        ("topP", 0.5),
        ("topK", 3),
        ("maxOutputTokens", 9),
        ("stopSequences", ["x"]),
        ("seed", 1),
        ("presencePenalty", 0.5),
        ("frequencyPenalty", 0.25),
    ]


def test_other_options_are_told_as_not_sent() -> None:
    body, warnings = send(
        tools=(TOOL,), params={"parallel_tool_calls": False, "min_p": 0.5, "n": 1, "logit_bias": None}
    )
    assert list(body["generationConfig"]) == ["thinkingConfig"] and len(warnings) == 2


def test_what_the_server_lacks_is_not_sent() -> None:
    change = {"lacks": ("temperature", "stop")}
    assert list_options(temperature=1, stop=["a"], change=change).keys() == {"thinkingConfig"}


@each_case(
    ("given", "change", "sent"),
    [(9, {"max_output_tokens": 5}, 5), (2, {"min_output_tokens": 4}, 4), (5, {"max_output_tokens": 5}, 5)],
)
def test_a_limit_of_tokens_is_within_what_the_model_takes(given: int, change: Json, sent: int) -> None:
    body, warnings = send(params={"max_tokens": given}, change=change)
    assert body["generationConfig"]["maxOutputTokens"] == sent
    assert len(warnings) == (given != sent)


def test_a_format_of_the_answer_is_a_type_and_a_schema() -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}}
    wanted = {"type": "json_schema", "json_schema": {"name": "x", "schema": schema}}
    options = list_options(response_format=wanted)
    assert (options["responseMimeType"], options["responseJsonSchema"]) == ("application/json", schema)
    old = list_options(response_format=wanted, change={"tool_schema": "openapi"})
    assert old["responseSchema"] == {"type": "OBJECT", "properties": {"n": {"type": "INTEGER"}}}
    assert "responseMimeType" not in list_options(response_format={"type": "text"})


def test_a_named_function_is_the_only_one_where_names_cannot_be_chosen() -> None:
    other = Tool("g", {"name": "g"})
    body, _ = send(tools=(TOOL, other), params={"tool_choice": "f"}, change={"named_tool_choice": False})
    assert [one["name"] for one in body["tools"][0]["functionDeclarations"]] == ["f"]
    assert body["toolConfig"] == {"functionCallingConfig": {"mode": "ANY"}}


def test_thinking_is_off_beside_a_format_if_the_profile_says_so() -> None:
    change = {"formats_while_thinking": "thinking_off", "thinking_switch": "gemini_budget"}
    body, warnings = send(params={"response_format": {"type": "json_object"}}, change=change)
    assert body["generationConfig"]["thinkingConfig"] == {"thinkingBudget": 0} and len(warnings) == 1
    assert send(change=change)[0]["generationConfig"]["thinkingConfig"] == {"includeThoughts": True}


def test_fields_of_the_caller_are_merged() -> None:
    extra = {
        "safetySettings": [1],
        "generationConfig": {"seed": 3},
        "tools": [{"googleSearch": {}}],
        "metadata": {"a": 1},
        "store": False,
        "labels": {"a": "b"},
    }
    body, warnings = send(tools=(TOOL,), params={"extra_body": extra, "temperature": 1})
    assert body["safetySettings"] == [1] and body["labels"] == {"a": "b"}
    assert body["generationConfig"]["seed"] == 3 and body["generationConfig"]["temperature"] == 1
    assert [list(tool) for tool in body["tools"]] == [["functionDeclarations"], ["googleSearch"]]
    assert "metadata" not in body and len(warnings) == 1


@each_case(("name", "change"), [("contents", {}), ("model", {}), ("labels", {"extra_fields": ("store",)})])
def test_fields_of_the_gateway_cannot_be_replaced(name: str, change: Json) -> None:
    with pytest.raises(InvalidInput):
        send(params={"extra_body": {name: 1}}, change=change)
