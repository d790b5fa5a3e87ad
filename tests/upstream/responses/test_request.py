"""The options of a request to a Responses server."""

from collections.abc import Mapping
from typing import Any

import msgspec
import pytest
from app.chat.known_conversation import KnownConversation
from app.chat.messages import UNREAD, ChatRequest, Message, Reasoning, Text, Tool
from app.errors import InvalidInput
from app.profiles import Profile, find_profile
from app.upstream.responses.request import build
from msgspec.structs import replace

from tests.each_case import each_case

OPENAI, OTHER = find_profile("openai", "responses"), find_profile("openai_compatible", "responses")
USER = Message("user", (Text("Hi"),))
TOOLS = (Tool("f", {"name": "f"}), Tool("g", {"name": "g", "parameters": {"type": "object"}, "strict": True}))


def build_body(
    params: Mapping[str, Any], profile: Profile = OTHER, tools: tuple[Tool, ...] = (), stream: bool = True
) -> tuple[dict[str, Any], list[str]]:
    return build(ChatRequest("m", (USER,), tools, params, stream=stream), "up", profile)


def test_nothing_is_stored_and_the_keys_have_a_fixed_order() -> None:
    params = {"temperature": 0.5, "max_tokens": 20, "extra_body": {"zebra": 1, "text": {"verbosity": "low"}}}
    body, warnings = build_body(params, OPENAI.model_copy(update={"encrypted_reasoning": True}), TOOLS)
    assert list(body) == [
        *("model", "input", "tools", "text", "max_output_tokens", "temperature", "zebra"),
        *("include", "store", "stream", "stream_options"),
    ]
    assert body["store"] is False and body["stream_options"] == {"include_obfuscation": False} and not warnings


def test_strict_is_always_sent() -> None:
    body, _ = build_body({}, tools=TOOLS)
    assert [tool["strict"] for tool in body["tools"]] == [False, True]


def test_a_function_without_parameters_has_a_schema_with_properties() -> None:
    body, _ = build_body({}, tools=TOOLS)
    assert [tool["parameters"] for tool in body["tools"]] == [{"type": "object", "properties": {}}] * 2


@each_case(
    ("given", "sent"),
    [
        ({}, {"type": "object", "properties": {}}),
        ({"type": "object", "properties": None}, {"type": "object", "properties": {}}),
        ({"type": "object", "properties": {"a": {}}}, {"type": "object", "properties": {"a": {}}}),
        ({"properties": {"a": {}}}, {"properties": {"a": {}}}),
        ({"anyOf": [{"type": "object"}]}, {"anyOf": [{"type": "object"}]}),
        ({"type": ["object", "null"], "properties": {"a": {}}}, {"type": "object", "properties": {"a": {}}}),
        ({"type": "string"}, {"type": "object", "properties": {}}),
    ],
)
def test_a_schema_that_says_more_than_an_object_goes_as_it_is(given: Any, sent: Any) -> None:
    body, _ = build_body({}, tools=(Tool("f", {"name": "f", "parameters": given}),))
    assert body["tools"][0]["parameters"] == sent


@each_case(
    ("choice", "profile", "sent", "tools"),
    [
        ("required", {}, "required", 2),
        ("g", {}, {"type": "function", "name": "g"}, 2),
        ({"type": "function", "function": {"name": "g"}}, {}, {"type": "function", "name": "g"}, 2),
        ("g", {"named_tool_choice": False}, "required", 1),
        ("none", {"tool_choice_none": False}, None, 0),
        ("none", {}, "none", 2),
    ],
)
def test_a_choice_is_sent_as_the_api_has_it(choice: Any, profile: dict[str, Any], sent: Any, tools: int) -> None:
    body, warnings = build_body({"tool_choice": choice}, OTHER.model_copy(update=profile), TOOLS)
    assert (body.get("tool_choice"), len(body.get("tools", ())), warnings) == (sent, tools, [])


@each_case(
    ("params", "profile", "reasoning", "warned"),
    [
        ({"reasoning_effort": "high"}, {}, {"effort": "high"}, 0),
        ({"reasoning_effort": "high"}, {"reasoning_summary": "auto"}, {"effort": "high", "summary": "auto"}, 0),
        ({}, {"reasoning_summary": "auto"}, {"summary": "auto"}, 0),
        ({"enable_thinking": False}, {"reasoning_summary": "auto"}, {"effort": "none"}, 0),
        ({"enable_thinking": False}, {"efforts": {"none": "minimal", "low": "low"}}, {"effort": "minimal"}, 0),
        ({"enable_thinking": False}, {"efforts": ("low",)}, None, 1),
        ({"enable_thinking": True}, {}, None, 0),
        ({"reasoning_effort": "high"}, {"efforts": ("low",)}, {"effort": "low"}, 1),
        ({"thinking_budget": 5}, {"thinking_budget": "none"}, None, 1),
        (
            {"extra_body": {"reasoning": {"summary": "detailed"}}},
            {"reasoning_summary": "auto"},
            {"summary": "detailed"},
            0,
        ),
    ],
)
def test_reasoning_has_an_effort_and_a_summary(
    params: dict[str, Any], profile: dict[str, Any], reasoning: Any, warned: int
) -> None:
    body, warnings = build_body(params, OTHER.model_copy(update=profile))
    assert (body.get("reasoning"), len(warnings)) == (reasoning, warned)


