"""What the bodies of `POST /v1/messages` and of its token count become, and what is refused at which place."""

import json
from typing import Any

from app.errors import InvalidInput, ParleyError, Unsupported
from app.formats.anthropic.body import parse_count_tokens_body, parse_messages_body
from app.formats.body import ParsedRequest, RejectedRequest
from app.formats.request_limits import RequestLimits
from app.params import PREFERRED_EFFORT

from tests.each_case import each_case

Json = dict[str, Any]
LIMITS = RequestLimits(max_messages=5, max_content_items=20, max_functions=3, max_nesting=9)
QUESTION: Json = {"role": "user", "content": "Hi"}
TOOL: Json = {"name": "f", "input_schema": {"type": "object"}}
CALL: Json = {"role": "assistant", "content": [{"type": "tool_use", "id": "c", "name": "f", "input": {}}]}


def parse(body: Json) -> ParsedRequest | RejectedRequest:
    return parse_messages_body(
        json.dumps({"model": "m", "max_tokens": 9, "messages": [QUESTION], **body}).encode(), LIMITS
    )


def accept(body: Json) -> ParsedRequest:
    parsed = parse(body)
    assert isinstance(parsed, ParsedRequest)
    return parsed


def reject(body: Json) -> ParleyError:
    """Return why a server of another API cannot be sent a body."""
    rejected = parse(body)
    if isinstance(rejected, ParsedRequest):
        assert rejected.request.source is not None
        return InvalidInput(rejected.request.source.violations)
    assert isinstance(rejected, RejectedRequest)
    return rejected.error


def refuse(body: Json) -> list[str]:
    error = reject(body)
    assert isinstance(error, InvalidInput)
    return [violation.path for violation in error.violations]


def names(body: Json) -> list[str]:
    return [tool.name for tool in accept(body).request.tools]


def change(kind: str, **tool: Any) -> Json:
    return {"role": "user", "content": [{"type": "text", "text": "Hi"}, {"type": kind, "tool": tool}]}


@each_case(
    ("body", "params"),
    [
        ({"stop_sequences": ["x"]}, {"stop": ["x"]}),
        ({"stop_sequences": "x"}, {"stop": ["x"]}),
        ({"thinking": {"type": "enabled", "budget_tokens": 5}}, {"enable_thinking": True, "thinking_budget": 5}),
        ({"thinking": {"type": "enabled"}}, {"enable_thinking": True}),
        ({"thinking": {"type": "disabled"}}, {"enable_thinking": False}),
        ({"thinking": {"type": "adaptive"}}, {}),
        ({"output_config": {"effort": "low"}}, {PREFERRED_EFFORT: "low"}),
        ({"temperature": 1, "top_k": 5}, {"temperature": 1, "top_k": 5}),
        ({"chat_template_kwargs": {"a": 1}}, {"extra_body": {"chat_template_kwargs": {"a": 1}}}),
        ({"tools": [TOOL], "tool_choice": {"type": "any"}}, {"tool_choice": "required"}),
        ({"tools": [TOOL], "tool_choice": {"type": "tool", "name": "f"}}, {"tool_choice": {"function": {"name": "f"}}}),
        ({"tools": [TOOL], "tool_choice": "f"}, {"tool_choice": {"function": {"name": "f"}}}),
        ({"tools": [TOOL], "tool_choice": "required"}, {"tool_choice": "required"}),
        (
            {"tools": [TOOL], "tool_choice": {"type": "function", "function": {"name": "f"}}},
            {"tool_choice": {"function": {"name": "f"}}},
        ),
        (
            {"tools": [TOOL], "tool_choice": {"type": "auto", "disable_parallel_tool_use": True}},
            {"tool_choice": "auto", "parallel_tool_calls": False},
        ),
    ],
)
def test_fields_become_parameters(body: Json, params: Json) -> None:
    assert accept(body).request.params == {"max_tokens": 9, **params}


def test_a_schema_of_the_output_is_a_response_format() -> None:
    output = {"type": "json_schema", "schema": {"type": "object"}}
    for body in ({"output_config": {"format": output}}, {"output_format": output}):
        found = accept(body).request.params["response_format"]
        assert found["json_schema"]["schema"] == {"type": "object"}


