"""The body for a server of the Messages API, where no case of others says what it must be."""

import json
from typing import Any

import msgspec
import pytest
from app.chat.known_conversation import KnownConversation
from app.chat.messages import CacheMark, ChatRequest, Media, Message, Text, Tool, ToolCall, ToolResult
from app.errors import InvalidInput
from app.profiles import find_profile
from app.upstream.messages.request import build
from msgspec.structs import replace

from tests.each_case import each_case
from tests.upstream.messages.replies import Json

PROFILE = find_profile("anthropic", "messages")
USER = Message("user", (Text("Hi"),))
FUNCTION = Tool("f", {"name": "f", "parameters": {"type": "object", "properties": {}}})
TURN = (
    Message("assistant", (ToolCall("f", '{"b": 1.0}', "functions.f:0"),)),
    Message("tool", (ToolResult((Text("r"),), "f", "functions.f:0"),)),
)


def write(*messages: Message, kind: str = "anthropic", tools: tuple[Tool, ...] = (), **params: Any) -> Any:
    """Return the body as JSON, and the warnings."""
    request = ChatRequest("m", messages or (USER,), tools, params)
    body, warnings = build(request, "up", find_profile(kind, "messages"))
    return json.loads(msgspec.json.encode(body)), warnings


def test_ids_have_only_characters_that_the_api_takes_in_call_and_result_alike() -> None:
    body, _ = write(USER, *TURN)
    assert body["messages"][1]["content"][0]["id"] == "functions_f_0"
    assert body["messages"][2]["content"][0]["tool_use_id"] == "functions_f_0"


def test_the_next_turn_begins_with_the_body_of_this_one() -> None:
    late = Message("system", (Text("Now French."),))
    turns = [USER, *TURN, Message("assistant", (Text("Done."),)), late, Message("user", (Text("More"),))]
    for kind in ("anthropic", "anthropic_compatible"):
        longer, _ = write(*turns, kind=kind, tools=(FUNCTION,))
        shorter, _ = write(*turns[:3], kind=kind, tools=(FUNCTION,))
        assert longer["messages"][: len(shorter["messages"])] == shorter["messages"]
        assert longer["tools"] == shorter["tools"]


@pytest.mark.parametrize(("kind", "role"), [("anthropic", "system"), ("anthropic_compatible", "user")])
def test_a_later_system_message_stays_at_its_place(kind: str, role: str) -> None:
    said = Message("assistant", (Text("Hello."),))
    body, _ = write(USER, said, USER, Message("system", (Text("Now French."),)), kind=kind)
    last = body["messages"][-1]
    assert (last["role"], last["content"] if role == "system" else last["content"][-1]["text"]) == (role, "Now French.")
    assert "system" not in body


def test_blank_texts_are_left_out_and_the_end_of_a_prefill_is_stripped() -> None:
    body, _ = write(Message("user", (Text(" \n"), Text("Hi"))), Message("assistant", (Text("It is \n"),)))
    assert [message["content"] for message in body["messages"]] == ["Hi", "It is"]


def test_a_forced_function_and_thinking_exclude_each_other() -> None:
    body, warnings = write(tools=(FUNCTION,), tool_choice="required", enable_thinking=True)
    assert body["tool_choice"] == {"type": "any"} and "thinking" not in body and len(warnings) == 1


def test_a_budget_is_left_out_where_the_open_turn_has_no_signed_thought() -> None:
    body, warnings = write(USER, *TURN, tools=(FUNCTION,), thinking_budget=2000)
    assert "thinking" not in body and len(warnings) == 1
    body, warnings = write(USER, *TURN, tools=(FUNCTION,), enable_thinking=True)
    assert body["thinking"] == {"type": "adaptive"} and not warnings


@pytest.mark.parametrize(("given", "sent"), [("minimal", "low"), ("xhigh", "xhigh"), ("max", "max")])
def test_an_effort_is_sent_beside_adaptive_thinking(given: str, sent: str) -> None:
    body, _ = write(reasoning_effort=given)
    assert (body["thinking"], body["output_config"]) == ({"type": "adaptive"}, {"effort": sent})


