"""What a Responses server is sent of the body of a client of its own API."""

from typing import Any

import msgspec
import pytest
from app.chat.messages import SEAL_PREFIX
from app.errors import InvalidInput
from app.formats.responses.parse import FORMAT
from app.formats.seal import Seal, SealedResult, write_seal
from app.profiles import find_profile
from app.upstream.responses.items import ENCRYPTED
from app.upstream.responses.own import build_own, write_own_beginning

from tests.each_case import each_case
from tests.upstream.own_bodies import read, send, write

Json = dict[str, Any]
HI: Json = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Hi"}]}
SAID: Json = {
    "type": "message",
    "role": "assistant",
    "content": [{"type": "output_text", "text": "So."}],
    "id": "msg_1",
    "status": "completed",
}
CALL: Json = {
    "type": "function_call",
    "id": "fc_1",
    "call_id": "c1",
    "name": "look",
    "arguments": "{}",
    "status": "completed",
}
RESULT: Json = {"type": "function_call_output", "call_id": "c1", "output": "sunny"}
TOOL: Json = {
    "type": "function",
    "name": "look",
    "parameters": {"type": "object", "properties": {}},
    "strict": None,
    "new": 1,
}
ENCRYPTED_THOUGHT: Json = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "d"}
THOUGHT: Json = {"type": "reasoning", "id": "rs_2", "summary": [], "content": [{"type": "reasoning_text", "text": "t"}]}
PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
HIDDEN: Json = {"type": "reasoning.encrypted", "data": "d", "id": "rs_1", "format": FORMAT}
ITEM: Json = {"type": "provider.item", "item": {"type": "compaction", "encrypted_content": "c"}, "format": FORMAT}
FOREIGN: Json = {"type": "reasoning.text", "signature": "x", "format": "anthropic-claude-v1"}


def ask(*items: Json, **fields: Any) -> Json:
    return {"model": "m", "input": list(items), **fields}


def think(text: str, *details: Json, **calls: Json) -> Json:
    seal = Seal(text=text, details=list(details), calls=calls)
    return {"type": "reasoning", "id": "rs_gateway", "summary": [], "encrypted_content": write_seal(seal)}


@each_case("kind", ["openai", "openai_compatible", "xai", "vllm"])
def test_what_nothing_changed_is_sent_as_it_came(kind: str) -> None:
    turns = [{**HI, "mood": 1}, SAID, CALL, {**RESULT, "later": 2}, HI]
    body = ask(
        *turns, tools=[TOOL], instructions="Be brief.", unheard_of={"a": None}, reasoning={"effort": "low", "x": 1}
    )
    sent, warnings = send(body, kind)
    assert sent == {**body, "model": "up", "store": False} and not warnings


@each_case(
    ("given", "params", "sent"),
    [
        ({}, {"temperature": 0.5}, {"temperature": 0.5}),
        ({"top_p": 1}, {"top_p": 0.5}, {"top_p": 1}),
        ({}, {"max_tokens": 90}, {"max_output_tokens": 90}),
        ({"max_output_tokens": 50}, {"max_tokens": 90}, {"max_output_tokens": 50}),
        ({}, {"reasoning_effort": "low"}, {"reasoning": {"effort": "low"}}),
        (
            {"reasoning": {"summary": "auto"}},
            {"reasoning_effort": "low"},
            {"reasoning": {"summary": "auto", "effort": "low"}},
        ),
        ({"enable_thinking": False}, {}, {"reasoning": {"effort": "none"}}),
        ({"background": True, "stream": True, "cache": "off", "mood": 1}, {}, {"stream": True, "mood": 1}),
        ({"text": {"verbosity": "low"}}, {}, {"text": {"verbosity": "low"}}),
    ],
)
def test_defaults_of_the_model_are_added_where_the_client_says_nothing(given: Json, params: Json, sent: Json) -> None:
    request = read(ask(HI, **given))
    assert request is not None
    merged = msgspec.structs.replace(request, params={**params, **request.params})
    body, _ = write(merged, find_profile("openai", "responses"))
    assert body == {"model": "up", "input": [HI], "store": False, **sent}