def test_a_budget_has_the_names_that_llamacpp_reads() -> None:
    body, warnings = build_body({"thinking_budget": 5}, find_profile("llamacpp", "responses"))
    assert (body["thinking_budget_tokens"], body["reasoning_budget_tokens"], warnings) == (5, 5, [])
    assert "thinking_budget" not in body


@each_case(("most", "sent", "warned"), [(5, 16, 1), (20, 20, 0), (500, 100, 1)])
def test_a_limit_stays_within_what_the_server_takes(most: int, sent: int, warned: int) -> None:
    body, warnings = build_body({"max_tokens": most}, OPENAI.model_copy(update={"max_output_tokens": 100}))
    assert (body["max_output_tokens"], len(warnings)) == (sent, warned)


def test_stop_words_are_not_sent_because_the_gateway_ends_the_reply_at_them() -> None:
    body, warnings = build_body({"stop": ["END"]})
    assert "stop" not in body and not warnings


def test_tools_of_the_server_are_added_to_the_functions() -> None:
    body, _ = build_body({"extra_body": {"tools": [{"type": "web_search"}], "include": ["x"]}}, tools=TOOLS)
    assert [tool["type"] for tool in body["tools"]] == ["function", "function", "web_search"]
    assert body["include"] == ["x"]


@pytest.mark.parametrize("extra", [{}, {"tools": [{"type": "web_search"}]}])
def test_a_conversation_that_is_known_has_the_same_tools(extra: dict[str, Any]) -> None:
    request = ChatRequest("m", (USER,), TOOLS, {"extra_body": extra})
    plain, known = (build(one, "up", OTHER)[0] for one in (request, replace(request, known=KnownConversation())))
    assert msgspec.json.encode(known) == msgspec.json.encode(plain)
    assert isinstance(known["tools"], msgspec.Raw) is not bool(extra)