@each_case(
    ("body", "places"),
    [
        ({"container": "c"}, ["container"]),
        ({"mcp_servers": [{}]}, ["mcp_servers[0].name"]),
        ({"mcp_servers": {}}, ["mcp_servers"]),
        ({"generate_cfg": {}}, ["generate_cfg"]),
        ({"chat_template_kwargs": 5}, ["chat_template_kwargs"]),
        ({"temperature": "hot"}, ["temperature"]),
        ({"temprature": 1}, ["temprature"]),
        ({"messages": [QUESTION] * 6}, ["messages"]),
        ({"messages": 5, "max_tokens": 0}, ["messages", "max_tokens"]),
        ({"max_tokens": None, "max_output_tokens": 0}, ["max_output_tokens"]),
        ({"tool_choice": {"type": "any"}}, ["tool_choice"]),
        ({"functions": [5]}, ["functions[0]"]),
        ({"functions": [TOOL] * 4}, ["functions"]),
        ({"instructions": [5]}, ["instructions[0]"]),
        ({"stop": [5]}, ["stop[0]"]),
        ({"tools": [TOOL], "tool_choice": {"type": "tool"}}, ["tool_choice.name"]),
        ({"tools": [TOOL], "tool_choice": {"type": "tool", "name": "g"}}, ["tool_choice.name"]),
        ({"tools": [TOOL], "messages": [QUESTION, CALL], "top_p": 5}, ["top_p"]),
        ({"system": [{"type": "image", "text": ""}]}, ["system[0].type"]),
        ({"tools": [5]}, ["tools[0]"]),
        ({"tools": [{"functionDeclarations": []}]}, ["tools[0]"]),
        ({"tools": [{"type": 5}]}, ["tools[0].type"]),
        ({"tools": [{"type": "function"}]}, ["tools[0]"]),
        ({"tools": [{"type": "bash_20250124", "name": "bash"}]}, ["tools[0].type"]),
        ({"tools": [{"type": "shell", "name": "bash"}]}, ["tools[0].type"]),
        ({"tools": [{"input_schema": {}}]}, ["tools[0].name"]),
        ({"tools": [TOOL, TOOL]}, ["tools[1].name"]),
        ({"tools": [{"name": "f", "type": "custom"}]}, ["tools[0].input_schema"]),
        ({"tools": [TOOL | {"input_schema": []}]}, ["tools[0].input_schema"]),
        ({"tools": [TOOL | {"description": 5}]}, ["tools[0].description"]),
        ({"tools": [TOOL | {"cache_control": 5}]}, ["tools[0].cache_control"]),
        ({"messages": [QUESTION, change("tool_addition", type="tool_definition", definition=5)]}, None),
    ],
)
def test_what_cannot_be_done_is_refused_at_its_place(body: Json, places: list[str] | None) -> None:
    assert refuse(body) == (["messages[1].content[1].tool.definition"] if places is None else places)


def test_a_thread_is_not_supported() -> None:
    assert isinstance(reject({"thread": {}}), Unsupported)


def test_tools_have_the_forms_of_other_apis_too() -> None:
    [tool] = accept({"tools": [{"type": "function", "function": {"name": "f", "description": "d"}}]}).request.tools
    assert tool.schema == {"name": "f", "description": "d", "parameters": {"type": "object", "properties": {}}}
    marked = TOOL | {"type": "custom", "strict": True, "cache_control": {"type": "ephemeral"}, "other": 1}
    parsed = accept({"tools": [marked]})
    [tool] = parsed.request.tools
    assert tool.schema == {"name": "f", "parameters": {"type": "object"}, "strict": True}
    assert tool.mark is not None and tool.mark.path == "tools[0].cache_control"
    assert [text.partition(" ")[0] for text in parsed.warnings] == ["tools[0].other"]


def test_messages_add_and_withdraw_tools() -> None:
    removed = change("tool_removal", name="f")
    assert names({"tools": [TOOL, TOOL | {"name": "g"}], "messages": [removed]}) == ["g"]
    assert names({"tools": [TOOL], "messages": [removed, change("tool_addition", name="f")]}) == ["f"]
    defined = change("tool_addition", type="tool_definition", definition=TOOL | {"description": "new"})
    [tool] = accept({"tools": [TOOL], "messages": [removed, defined]}).request.tools
    assert tool.schema["description"] == "new"


@each_case(
    ("body", "places"),
    [
        ({"max_tokens": None, "max_output_tokens": 5}, ["max_output_tokens"]),
        ({"input": "Hi", "other": 1}, ["input", "other"]),
        ({"output_config": {"other": 1}}, ["output_config.other"]),
        ({"thinking": {"type": "adaptive", "other": 1}}, ["thinking.other"]),
        ({"context_management": {"edits": [{"type": "clear_thinking_20251015", "keep": "all"}]}}, []),
        ({"context_management": {"edits": [{"type": "clear_tool_uses_20250919"}]}}, []),
        ({"context_management": {"edits": [{"type": "clear_all_20300101"}]}}, ["context_management.edits[0]"]),
        ({"system": [{"type": "text", "text": "Be brief.", "other": 1}]}, ["system[0].other"]),
        ({"cache_control": {"type": "ephemeral"}, "service_tier": "auto"}, []),
    ],
)
def test_what_has_no_effect_is_named_at_its_place(body: Json, places: list[str]) -> None:
    assert [text.partition(" ")[0] for text in accept(body).warnings] == places


def test_parameters_have_the_names_of_this_body() -> None:
    paths = accept({}).request.paths
    assert paths.param("stop") == "stop_sequences"
    assert accept({"stop": ["x"]}).request.paths.param("stop") == "stop"
    assert paths.param("response_format") == "output_config.format"
    assert paths.param("temperature") == "temperature"
    assert paths.extra("chat_template_kwargs") == "chat_template_kwargs"


def test_settings_and_options_of_the_reply() -> None:
    parsed = accept(
        {
            "stream": True,
            "cache": "off",
            "metadata": {"user_id": "u" * 600, "n": 5},
            "stop_sequences": ["x"],
            "thinking": {"type": "adaptive", "display": "omitted"},
        }
    )
    settings, options = parsed.settings, parsed.options
    assert (settings.stream, settings.mode, settings.metadata) == (True, "delta", {"user_id": "u" * 512})
    assert settings.cache is not None and settings.cache.mode == "off"
    assert (options.stop_words, options.hide_thinking, options.input_tokens) == (("x",), True, 4)
    assert accept({}).settings.mode == "whole"


def test_tokens_are_counted_without_a_limit_of_the_reply() -> None:
    body = {"model": "m", "messages": [QUESTION], "system": "Be brief.", "tools": [TOOL]}
    parsed = parse_count_tokens_body(json.dumps(body).encode(), LIMITS)
    assert isinstance(parsed, ParsedRequest)
    assert [message.path for message in parsed.request.messages] == ["system", "messages[0]"]
    assert "max_tokens" not in parsed.request.params
    assert isinstance(parse_count_tokens_body(b"[]", LIMITS), RejectedRequest)