@pytest.mark.parametrize(
    ("item", "opened"),
    [
        (think("t", HIDDEN), [ENCRYPTED_THOUGHT]),
        (think("t", HIDDEN, ITEM), [ENCRYPTED_THOUGHT, ITEM["item"]]),
        (think("", FOREIGN), []),
        (ENCRYPTED_THOUGHT, [ENCRYPTED_THOUGHT]),
    ],
)
def test_a_seal_is_what_it_holds_for_this_api(item: Json, opened: list[Json]) -> None:
    sent, _ = send(ask(HI, item, SAID, HI))
    assert sent["input"][1 : 1 + len(opened)] == opened and SEAL_PREFIX not in str(sent)
    assert sent["input"][-1] == HI and len(sent["input"]) == 3 + len(opened)


def test_a_summary_of_the_gateway_is_sent_in_words_to_every_server() -> None:
    summary = {"type": "compaction", "id": "cmp_1", "encrypted_content": write_seal(Seal(text="SUMMARY-71"))}
    for kind in ("openai", "openai_compatible", "lmstudio"):
        sent, warnings = send(ask(summary, HI), kind)
        assert "SUMMARY-71" in str(sent["input"][0]) and sent["input"][1] == HI and not warnings
    stored = send({"model": "m", "previous_response_id": "resp_1", "input": "More"}, stored={"resp_1": [summary]})[0]
    assert "SUMMARY-71" in str(stored["input"][0]) and SEAL_PREFIX not in str(stored) and len(stored["input"]) == 2


def test_a_call_gets_back_what_its_server_wants_with_it() -> None:
    seal = think("t", c1={"openai": {"namespace": "n", "other": 1}})
    sent, _ = send(ask(HI, seal, CALL, RESULT))
    assert sent["input"][-2]["namespace"] == "n" and "other" not in sent["input"][-2]


def test_reasoning_that_nothing_stores_is_left_out_with_a_warning() -> None:
    body = ask(HI, THOUGHT, SAID, HI)
    sent, warnings = send(body)
    assert sent["input"] == [HI, SAID, HI] and len(warnings) == 1 and ENCRYPTED in warnings[0]
    assert send(body, "openai_compatible")[0]["input"] == body["input"]
    unnamed = {name: value for name, value in THOUGHT.items() if name != "id"}
    assert send(ask(HI, unnamed, SAID, HI))[1] == []
    named = send(ask(HI, unnamed, SAID, HI), "openai_compatible")[0]["input"][1]
    assert named["id"].startswith("rs_") and {**named, "id": 0} == {**unnamed, "id": 0}
    without = {name: value for name, value in THOUGHT.items() if name != "summary"}
    assert send(ask(HI, without, SAID, HI), "openai_compatible")[0]["input"][1] == THOUGHT


def test_ids_of_other_servers_are_left_out() -> None:
    given = ask(HI, {**SAID, "id": "item_1"}, {**CALL, "id": "call-7"}, {**RESULT, "id": "fco_1"}, HI)
    sent, _ = send(given)
    assert "id" not in sent["input"][1] and "id" not in sent["input"][2] and sent["input"][3]["id"] == "fco_1"
    assert sent["input"][1]["status"] == "completed"


def test_a_call_id_that_is_too_long_is_shortened_with_its_result() -> None:
    long = "call_" + "x" * 80
    sent, _ = send(ask(HI, {**CALL, "call_id": long}, {**RESULT, "call_id": long}, {**HI, "mood": 1}))
    assert sent["input"][1]["call_id"] == sent["input"][2]["call_id"] != long and len(sent["input"][1]["call_id"]) <= 64
    assert sent["input"][3] == {**HI, "mood": 1}


