"""What a Messages server is sent of the body of a client of its own API."""

from typing import Any

import msgspec
import pytest
from app.chat.messages import SEAL_PREFIX
from app.errors import InvalidInput
from app.formats.seal import Seal, write_seal
from app.profiles import find_profile
from app.upstream.messages.own import build_own, write_own_beginning

from tests.each_case import each_case
from tests.upstream.own_bodies import read, send, write

Json = dict[str, Any]
HI: Json = {"role": "user", "content": "Hi"}
TEXT: Json = {"type": "text", "text": "So."}
CALL: Json = {"type": "tool_use", "id": "c1", "name": "look", "input": {}, "future": 1}
TOOL: Json = {"name": "look", "description": "d", "input_schema": {"type": "object"}, "future": True}
RESULT: Json = {"type": "tool_result", "tool_use_id": "c1", "content": "sunny"}
PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
IMAGE: Json = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}}
SIGNED: Json = {"type": "thinking", "thinking": "Hm.", "signature": "native"}
UNSIGNED: Json = {"type": "thinking", "thinking": "Hm.", "signature": ""}
DETAIL: Json = {"type": "reasoning.text", "signature": "s", "format": "anthropic-claude-v1"}
HIDDEN: Json = {"type": "reasoning.encrypted", "data": "d", "format": "anthropic-claude-v1"}
FOREIGN: Json = {"type": "reasoning.encrypted", "data": "x", "format": "openai-responses-v1"}


def ask(*messages: Json, **fields: Any) -> Json:
    return {"model": "m", "max_tokens": 500, "messages": list(messages), **fields}


def say(*blocks: Any) -> Json:
    return {"role": "assistant", "content": list(blocks)}


def think(text: str, *details: Json) -> Json:
    return {"type": "thinking", "thinking": text, "signature": write_seal(Seal(details=list(details)))}


@each_case("kind", ["anthropic", "anthropic_compatible", "openai_compatible", "vllm"])
def test_what_nothing_changed_is_sent_as_it_came(kind: str) -> None:
    turns = [
        {"role": "user", "content": [{**TEXT, "future": 1}], "mood": 2},
        say({**TEXT, "citations": [{"x": 1}]}, CALL),
        {"role": "user", "content": [RESULT, TEXT]},
    ]
    body = ask(*turns, tools=[TOOL], system=[{**TEXT, "later": 3}], unheard_of={"a": None}, metadata={"user_id": "u"})
    sent, warnings = send(body, kind)
    assert sent == {**body, "model": "up"} and not warnings


@each_case(("kind", "is_vendor"), [("anthropic", True), ("anthropic_compatible", False), ("vllm", False)])
@each_case("field", ["eager_input_streaming", "defer_loading", "allowed_callers", "input_examples"])
def test_fields_of_functions_that_only_anthropic_knows_are_sent_to_no_other_server(
    kind: str, is_vendor: bool, field: str
) -> None:
    tool = {**TOOL, field: False if field == "defer_loading" else ["x"]}
    body = ask(HI, tools=[tool, {**TOOL, "name": "other"}])
    sent, warnings = send(body, kind)
    assert sent["tools"] == (body["tools"] if is_vendor else [TOOL, {**TOOL, "name": "other"}])
    assert [text.partition(" was not sent")[0] for text in warnings] == ([] if is_vendor else [f"{field} of tools"])


@each_case(
    ("given", "params", "sent"),
    [
        ({}, {"temperature": 0.5, "top_k": 3}, {"temperature": 0.5, "top_k": 3}),
        ({"top_p": 1}, {"top_p": 0.5}, {"top_p": 1}),
        ({}, {"stop": "X"}, {"stop_sequences": ["X"]}),
        ({"stop_sequences": ["A"]}, {"stop": "X"}, {"stop_sequences": ["A"]}),
        ({}, {"enable_thinking": False}, {"thinking": {"type": "disabled"}}),
        ({"thinking": {"type": "adaptive"}}, {"enable_thinking": False}, {"thinking": {"type": "adaptive"}}),
        ({"enable_thinking": False}, {}, {"thinking": {"type": "disabled"}}),
        ({"temperature": 0.5, "top_p": 0.5}, {}, {"temperature": 0.5, "top_p": 0.5}),
        (
            {"output_config": {"effort": "low", "new": 1}},
            {"reasoning_effort": "high"},
            {"output_config": {"effort": "high", "new": 1}, "thinking": {"type": "adaptive"}},
        ),
        ({"stream": False}, {}, {"stream": False}),
        ({"cache": "off", "future": 2}, {}, {"future": 2}),
    ],
)
def test_defaults_of_the_model_are_added_where_the_client_says_nothing(given: Json, params: Json, sent: Json) -> None:
    request = read(ask(HI, **given))
    assert request is not None
    merged = msgspec.structs.replace(request, params={**params, **request.params})
    body, _ = write(merged, find_profile("anthropic", "messages"))
    assert body == {"model": "up", "max_tokens": 500, "messages": [HI], **sent}