def test_no_effort_switches_thinking_off() -> None:
    assert write(reasoning_effort="none")[0]["thinking"] == {"type": "disabled"}


def test_no_parallel_calls_is_a_part_of_the_choice_but_for_none() -> None:
    body, _ = write(tools=(FUNCTION,), tool_choice="none", parallel_tool_calls=False)
    assert body["tool_choice"] == {"type": "none"}


def test_more_than_four_marks_are_the_last_four() -> None:
    mark = CacheMark({"type": "ephemeral"}, "p")
    body, warnings = write(Message("user", tuple(Text(str(number), mark) for number in range(6))))
    marked = [block["text"] for block in body["messages"][0]["content"] if "cache_control" in block]
    assert (marked, len(warnings)) == (["2", "3", "4", "5"], 1)


def test_extra_fields_are_merged_last_and_server_tools_come_behind_the_functions() -> None:
    search = {"type": "web_search_20250305", "name": "web_search"}
    body, _ = write(tools=(FUNCTION,), extra_body={"tools": [search], "container": "c"})
    assert [tool["name"] for tool in body["tools"]] == ["f", "web_search"] and body["container"] == "c"


@pytest.mark.parametrize("extra", [{}, {"tools": [{"type": "web_search_20250305", "name": "web_search"}]}])
def test_a_conversation_that_is_known_has_the_same_tools(extra: Json) -> None:
    request = ChatRequest("m", (USER,), (FUNCTION,), {"extra_body": extra})
    plain, known = (build(one, "up", PROFILE)[0] for one in (request, replace(request, known=KnownConversation())))
    assert msgspec.json.encode(known) == msgspec.json.encode(plain)
    assert isinstance(known["tools"], msgspec.Raw) is not bool(extra)


@pytest.mark.parametrize("name", ["model", "messages", "stream"])
def test_what_the_gateway_sets_cannot_be_overridden(name: str) -> None:
    with pytest.raises(InvalidInput, match=name):
        write(extra_body={name: "x"})


def test_parameters_of_other_servers_are_left_out_with_a_warning() -> None:
    body, warnings = write(seed=1, logit_bias={"1": 1}, extra_body={"user": "u", "metadata": {"a": "b"}})
    assert not {"seed", "logit_bias", "user", "metadata"} & body.keys()
    assert len(warnings) == 4


def test_files_are_documents_and_media_stay_in_results() -> None:
    pdf = Media("file", ("data:application/pdf;base64,JVBERi0=",), name="a.pdf")
    note = Media("file", ("data:text/csv;base64,YSxi",))
    call = Message("assistant", (ToolCall("f", "{}", "c"),))
    result = Message("tool", (ToolResult((Text("see"), pdf), "f", "c", is_error=True),))
    body, _ = write(Message("user", (note,)), call, result)
    assert body["messages"][0]["content"][0]["source"] == {"type": "text", "media_type": "text/plain", "data": "a,b"}
    written = body["messages"][2]["content"][0]
    document = {
        "type": "document",
        "source": {"type": "base64", "media_type": "application/pdf", "data": "JVBERi0="},
        "title": "a.pdf",
    }
    assert written["content"] == [{"type": "text", "text": "see"}, document] and written["is_error"] is True