def test_what_only_the_vendor_knows_is_left_out_with_a_warning_for_other_servers() -> None:
    searched = {
        "type": "web_search_call",
        "id": "ws_1",
        "status": "completed",
        "action": {"type": "search", "query": "x"},
    }
    compacted = {"type": "compaction", "id": "cmp_1", "encrypted_content": "gAAAA"}
    body = ask(compacted, HI, searched, SAID, HI, tools=[TOOL, {"type": "web_search"}], client_metadata={"a": "b"})
    assert send(body)[0] == {**body, "model": "up", "store": False}
    sent, warnings = send(body, "openai_compatible")
    assert sent["input"] == [HI, SAID, HI] and sent["tools"] == [TOOL] and "client_metadata" not in sent
    text = "\n".join(warnings)
    assert all(name in text for name in ("compaction", "web_search_call", "'web_search'", "client_metadata", "takes"))
    alone, _ = send(ask(HI, tools=[{"type": "web_search"}], tool_choice="auto"), "openai_compatible")
    assert "tools" not in alone and "tool_choice" not in alone


def test_an_output_without_a_call_is_what_a_user_says() -> None:
    named = {"type": "function_call_output", "id": "fco_1", "name": "send_message", "output": "told-71"}
    assert send(ask(HI, named))[0]["input"] == [HI, named]
    sent, _ = send(ask(HI, named), "openai_compatible")
    assert sent["input"][1]["role"] == "user" and "told-71" in str(sent["input"][1])


def test_calls_that_the_gateway_ran_are_written_as_functions() -> None:
    listed = {"type": "mcp_list_tools", "id": f"mcpl_{'0' * 32}_0", "server_label": "wx", "tools": []}
    ran = {"type": "mcp_call", "id": "mcp_1", "server_label": "wx", "name": "get", "arguments": "{}", "output": "rain"}
    sent, _ = send(ask(HI, listed, ran, HI))
    assert [item["type"] for item in sent["input"]] == ["message", "function_call", "function_call_output", "message"]
    native = ask(HI, {**listed, "id": "mcpl_other"}, ran, HI)
    assert send(native)[0]["input"] == native["input"]


def test_custom_tools_are_functions_for_a_server_that_knows_only_those() -> None:
    patch = {"type": "custom", "name": "apply_patch", "description": "d"}
    used = {"type": "custom_tool_call", "id": "ctc_1", "call_id": "p1", "name": "apply_patch", "input": "*** Begin"}
    done = {"type": "custom_tool_call_output", "call_id": "p1", "output": "ok"}
    body = ask(HI, used, done, HI, tools=[patch, TOOL])
    assert send(body, "openai_compatible")[0]["input"] == body["input"]
    sent, warnings = send(body, "sglang")
    assert [item["type"] for item in sent["input"]] == ["message", "function_call", "function_call_output", "message"]
    assert [tool["type"] for tool in sent["tools"]] == ["function", "function"] and sent["tools"][1] == TOOL
    assert len(warnings) == 1 and "functions" in warnings[0]


