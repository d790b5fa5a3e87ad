"""The body for a server of the Messages API, where no case of others says what it must be."""

import json
from typing import Any

import msgspec
import pytest
from app.chat.messages import CacheMark, ChatRequest, Media, Message, Text, Tool, ToolCall, ToolResult
from app.errors import InvalidInput
from app.profiles import find_profile
from app.upstream.messages.request import build

from tests.upstream.messages.replies import Json

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
    body, _ = write(USER, said, Message("system", (Text("Now French."),)), kind=kind)
    assert body["messages"][-1] == {"role": role, "content": "Now French."}
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