@each_case("name", ["model", "input", "messages", "stream", "background", "previous_response_id"])
def test_what_chooses_model_conversation_and_reply_cannot_be_set(name: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        build_body({"extra_body": {name: 1}})
    assert [violation.path for violation in caught.value.violations] == [f"generate_cfg.extra_body.{name}"]


def test_a_choice_of_an_unknown_function_is_refused() -> None:
    with pytest.raises(InvalidInput, match="h"):
        build_body({"tool_choice": "h"}, tools=TOOLS)
    with pytest.raises(InvalidInput, match="functions"):
        build_body({"tool_choice": "required"})


@each_case(
    ("given", "format_"),
    [
        ({"type": "json_object"}, {"type": "json_object"}),
        ({"type": "text"}, None),
        (
            {"type": "json_schema", "json_schema": {"name": "a", "schema": {}, "description": "d", "other": 1}},
            {"type": "json_schema", "name": "a", "schema": {}, "description": "d"},
        ),
    ],
)
def test_the_format_of_the_text_is_in_text(given: dict[str, Any], format_: Any) -> None:
    body, _ = build_body({"response_format": given})
    assert body.get("text", {}).get("format") == format_


def test_what_a_client_calls_itself_is_sent_where_the_server_knows_the_field() -> None:
    named = {"prompt_cache_key": "session", "safety_identifier": "someone", "user": "u"}
    asked = ChatRequest("m", (USER,), params={"extra_body": {"user": "own"}}, caller_fields=named)
    body, _ = build(asked, "up", OPENAI)
    assert {name: body[name] for name in named} == {**named, "user": "own"}
    assert not named.keys() & build(ChatRequest("m", (USER,), caller_fields=named), "up", OTHER)[0].keys()


@each_case(
    ("params", "profile", "sent", "warned"),
    [
        ({"parallel_tool_calls": False}, {}, {"parallel_tool_calls": False}, 0),
        ({"parallel_tool_calls": False}, {"parallel_tool_calls": False}, {}, 1),
        ({"top_p": 0.5}, {"lacks": ("top_p",)}, {}, 1),
        ({"thinking_budget": 5}, {"thinking_budget": "thinking_budget"}, {"thinking_budget": 5}, 0),
        ({"tool_choice": "required"}, {"tool_choice_required": None}, {}, 1),
        ({"tool_choice": "g"}, {"tool_choice_required": None, "named_tool_choice": False}, {}, 1),
        ({"extra_body": {"verbosity": "low"}}, {}, {"text": {"verbosity": "low"}}, 0),
        (
            {"extra_body": {"verbosity": "low"}, "response_format": {"type": "json_object"}},
            {},
            {"text": {"format": {"type": "json_object"}, "verbosity": "low"}},
            0,
        ),
        ({"extra_body": {"web_search_options": {}, "modalities": ["text"]}}, {}, {}, 2),
    ],
)
def test_an_option_is_sent_where_the_server_has_it(params: Any, profile: Any, sent: Any, warned: int) -> None:
    body, warnings = build_body(params, OTHER.model_copy(update=profile), TOOLS)
    known = ("model", "input", "tools", "store", "stream")
    assert {name: body[name] for name in body if name not in known} == sent
    assert len(warnings) == warned


def test_a_field_that_the_server_does_not_accept_is_refused() -> None:
    with pytest.raises(InvalidInput, match="not a field"):
        build_body({"extra_body": {"b": 1}}, OTHER.model_copy(update={"extra_fields": ("a",)}))


def test_a_conversation_without_content_is_refused() -> None:
    with pytest.raises(InvalidInput, match="no message has content"):
        build(ChatRequest("m", (Message("assistant", (Reasoning("hm"),)),)), "up", OTHER)


@each_case(("store", "warned"), [(False, 0), (None, 0), (True, 1)])
def test_nothing_is_stored_whatever_a_client_of_chat_completions_says(store: Any, warned: int) -> None:
    body, warnings = build_body({"extra_body": {"store": store}})
    assert body["store"] is False and len(warnings) == warned


def build_with(fields: dict[str, Any], tools: tuple[Tool, ...] = (), **params: Any) -> Any:
    return build_body(params, OTHER.model_copy(update=fields), tools=tools)


def test_a_budget_has_a_maximum_and_excludes_an_effort() -> None:
    body, warnings = build_with({"max_thinking_budget": 2000}, thinking_budget=8000)
    assert body["thinking_budget"] == 2000 and "lowered" in warnings[0]
    both = {"effort_excludes": ("budget",)}
    body, warnings = build_with(both, thinking_budget=8000, reasoning_effort="high")
    assert body["reasoning"] == {"effort": "high"} and "thinking_budget" not in body and len(warnings) == 1
    body, _ = build_with(both, thinking_budget=8000, preferred_effort="high")
    assert body["thinking_budget"] == 8000 and "effort" not in body.get("reasoning", {})


FUNCTIONS = (Tool("f", {"name": "f"}), Tool("g", {"name": "g"}))


@each_case(
    ("fields", "choice", "sent", "tools", "effort"),
    [
        ({"forced_choice_while_thinking": "auto"}, "required", None, 2, "high"),
        ({"forced_choice_while_thinking": "auto"}, "f", None, 1, "high"),
        ({"forced_choice_while_thinking": "auto"}, "auto", "auto", 2, "high"),
        ({"forced_choice_while_thinking": "thinking_off"}, "required", "required", 2, "none"),
        ({"forced_choice_while_thinking": "thinking_off", "efforts": ("low", "high")}, "required", None, 2, "high"),
        ({}, "required", "required", 2, "high"),
    ],
)
def test_a_demanded_call_and_thinking_exclude_each_other_where_the_server_says_so(
    fields: dict[str, Any], choice: str, sent: Any, tools: int, effort: str
) -> None:
    body, warnings = build_with(fields, FUNCTIONS, function_choice=choice, reasoning_effort="high")
    assert body.get("tool_choice") == sent and len(body["tools"]) == tools and body["reasoning"]["effort"] == effort
    assert bool(warnings) is (bool(fields) and choice != "auto")


def test_thinking_is_switched_off_for_a_format_that_is_not_enforced_beside_it() -> None:
    schema = {"type": "json_schema", "json_schema": {"name": "x", "schema": {"type": "object"}}}
    off = {"formats_while_thinking": "thinking_off", "thinking_budget": "thinking_budget"}
    body, warnings = build_with(off, reasoning_effort="high", thinking_budget=5, response_format=schema)
    assert body["reasoning"] == {"effort": "none"} and "thinking_budget" not in body and len(warnings) == 1


def test_an_item_that_only_its_vendor_knows_is_not_sent_to_another_server() -> None:
    item = {"type": "compaction", "encrypted_content": "c"}
    extra = {"reasoning_details": [{"type": "provider.item", "item": item, "format": "openai-responses-v1"}]}
    for known, sent in ((OTHER, 1), (OTHER.model_copy(update={"takes": "all"}), 2)):
        told = Message("assistant", (), path="input[0]", extra={**extra, UNREAD: ["input[0]: left out"]})
        body, warnings = build(ChatRequest("m", (told, USER)), "up", known)
        assert len(body["input"]) == sent and len(warnings) == 2 - sent
    own, _ = build(ChatRequest("m", (Message("assistant", (), extra=extra), USER)), "up", OTHER)
    assert len(own["input"]) == 2