def test_xai_gets_items_of_its_own_tools_and_none_that_only_codex_and_openai_know() -> None:
    """maximhq/bifrost#5428, router-for-me/CLIProxyAPI#4434, lidge-jun/opencodex#4454: it refuses the whole request."""
    listed: Json = {"type": "custom", "name": "exec", "description": "d"}
    named: Json = {"type": "namespace", "name": "mcp__x", "description": "d", "tools": [{**TOOL, "name": "far"}]}
    added: Json = {"type": "additional_tools", "role": "developer", "tools": [named]}
    search: Json = {"type": "web_search_call", "id": "ws_1", "action": {"type": "search", "query": "q"}}
    parts = [{"type": "input_text", "text": "done-71"}, {"type": "encrypted_content", "encrypted_content": "gAAA"}]
    told: Json = {"type": "agent_message", "author": "/root/a", "recipient": "/root", "content": parts}
    far: Json = {**CALL, "name": "far", "namespace": "mcp__x"}
    body = ask(HI, search, added, told, far, RESULT, tools=[listed, {"type": "x_search"}, TOOL])
    assert send(body)[0]["input"] == body["input"]
    sent, _ = send(body, "xai")
    kinds = ["message", "web_search_call", "message", "function_call", "function_call_output"]
    assert [item["type"] for item in sent["input"]] == kinds and sent["input"][1] == search
    assert "done-71" in str(sent["input"][2]) and "gAAA" not in str(sent)
    assert (sent["input"][3]["name"], "namespace" in sent["input"][3]) == ("mcp__x__far", False)
    assert {tool.get("name", tool["type"]) for tool in sent["tools"]} == {"exec", "mcp__x__far", "look", "x_search"}
    assert {tool["type"] for tool in sent["tools"]} == {"function", "x_search"}


def test_a_text_as_input_stays_a_text() -> None:
    assert send({"model": "m", "input": "Hi"})[0] == {"model": "up", "input": "Hi", "store": False}
    stored = {"resp_1": [HI, SAID]}
    sent, _ = send({"model": "m", "input": "More", "previous_response_id": "resp_1", "store": True}, stored=stored)
    assert sent == {
        "model": "up",
        "input": [HI, SAID, {"type": "message", "role": "user", "content": "More"}],
        "store": False,
    }


def test_encrypted_reasoning_is_asked_for_beside_what_the_client_asks_for() -> None:
    for given, asked in (([], [ENCRYPTED]), (["x"], ["x", ENCRYPTED]), ([ENCRYPTED], [ENCRYPTED])):
        assert send(ask(HI, include=given), encrypted_reasoning=True)[0]["include"] == asked


def test_instructions_that_a_step_writes_are_sent() -> None:
    format_ = {"type": "json_schema", "name": "n", "schema": {"type": "object"}}
    sent, _ = send(ask(HI, instructions="Be brief.", text={"format": format_, "verbosity": "low"}), response_formats=())
    assert (
        "Be brief." in sent["instructions"] and "JSON" in sent["instructions"] and sent["text"] == {"verbosity": "low"}
    )
    added, _ = send(ask({**HI, "mood": 1}), default_system={"en": "You are useful."})
    assert added["instructions"] == "You are useful." and added["input"] == [{**HI, "mood": 1}]


def test_a_server_that_takes_everything_says_itself_what_is_wrong() -> None:
    orphan = ask(HI, RESULT)
    assert send(orphan)[0]["input"] == orphan["input"]
    repaired, warnings = send(orphan, "openai_compatible")
    assert repaired["input"][1]["role"] == "user" and "sunny" in str(repaired["input"][1]) and len(warnings) == 1
    refused = read(orphan)
    assert refused is not None and refused.source is not None
    unsent = msgspec.structs.replace(refused.source, unsent=frozenset((1,)))
    with pytest.raises(InvalidInput):
        write(msgspec.structs.replace(refused, source=unsent), find_profile("openai", "responses"))
    sent, _ = send(ask(HI, think("t"), SAID, RESULT, {**HI, "mood": 1}))
    assert sent["input"] == [HI, SAID, RESULT, {**HI, "mood": 1}]


def test_a_field_that_the_server_lacks_is_left_out_with_a_warning() -> None:
    sent, warnings = send(ask(HI, seed=5, stream=True), stream="never")
    assert "seed" not in sent and sent["stream"] is False
    assert warnings == ["seed was not sent: this model's server has no such parameter"]


def refuse(body: Json, **params: Any) -> str:
    """Return the error of a server that does not take everything, without the steps that repair a conversation."""
    request = read(body)
    assert request is not None
    request = msgspec.structs.replace(request, params={**request.params, **params})
    with pytest.raises(InvalidInput) as caught:
        build_own(request, "up", find_profile("openai_compatible", "responses"))
    return str(caught.value)