@pytest.mark.parametrize("url", ["data:application/zip;base64,UEs=", "data:broken", "UEsDBA=="])
def test_a_file_that_the_api_does_not_take_is_refused_at_its_place(url: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        write(Message("user", (Media("file", (url,), path="messages[0].content[0]"),)))
    assert [violation.path for violation in refused.value.violations] == ["messages[0].content[0]"]


@pytest.mark.parametrize(
    ("arguments", "sent"), [("", {}), ("null", {}), ("[1]", {"_raw": "[1]"}), ("{", {"_raw": "{"})]
)
def test_arguments_are_always_an_object(arguments: str, sent: Json) -> None:
    call, result = Message("assistant", (ToolCall("f", arguments, "c"),)), Message("tool", (ToolResult((), "f", "c"),))
    body, warnings = write(USER, call, result)
    assert body["messages"][1]["content"][0]["input"] == sent
    assert bool(warnings) is ("_raw" in sent)


def test_a_block_that_no_server_writes_is_not_smuggled_in() -> None:
    item = {"type": "provider.item", "item": {"type": "tool_result", "x": 1}, "format": "anthropic-claude-v1"}
    said = Message("assistant", (Text("a"),), extra={"reasoning_details": [item]})
    body, warnings = write(USER, said, USER)
    assert body["messages"][1]["content"] == "a" and len(warnings) == 1


def test_the_text_of_joined_thoughts_is_not_sent_with_a_signature_of_one() -> None:
    item = {"type": "reasoning.text", "signature": "s", "format": "anthropic-claude-v1"}
    said = Message("assistant", (Text("a"),), extra={"reasoning_details": [item, {**item, "signature": "t"}]})
    body, warnings = write(USER, said, USER)
    assert body["messages"][1]["content"] == "a" and len(warnings) == 1


@each_case(
    ("choice", "profile", "sent", "warned"),
    [
        ("auto", {}, {"type": "auto"}, 0),
        ("none", {"tool_choice_none": False}, None, 0),
        ("f", {}, {"type": "tool", "name": "f"}, 0),
        ({"type": "function", "function": {"name": "f"}}, {}, {"type": "tool", "name": "f"}, 0),
        ("f", {"named_tool_choice": False}, {"type": "any"}, 0),
        ("required", {"tool_choice_required": None}, None, 1),
    ],
)
def test_a_choice_is_sent_as_the_server_takes_it(choice: Any, profile: Any, sent: Any, warned: int) -> None:
    body, warnings = write_with(profile, (FUNCTION,), tool_choice=choice)
    assert (body.get("tool_choice"), len(warnings)) == (sent, warned)


@each_case("choice", ["g", {"type": "function"}, {"type": "function", "function": {"name": "g"}}])
def test_a_choice_of_a_function_that_is_not_offered_is_refused(choice: Any) -> None:
    with pytest.raises(InvalidInput, match="tool_choice"):
        write(tools=(FUNCTION,), tool_choice=choice)
    with pytest.raises(InvalidInput, match="tool_choice"):
        write(tool_choice=choice)


@each_case(
    ("params", "profile", "sent", "warned"),
    [
        ({"temperature": 0.5, "top_k": 3}, {}, {"temperature": 0.5, "top_k": 3}, 0),
        ({"temperature": 1.5}, {}, {"temperature": 1}, 1),
        ({"temperature": 1.5}, {"max_temperature": 1.2}, {"temperature": 1.2}, 1),
        ({"temperature": 1.5}, {"max_temperature": None}, {"temperature": 1.5}, 0),
        ({"temperature": 0.5}, {"lacks": ("temperature", "top_p")}, {}, 1),
        ({"top_p": 0.5}, {"lacks": ("temperature", "top_p")}, {}, 1),
        ({"temperature": 0.5, "top_k": 3, "enable_thinking": True}, {}, {"thinking": {"type": "adaptive"}}, 2),
        ({"stop": "X"}, {}, {"stop_sequences": ["X"]}, 0),
        ({"stop": ["X", " "]}, {}, {"stop_sequences": ["X"]}, 0),
        ({"stop": ["X"]}, {"lacks": ("stop",)}, {}, 0),
        ({"parallel_tool_calls": False}, {"parallel_tool_calls": False}, {}, 0),
        ({"max_tokens": 500}, {"max_output_tokens": 100}, {"max_tokens": 100}, 1),
        ({"response_format": {"type": "json_object"}}, {}, {}, 1),
        ({"response_format": "odd"}, {}, {}, 0),
        ({"response_format": {"type": "text"}}, {}, {}, 0),
        (
            {"response_format": {"type": "json_schema", "json_schema": {"schema": {"type": "array"}}}},
            {},
            {"output_config": {"format": {"type": "json_schema", "schema": {"type": "array"}}}},
            0,
        ),
        (
            {"response_format": {"type": "json_schema"}, "reasoning_effort": "low", "enable_thinking": False},
            {"thinking_switch": "none"},
            {
                "output_config": {
                    "format": {"type": "json_schema", "schema": {"type": "object", "additionalProperties": False}}
                }
            },
            1,
        ),
        ({"extra_body": {"output_config": {"a": 1}}, "reasoning_effort": "low"}, {})
        + ({"output_config": {"effort": "low", "a": 1}, "thinking": {"type": "adaptive"}}, 0),
        ({"extra_body": {"user": None, "store": False}}, {}, {}, 0),
        ({"extra_body": {"store": True}}, {}, {}, 1),
    ],
)
def test_an_option_is_sent_where_the_server_has_it(params: Any, profile: Any, sent: Any, warned: int) -> None:
    body, warnings = write_with(profile, (), **params)
    assert {name: body[name] for name in body if name not in ("model", "messages", "stream")} == {
        "max_tokens": 8192,
        **sent,
    }
    assert len(warnings) == warned


def test_parallel_calls_that_a_server_cannot_switch_off_are_told() -> None:
    assert (
        "parallel_tool_calls"
        in write_with({"parallel_tool_calls": False}, (FUNCTION,), parallel_tool_calls=False)[1][0]
    )
    body, _ = write(tools=(FUNCTION,), parallel_tool_calls=False)
    assert body["tool_choice"] == {"type": "auto", "disable_parallel_tool_use": True}


def test_a_field_that_the_server_does_not_accept_is_refused() -> None:
    with pytest.raises(InvalidInput, match="not a field"):
        write_with({"extra_fields": ("a",)}, (), extra_body={"b": 1})


def test_a_function_has_its_description_its_strictness_and_its_mark() -> None:
    schema = {"name": "f", "description": "d", "strict": True, "parameters": {"properties": {}}}
    body, _ = write(tools=(Tool("f", schema, CacheMark({"type": "ephemeral"}, "p")),))
    assert body["tools"] == [
        {"name": "f", "description": "d", "input_schema": {"type": "object", "properties": {}}, "strict": True}
        | {"cache_control": {"type": "ephemeral"}}
    ]


def test_marks_of_the_system_and_of_results_count() -> None:
    mark = CacheMark({"type": "ephemeral"}, "p")
    call = Message("assistant", (ToolCall("f", "{}", "c"),))
    result = Message("tool", (ToolResult((Text("r", mark),), "f", "c"),))
    body, warnings = write(Message("system", (Text("s", mark),)), USER, call, result)
    assert body["system"] == [{"type": "text", "text": "s", "cache_control": {"type": "ephemeral"}}]
    assert body["messages"][2]["content"][0]["content"][0]["cache_control"] == {"type": "ephemeral"}
    assert not warnings


def test_media_of_the_assistant_are_not_sent_and_a_conversation_without_content_is_refused() -> None:
    picture = Media("image", ("http://x.test/a",))
    body, warnings = write(USER, Message("assistant", (Text("a"), picture)), USER)
    assert body["messages"][1]["content"] == "a" and len(warnings) == 1
    with pytest.raises(InvalidInput, match="no message has content"):
        write(Message("user", (Text(" "),)))


def write_with(profile: dict[str, Any], tools: tuple[Tool, ...], **params: Any) -> Any:
    """Return the body for a server of a changed profile as JSON, and the warnings."""
    changed = find_profile("anthropic", "messages").model_copy(update=profile)
    body, warnings = build(ChatRequest("m", (USER,), tools, params), "up", changed)
    return json.loads(msgspec.json.encode(body)), warnings


def test_a_turn_with_a_text_before_its_calls_has_no_thought() -> None:
    body, warnings = write(USER, thinking_budget=2000)
    assert body["thinking"]["type"] == "enabled" and not warnings
    picture = Message("user", (Media("image", ("http://x.test/a",)),))
    body, warnings = write(USER, Message("assistant", (Text("a"),)), picture, thinking_budget=2000)
    assert body["thinking"]["type"] == "enabled" and not warnings


def test_beside_thinking_llamacpp_takes_every_option_and_variables_of_the_template() -> None:
    asked = {"enable_thinking": True, "thinking_budget": 5, "temperature": 1.5, "top_k": 3, "tool_choice": "f"}
    extra = {"chat_template_kwargs": {"lang": "en"}, "mirostat": 2}
    body, warnings = write(USER, kind="llamacpp", tools=(FUNCTION,), **asked, extra_body=extra)
    assert {name: value for name, value in body.items() if name not in ("model", "messages", "tools", "stream")} == {
        "max_tokens": 8192,
        "tool_choice": {"type": "any"},
        "thinking": {"type": "enabled", "budget_tokens": 5},
        "temperature": 1.5,
        "top_k": 3,
        "chat_template_kwargs": {"enable_thinking": True, "thinking": True, "lang": "en"},
    }
    assert len(warnings) == 1 and "mirostat" in warnings[0]


def test_the_choice_none_leaves_out_the_functions_for_llamacpp() -> None:
    assert "tools" not in write(USER, kind="llamacpp", tools=(FUNCTION,), tool_choice="none")[0]


def write_for(fields: Json, *messages: Message, tools: tuple[Tool, ...] = (), **params: Any) -> Any:
    """Return the body and the warnings for a server whose profile has these fields."""
    profile = find_profile("anthropic_compatible", "messages").model_copy(update=fields)
    return build(ChatRequest("m", messages or (USER,), tools, params), "up", profile)


def test_a_mark_of_the_whole_body_counts_as_one_of_four() -> None:
    marked = [Text(str(number), CacheMark({"type": "ephemeral"}, "p")) for number in range(4)]
    extra = {"cache_control": {"type": "ephemeral"}}
    body, warnings = write_for({}, Message("user", tuple(marked)), extra_body=extra)
    assert str(body).count("cache_control") == 4 and "last 3 of 4 places" in warnings[0]


def test_top_p_is_left_out_beside_a_temperature_where_the_server_takes_one() -> None:
    body, warnings = write_for({"sampling_excludes_top_p": True}, temperature=0.5, top_p=0.9)
    assert "top_p" not in body and body["temperature"] == 0.5 and len(warnings) == 1
    assert write_for({"sampling_excludes_top_p": True}, top_p=0.9)[0]["top_p"] == 0.9


def test_top_p_is_sent_where_the_temperature_is_left_out() -> None:
    for more in ({"lacks": ("temperature",)}, {"max_temperature": 1.0}):
        profile = {"sampling_excludes_top_p": True, **more}
        thinks: dict[str, Any] = {} if "lacks" in more else {"enable_thinking": True}
        body, warnings = write_for(profile, temperature=0.5, top_p=0.95, **thinks)
        assert (body.get("temperature"), body.get("top_p"), len(warnings)) == (None, 0.95, 1), warnings


def test_limits_and_names_of_the_profile_hold() -> None:
    raised, [warning] = write_for({"min_output_tokens": 16}, max_tokens=5, thinking_budget=2000)[0], [""]
    assert raised["max_tokens"] == 16 and warning == ""
    lowered, warnings = write_for({"max_thinking_budget": 2000}, max_tokens=9000, thinking_budget=8000)
    assert lowered["thinking"]["budget_tokens"] == 2000 and "lowered to 2000" in warnings[0]
    assert write_for({"max_thinking_budget": 9000}, max_tokens=9000, thinking_budget=2000)[1] == []
    named, _ = write_for({"renamed": {"top_k": "k_best", "temperature": "heat"}}, top_k=7, temperature=1)
    assert named["k_best"] == 7 and named["heat"] == 1 and "top_k" not in named


def test_thinking_is_switched_off_for_a_format_that_is_not_enforced_beside_it() -> None:
    schema = {"type": "json_schema", "json_schema": {"name": "x", "schema": {"type": "object"}}}
    asked: Json = {"max_tokens": 9000, "enable_thinking": True, "response_format": schema}
    body, warnings = write_for({"formats_while_thinking": "thinking_off"}, **asked)
    assert body["thinking"] == {"type": "disabled"} and "switched off" in warnings[0]
    assert write_for({}, **asked)[0]["thinking"]["type"] == "enabled"