@pytest.mark.parametrize(
    ("block", "opened"),
    [
        (think("t", DETAIL), [{"type": "thinking", "thinking": "t", "signature": "s"}]),
        (think("t", {**DETAIL, "text": "own"}), [{"type": "thinking", "thinking": "own", "signature": "s"}]),
        (think("t", FOREIGN), []),
        (
            {"type": "redacted_thinking", "data": write_seal(Seal(details=[HIDDEN]))},
            [{"type": "redacted_thinking", "data": "d"}],
        ),
        ({"type": "redacted_thinking", "data": write_seal(Seal(details=[FOREIGN]))}, []),
        ({"type": "thinking", "thinking": "t", "signature": SEAL_PREFIX + "?"}, []),
    ],
)
def test_a_seal_becomes_what_it_holds_for_a_server_of_this_api(block: Json, opened: list[Json]) -> None:
    sent, _ = send(ask(HI, say(block, TEXT, {**CALL}), {"role": "user", "content": [RESULT]}))
    assert sent["messages"][1]["content"][: len(opened)] == opened
    assert SEAL_PREFIX not in str(sent) and sent["messages"][1]["content"][-2]["text"] == "So."


def test_only_the_block_that_a_rule_is_about_is_replaced() -> None:
    used = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"q": "x"}}
    found = {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": []}
    cited = {**TEXT, "citations": [{"encrypted_index": "e"}]}
    sent, _ = send(ask(HI, say(UNSIGNED, used, found, cited), HI))
    assert sent["messages"] == [HI, say(used, found, cited), HI]
    kept, _ = send(ask(HI, say(SIGNED, used, found, cited), HI))
    assert kept["messages"] == [HI, say(SIGNED, used, found, cited), HI]
    mixed, _ = send(ask(HI, say(SIGNED, UNSIGNED, TEXT), HI))
    assert mixed["messages"] == [HI, say(SIGNED, TEXT), HI]


def test_a_search_of_the_gateway_is_a_call_of_the_client_for_the_server() -> None:
    used = {"type": "server_tool_use", "id": "srvtoolu_call_1", "name": "web_search", "input": {"query": "x"}}
    page = {"type": "web_search_result", "url": "u", "title": "U", "encrypted_content": write_seal(Seal("words"))}
    found = {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_call_1", "content": [page]}
    sent, _ = send(ask(HI, say(used, found, TEXT), HI))
    call, result = sent["messages"][1]["content"][0], sent["messages"][2]["content"][0]
    assert (call["type"], call["id"]) == ("tool_use", "call_1")
    assert (result["tool_use_id"], result["content"]) == ("call_1", "[1] U\nu\nwords")


def test_a_turn_of_which_nothing_is_left_is_not_sent() -> None:
    sent, _ = send(ask(HI, say(UNSIGNED), {"role": "user", "content": "More"}))
    assert sent["messages"] == [HI, {"role": "user", "content": "More"}]


@each_case(("kind", "kept"), [("anthropic", 2), ("anthropic_compatible", 2), ("vllm", 1), ("deepseek", 1)])
def test_the_billing_header_is_left_out_where_the_server_keeps_the_beginnings_of_prompts(kind: str, kept: int) -> None:
    header = {"type": "text", "text": "x-anthropic-billing-header: cc_version=2.1; cch=a5145;"}
    system = [header, {"type": "text", "text": "You are Claude Code", "later": 1}]
    sent, warnings = send(ask(HI, system=system), kind)
    assert sent["system"] == system[-kept:] and not warnings


def test_what_only_the_vendor_knows_is_translated_for_other_servers() -> None:
    used = {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}}
    found = {"type": "web_search_tool_result", "tool_use_id": "s", "content": "rain"}
    body = ask(HI, say(used, found, TEXT), HI, say(TEXT, {"type": "fallback", "x": 1}), HI)
    assert send(body)[0]["messages"] == body["messages"]
    sent, _ = send(body, "anthropic_compatible")
    kinds = [
        block["type"]
        for message in sent["messages"]
        if isinstance(message["content"], list)
        for block in message["content"]
    ]
    assert "server_tool_use" not in kinds and "fallback" not in kinds and kinds.count("tool_use") == 1
    summary = ask(HI, say({"type": "compaction", "content": "The summary."}), {"role": "user", "content": "More"})
    assert send(summary)[0]["messages"] == summary["messages"]
    told, _ = send(summary, "anthropic_compatible")
    assert "The summary." in str(told["messages"]) and "compaction" not in str(told["messages"])


def test_fields_and_tools_that_only_the_vendor_knows_are_left_out_with_a_warning() -> None:
    hosted = {"type": "web_search_20260209", "name": "web_search"}
    body = ask(HI, tools=[TOOL, hosted], context_management={"edits": []}, service_tier="auto", own_field=1)
    assert send(body)[0] == {**body, "model": "up"}
    sent, warnings = send(body, "anthropic_compatible")
    assert sent["tools"] == [TOOL] and "context_management" not in sent and sent["own_field"] == 1
    assert [text.partition(" was")[0] for text in warnings] == [
        "the tool 'web_search'",
        "context_management",
        "service_tier",
    ]
    assert "takes" in warnings[0]
    alone, _ = send(ask(HI, tools=[hosted]), "anthropic_compatible")
    assert "tools" not in alone and "tool_choice" not in alone


@each_case(("id_", "kept"), [("toolu_1", False), ("call_1", False), ("mcptoolu_1", True)])
def test_calls_that_the_gateway_ran_are_translated(id_: str, kept: bool) -> None:
    used = {"type": "mcp_tool_use", "id": id_, "name": "get", "server_name": "wx", "input": {}}
    result = {"type": "mcp_tool_result", "tool_use_id": id_, "is_error": False, "content": "rain"}
    body = ask(HI, say(used, result), {"role": "user", "content": "And now?"})
    sent, _ = send(body)
    assert (sent["messages"] == body["messages"]) is kept
    assert kept or "mcp_tool" not in str(sent)


def test_media_of_results_follow_them_where_the_server_takes_only_texts() -> None:
    image = {**RESULT, "content": [TEXT, IMAGE]}
    body = ask(HI, say(CALL), {"role": "user", "content": [image, {"type": "text", "text": "Look"}]}, tools=[TOOL])
    assert send(body, "anthropic_compatible")[0]["messages"] == body["messages"]
    sent, _ = send(body, "lmstudio")
    content = sent["messages"][2]["content"]
    assert content[0]["type"] == "tool_result" and isinstance(content[0]["content"], str)
    assert IMAGE in content and content[-1]["text"] == "Look" and sent["messages"][1] == body["messages"][1]


def test_tools_that_a_step_changed_are_written_in_their_places() -> None:
    odd = {"name": "odd", "input_schema": {"anyOf": [{"type": "object", "properties": {"a": {}}}]}}
    foreign = {"type": "function", "function": {"name": "third", "parameters": {"type": "object", "properties": {}}}}
    sent, _ = send(ask(HI, tools=[TOOL, odd, foreign]))
    assert sent["tools"][0] == TOOL and sent["tools"][1]["input_schema"]["properties"] == {"a": {}}
    assert sent["tools"][2] == {"name": "third", "input_schema": {"type": "object", "properties": {}}}
    none, _ = send(ask(HI, tools=[TOOL], tool_choice={"type": "none"}), "anthropic_compatible", tool_choice_none=False)
    assert "tools" not in none and "tool_choice" not in none
    named = {"type": "tool", "name": "look"}
    one, _ = send(ask(HI, tools=[TOOL, odd], tool_choice=named), "anthropic_compatible", named_tool_choice=False)
    assert one["tools"] == [TOOL] and one["tool_choice"] == {"type": "any"}


def test_a_server_that_takes_everything_says_itself_what_is_wrong() -> None:
    orphan = ask(HI, {"role": "user", "content": [RESULT]}, temperature=0.5)
    assert send(orphan)[0] == {**orphan, "model": "up"}
    repaired, warnings = send(orphan, "anthropic_compatible")
    assert "sunny" in str(repaired["messages"]) and "tool_result" not in str(repaired) and len(warnings) == 1
    sent, _ = send(ask(HI, say(think("t"), TEXT), {"role": "user", "content": [RESULT, TEXT]}))
    assert sent["messages"] == [HI, say(TEXT), {"role": "user", "content": [RESULT, TEXT]}]
    request = read(orphan)
    assert request is not None and request.source is not None
    refused = msgspec.structs.replace(request.source, unsent=frozenset((1,)))
    with pytest.raises(InvalidInput):
        write(msgspec.structs.replace(request, source=refused), find_profile("anthropic", "messages"))


def test_an_entry_whose_url_is_refused_is_written_anew() -> None:
    request = read(ask({"role": "user", "content": [TEXT], "mood": 1}, say(TEXT), {**HI, "mood": 2}))
    assert request is not None and request.source is not None
    refused = msgspec.structs.replace(request.source, unsent=frozenset((0,)))
    sent, _ = write(msgspec.structs.replace(request, source=refused), find_profile("anthropic", "messages"))
    assert sent["messages"] == [{"role": "user", "content": "So."}, say(TEXT), {**HI, "mood": 2}]


def test_what_a_step_adds_or_moves_is_written_and_the_rest_stays() -> None:
    late = {"role": "system", "content": "Be brief."}
    body = ask({**HI, "mood": 1}, say({**TEXT, "x": 1}), late, {**HI, "mood": 2})
    sent, _ = send(body, "anthropic_compatible", system="leading")
    assert sent["system"] == "Be brief." and {**HI, "mood": 2} in sent["messages"] and len(sent["messages"]) == 3
    asked, warnings = send(
        ask({**HI, "mood": 1}, output_config={"format": {"type": "json_schema", "schema": {"type": "object"}}}),
        "deepseek",
    )
    assert "JSON" in asked["system"] and asked["messages"] == [{**HI, "mood": 1}] and len(warnings) == 1
    assert "output_config" not in asked
    renamed, _ = send(
        ask(
            HI,
            say({**CALL, "name": "a.b"}),
            {"role": "user", "content": [RESULT]},
            {**HI, "mood": 1},
            tools=[{**TOOL, "name": "a.b"}],
        )
    )
    assert renamed["messages"][1]["content"][0]["name"] == renamed["tools"][0]["name"] != "a.b"
    last = renamed["messages"][-1]
    assert last == {**HI, "mood": 1, "content": [RESULT, {"type": "text", "text": "Hi"}]}


def test_a_field_that_the_server_lacks_is_left_out_with_a_warning() -> None:
    sent, warnings = send(ask(HI, top_k=5, stream=True), "anthropic_compatible", lacks=("top_k",), stream="never")
    assert "top_k" not in sent and sent["stream"] is False
    assert warnings == ["top_k was not sent: this model's server has no such parameter"]


def refuse(body: Json, **params: Any) -> str:
    """Return the error of a server that does not take everything, without the steps that repair a conversation."""
    request = read(body)
    assert request is not None
    request = msgspec.structs.replace(request, params={**request.params, **params})
    with pytest.raises(InvalidInput) as caught:
        build_own(request, "up", find_profile("anthropic_compatible", "messages"))
    return str(caught.value)


def test_what_no_step_repaired_is_refused_with_its_path() -> None:
    assert "messages[1].content[0]" in refuse(ask(HI, {"role": "user", "content": [RESULT]}))
    assert "leave it out of extra_body" in refuse(ask(HI), extra_body={"model": "x"})


@each_case(
    ("turns", "kept"),
    [
        ([HI, say(TEXT), HI], True),
        ([HI, say(TEXT)], False),
        ([HI, {"role": "user", "content": [RESULT]}], False),
    ],
)
def test_a_beginning_ends_with_a_user_and_has_each_call_of_a_result(turns: list[Json], kept: bool) -> None:
    request = read(ask(*turns))
    assert request is not None
    written = write_own_beginning(request, find_profile("anthropic", "messages"))
    assert (None if written is None else written.messages) == (turns if kept else None)


def test_system_messages_stay_where_the_server_takes_them() -> None:
    late = {"role": "system", "content": "Be brief.", "mood": 1}
    body = ask(HI, say(TEXT), late, HI)
    assert send(body, "anthropic_compatible", system="anywhere")[0]["messages"] == body["messages"]
    request = read(body)
    assert request is not None
    sent, _ = write(request, find_profile("anthropic_compatible", "messages").model_copy(update={"system": "leading"}))
    assert late not in sent["messages"]


def test_a_file_at_the_vendor_is_named_only_to_the_vendor() -> None:
    image = {"type": "image", "source": {"type": "file", "file_id": "file_7"}}
    body = ask({"role": "user", "content": [image, TEXT]}, say(TEXT), HI)
    assert send(body)[0]["messages"] == body["messages"]
    assert "file_7" not in str(send(body, "anthropic_compatible")[0])


def test_a_choice_without_tools_is_sent_as_it_came_to_a_server_that_takes_everything() -> None:
    assert send(ask(HI, tool_choice={"type": "any"}), "anthropic")[0]["tool_choice"] == {"type": "any"}
    assert "tool_choice" not in send(ask(HI, tool_choice={"type": "auto"}), "anthropic_compatible")[0]


def test_a_turn_of_unsigned_reasoning_alone_is_left_out_with_a_warning() -> None:
    sent, warnings = send(ask(HI, say(UNSIGNED), HI), "anthropic")
    assert (sent["messages"], len(warnings)) == ([HI, HI], 1)
    assert warnings[0].startswith("messages[1] was left out")
    assert send(ask(HI, say(UNSIGNED, TEXT), HI), "anthropic") == ({**sent, "messages": [HI, say(TEXT), HI]}, [])