def test_what_no_step_repaired_is_refused_with_its_path() -> None:
    assert "input[1]" in refuse(ask(HI, RESULT))
    assert "leave it out of extra_body" in refuse(ask(HI), extra_body={"model": "x"})


@each_case("status", ["completed", None])
def test_reasoning_goes_without_what_no_server_takes_back(status: str | None) -> None:
    """lidge-jun/opencodex#2248, 1jehuang/jcode#1028: "Unknown parameter: 'input[1].status'", which other servers write;
    jlcodes99/cockpit-tools#2012: "Invalid 'input[15].content': array too long. Expected an array with maximum length 0"
    """
    thought = {**ENCRYPTED_THOUGHT, "status": status, "content": [{"type": "reasoning_text", "text": "t"}]}
    body = ask(HI, thought, SAID, HI)
    assert send(body)[0]["input"][1] == ENCRYPTED_THOUGHT
    assert send(body, "openai_compatible")[0]["input"][1] == {**ENCRYPTED_THOUGHT, "content": thought["content"]}


@each_case("given", [{}, {"summary": None}])
@each_case("kind", ["openai_compatible", "openai"])
def test_reasoning_without_a_summary_gets_an_empty_one(given: Json, kind: str) -> None:
    """zai-org/feedback#682: strict servers refuse the request."""
    thought = {name: value for name, value in ENCRYPTED_THOUGHT.items() if name != "summary"} | given
    sent, warnings = send(ask(HI, thought, SAID, HI), kind)
    assert (sent["input"][1], warnings) == (ENCRYPTED_THOUGHT, [])


def test_media_of_a_result_follow_it_where_the_server_takes_only_texts() -> None:
    picture = {"type": "input_image", "image_url": f"data:image/png;base64,{PNG}"}
    body = ask(HI, CALL, {**RESULT, "output": [picture]}, {**HI, "mood": 1}, tools=[TOOL])
    assert send(body)[0]["input"] == body["input"]
    sent = send(body, tool_media=False)[0]["input"]
    assert isinstance(sent[2]["output"], str) and PNG in str(sent[3:]) and sent[1] == CALL


SEARCHED: Json = {"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {"type": "search"}}


@each_case(
    ("items", "kept"),
    [([HI, SAID, HI], True), ([HI, RESULT], False), ([HI, SEARCHED, SAID, HI], False)],
)
def test_a_beginning_is_written_only_without_violations_and_warnings(items: list[Json], kept: bool) -> None:
    request = read(ask(*items))
    assert request is not None
    written = write_own_beginning(request, find_profile("openai_compatible", "responses"))
    assert (None if written is None else written.messages) == (items if kept else None)


def test_log_probabilities_are_not_asked_of_a_server_without_them() -> None:
    given = ["message.output_text.logprobs", "x"]
    assert send(ask(HI, include=given))[0]["include"] == given
    assert send(ask(HI, include=given), lacks=("logprobs",))[0]["include"] == ["x"]


def test_a_choice_without_tools_is_sent_as_it_came_to_a_server_that_takes_everything() -> None:
    assert send(ask(HI, tool_choice="required"), "openai")[0]["tool_choice"] == "required"
    assert "tool_choice" not in send(ask(HI, tool_choice="auto"), "openai_compatible")[0]


def test_a_search_of_the_gateway_is_a_call_of_the_client_for_the_server() -> None:
    id_ = f"ws_{'0' * 32}_0"
    used = {"type": "web_search_call", "id": id_, "status": "completed", "action": {"type": "search", "query": "x"}}
    result = SealedResult("call_1", "web_search", '{"query": "x"}', "[1] U\nu\nwords")
    found = {"type": "reasoning", "summary": [], "encrypted_content": write_seal(Seal(results={id_: result}))}
    sent, _ = send(ask(HI, used, found, SAID, HI))
    kinds = [item.get("type", "message") for item in sent["input"]]
    assert kinds == ["message", "function_call", "function_call_output", "message", "message"]
    assert sent["input"][2]["output"] == "[1] U\nu\nwords"


LEFT_OUT: Json = {
    "type": "web_search_call",
    "id": "ws_1",
    "status": "completed",
    "action": {"type": "search", "query": "x"},
}


@each_case(
    "turn",
    [
        [LEFT_OUT, ENCRYPTED_THOUGHT],
        [ENCRYPTED_THOUGHT, LEFT_OUT],
        [SAID, LEFT_OUT, ENCRYPTED_THOUGHT],
        [LEFT_OUT, ENCRYPTED_THOUGHT, SAID],
        [LEFT_OUT, ENCRYPTED_THOUGHT, LEFT_OUT, {**ENCRYPTED_THOUGHT, "id": "rs_3"}, CALL, RESULT],
        [CALL, RESULT, LEFT_OUT, ENCRYPTED_THOUGHT],
    ],
)
def test_items_beside_one_that_is_left_out_are_sent_as_they_came(turn: list[Json]) -> None:
    sent, warnings = send(ask(HI, *turn, HI), "openai_compatible")
    assert sent["input"] == [item for item in [HI, *turn, HI] if item is not LEFT_OUT]
    assert len(warnings) == 1 and "web_search_call" in warnings[0]


def test_reasoning_behind_a_turn_that_is_translated_goes_before_its_text() -> None:
    custom = {"type": "custom_tool_call", "id": "ctc_1", "call_id": "c2", "name": "run", "input": "x"}
    output = {"type": "custom_tool_call_output", "call_id": "c2", "output": "done"}
    for turn, kept in (([SAID, ENCRYPTED_THOUGHT], True), ([ENCRYPTED_THOUGHT], False)):
        # The opening of a seal changes the message, so that all of its turn is translated.
        sent, warnings = send(ask(HI, custom, output, HI, think("", FOREIGN), LEFT_OUT, *turn, HI), "vllm")
        assert ("reasoning" in [item["type"] for item in sent["input"]]) is kept
        assert any("at the end of a turn" in text for text in warnings) is not kept


def test_an_item_that_strict_servers_refuse_is_written_anew_for_them() -> None:
    bare: Json = {"role": "assistant", "content": [{"type": "output_text", "text": "So."}]}
    empty: Json = {**SAID, "content": []}
    nothing: Json = {"type": "reasoning", "id": "rs_1", "summary": []}
    body = ask(HI, bare, HI, empty, nothing, CALL, RESULT)
    sent, _ = send(body, "vllm")
    assert sent["input"][1]["content"] == "So."
    kinds = [item.get("type", "message") for item in sent["input"]]
    assert kinds == ["message", "message", "message", "function_call", "function_call_output"]
    sent, _ = send(ask(HI, bare, HI, empty, CALL, RESULT), "openai")
    assert sent["input"][1] == bare and sent["input"][3] == empty


@each_case("kind", ["openai", "vllm"])
def test_the_object_of_an_image_becomes_its_url(kind: str) -> None:
    image: Json = {"type": "input_image", "image_url": {"url": f"data:image/png;base64,{PNG}"}}
    sent, _ = send(ask({"role": "user", "content": [image]}), kind)
    assert [part["image_url"] for part in sent["input"][0]["content"]] == [f"data:image/png;base64,{PNG}"]


@each_case("kind", ["openai", "vllm"])
def test_an_id_that_an_earlier_call_has_is_numbered(kind: str) -> None:
    """hermes-agent 102629: ids that begin anew in each turn."""
    sent, _ = send(ask(HI, CALL, RESULT, HI, CALL, RESULT, HI), kind)
    ids = [item["call_id"] for item in sent["input"] if "call_id" in item]
    assert ids[0] == ids[1] == "c1" and ids[2] == ids[3] != "c1"
