"""What the body of `POST /v1/responses` becomes, and the places of the caller's own body in what is said of it."""

import json
import math
from typing import Any

from app.chat.messages import Text
from app.errors import BadRequest, InvalidInput, NotFound, ParleyError, PreviousResponseNotFound
from app.formats.body import (
    NOTHING_STORED,
    ParsedRequest,
    RejectedRequest,
    StoredConversation,
    StoredItems,
    UnresolvedRequest,
)
from app.formats.request_limits import RequestLimits
from app.formats.responses.body import parse_responses_body
from app.formats.seal import Seal, write_seal

from tests.each_case import each_case

Json = dict[str, Any]
LIMITS = RequestLimits(max_messages=5, max_content_items=20, max_functions=2, max_nesting=9)
QUESTION: Json = {"role": "user", "content": "Hi"}
CALL: Json = {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"}
FUNCTION: Json = {"type": "function", "name": "f"}
IMAGE: Json = {"role": "user", "content": [{"type": "input_image", "image_url": "/home/me/a.png"}]}


def parse(body: Json, stored: StoredItems = NOTHING_STORED) -> ParsedRequest | RejectedRequest:
    parsed = parse_responses_body(json.dumps({"model": "m", **body}).encode(), LIMITS)
    return parsed.resolve(stored) if isinstance(parsed, UnresolvedRequest) else parsed


def accept(body: Json, stored: StoredItems = NOTHING_STORED) -> ParsedRequest:
    parsed = parse(body, stored)
    assert isinstance(parsed, ParsedRequest)
    return parsed


def reject(body: Json, stored: StoredItems = NOTHING_STORED) -> ParleyError:
    rejected = parse(body, stored)
    assert isinstance(rejected, RejectedRequest)
    return rejected.error


def refuse(body: Json) -> list[str]:
    error = reject(body)
    assert isinstance(error, InvalidInput)
    return [violation.path for violation in error.violations]


def texts(parsed: ParsedRequest) -> list[str]:
    return [part.text for message in parsed.request.messages for part in message.parts if isinstance(part, Text)]


def test_messages_have_the_places_of_their_items() -> None:
    stored = StoredItems({"resp_1": [QUESTION, {"role": "assistant", "content": "Yes?"}]})
    body = {"instructions": "Be brief.", "previous_response_id": "resp_1", "input": [QUESTION, QUESTION]}
    places = ["instructions", "previous_response_id[0]", "previous_response_id[1]", "input[0]", "input[1]"]
    assert [message.path for message in accept(body, stored).request.messages] == places


def test_old_media_of_a_stored_response_become_words() -> None:
    stored = StoredItems({"resp_1": [IMAGE, {"role": "assistant", "content": "Nice."}]})
    parsed = accept({"previous_response_id": "resp_1", "input": "And now?"}, stored)
    [warning] = parsed.warnings
    assert warning.startswith("previous_response_id[0].content[0].image_url was not sent: ")
    assert refuse({"input": [IMAGE]}) == ["input[0].content[0].image_url"]


@each_case(
    ("fields", "name", "path"),
    [
        ({}, "max_tokens", "max_output_tokens"),
        ({"max_output_tokens": 5}, "max_tokens", "max_output_tokens"),
        ({"max_tokens": 5}, "max_tokens", "max_tokens"),
        ({"reasoning": {"effort": "low"}}, "reasoning_effort", "reasoning.effort"),
        ({"reasoning_effort": "low"}, "reasoning_effort", "reasoning_effort"),
        ({"reasoning": {"effort": "none"}}, "enable_thinking", "reasoning.effort"),
        ({"enable_thinking": False}, "enable_thinking", "enable_thinking"),
        ({"text": {"format": {"type": "json_object"}}}, "response_format", "text.format"),
        ({"response_format": {"type": "json_object"}}, "response_format", "response_format"),
        ({"truncation": "disabled"}, "max_input_tokens", "truncation"),
        ({"temperature": 1}, "temperature", "temperature"),
        ({"tools": [FUNCTION], "tool_choice": "auto"}, "function_choice", "tool_choice"),
    ],
)
def test_a_parameter_has_the_name_under_which_the_caller_gave_it(fields: Json, name: str, path: str) -> None:
    request = accept({"input": "Hi", **fields}).request
    assert request.paths.param(name) == path
    assert request.paths.extra("chat_template_kwargs") == "chat_template_kwargs"


def test_settings_of_an_item_have_its_place() -> None:
    update = {"type": "configuration_update", "reasoning": {"effort": "low"}}
    assert accept({"input": [QUESTION, update]}).request.paths.param("reasoning_effort") == "input[1].reasoning.effort"


@each_case(
    ("body", "places"),
    [
        ({"input": "Hi", "max_tokens": 0}, ["max_tokens"]),
        ({"input": "Hi", "max_output_tokens": 0}, ["max_output_tokens"]),
        ({"input": "Hi", "temperature": "hot", "stream": 5}, ["stream", "temperature"]),
        ({"input": [QUESTION] * 6}, ["input"]),
        ({"input": "Hi", "tools": [FUNCTION | {"name": name} for name in "fgh"]}, ["tools"]),
        ({"input": [QUESTION, CALL], "tools": [FUNCTION], "truncation": "x"}, ["truncation"]),
        ({"input": [QUESTION | {"content": 5}], "metadata": {"a": 5}}, ["metadata.a", "input[0].content"]),
        ({"input": "Hi", "text": {"format": {"type": "json_schema", "schema": [[[[[[[[[[1]]]]]]]]]]}}}, None),
        ({"input": ""}, ["input"]),
        ({"input": []}, ["input"]),
    ],
)
def test_violations_have_the_places_of_the_callers_body(body: Json, places: list[str] | None) -> None:
    found = refuse(body)
    assert found == places if places is not None else all(place.startswith("text.format") for place in found)


@each_case(
    ("fields", "places"),
    [
        ({"input": 5}, ["input"]),
        ({}, ["input"]),
        ({"messages": [QUESTION]}, ["input"]),
        ({"input": "Hi", "tools": {}}, ["tools"]),
        ({"input": "Hi", "reasoning": "low"}, ["reasoning"]),
        ({"input": "Hi", "reasoning": {"effort": 5}}, ["reasoning.effort"]),
        ({"input": "Hi", "text": "json"}, ["text"]),
        ({"input": "Hi", "text": {"format": "json"}}, ["text.format"]),
        ({"input": "Hi", "text": {"format": {"type": "json_schema"}}}, ["text.format"]),
        ({"input": "Hi", "text": {"format": {"type": "grammar"}}}, ["text.format.type"]),
        ({"input": "Hi", "top_logprobs": 21}, ["top_logprobs"]),
        ({"input": "Hi", "top_logprobs": "5"}, ["top_logprobs"]),
        ({"input": "Hi", "include": "all"}, ["include"]),
        ({"input": "Hi", "include": [5]}, ["include"]),
        ({"input": "Hi", "background": True, "store": False}, ["background"]),
        ({"input": "Hi", "conversation": "c"}, ["conversation"]),
        ({"input": "Hi", "temprature": 1}, ["temprature"]),
        ({"input": "Hi", "system": 5}, ["system"]),
        ({"input": "Hi", "stop_sequences": 5}, ["stop_sequences"]),
        ({"input": "Hi", "functions": [5]}, ["functions[0]"]),
        ({"input": [{"type": "compaction_trigger"}]}, ["input"]),
        ({"input": [{"type": "compaction_trigger"}, QUESTION]}, ["input[0]"]),
    ],
)
def test_what_cannot_be_done_is_refused_at_its_place(fields: Json, places: list[str]) -> None:
    assert refuse(fields) == places


def test_a_body_that_is_no_object_is_refused() -> None:
    rejected = parse_responses_body(b"[]", LIMITS)
    assert isinstance(rejected, RejectedRequest) and isinstance(rejected.error, BadRequest)


def test_too_many_items_are_refused_before_anything_is_looked_up() -> None:
    rejected = parse_responses_body(json.dumps({"model": "m", "input": [{"id": "a"}] * 6}).encode(), LIMITS)
    assert isinstance(rejected, RejectedRequest) and rejected.error.code == "invalid_request"


REFERENCE: Json = {"type": "item_reference", "id": "msg_1"}
EMPTY_REASONING: Json = {"type": "reasoning", "id": "rs_1", "summary": []}


def test_references_are_replaced_by_what_is_stored() -> None:
    thought = {"type": "reasoning", "id": "rs_1", "content": [{"type": "reasoning_text", "text": "Hm."}]}
    stored = StoredItems(items={"msg_1": QUESTION, "rs_1": thought})
    given = [REFERENCE, {"id": "msg_1"}, EMPTY_REASONING, {**QUESTION, "id": "mine"}]
    parsed = parse_responses_body(json.dumps({"model": "m", "input": given}).encode(), LIMITS)
    assert isinstance(parsed, UnresolvedRequest)
    assert (parsed.response_id, parsed.item_ids) == (None, ("msg_1", "msg_1", "rs_1"))
    resolved = parsed.resolve(stored)
    assert isinstance(resolved, ParsedRequest)
    assert [message.role for message in resolved.request.messages] == ["user", "user", "assistant", "user"]


def test_what_is_not_stored_is_not_found() -> None:
    assert isinstance(reject({"input": [REFERENCE]}), NotFound)
    assert isinstance(reject({"input": "Hi", "previous_response_id": "resp_1"}), PreviousResponseNotFound)
    assert not isinstance(reject({"input": "Hi", "previous_response_id": 5}), PreviousResponseNotFound)


def test_a_summary_stands_for_what_precedes_it() -> None:
    trigger = {"type": "compaction_trigger"}
    asked = accept({"input": [QUESTION, trigger], "tools": [FUNCTION], "tool_choice": "required"})
    assert asked.options.responses.compacts and asked.request.params["function_choice"] == "none"
    assert texts(asked)[-1].startswith("Write a summary")
    summary = {"type": "compaction", "encrypted_content": write_seal(Seal(text="They said hi."))}
    kept: list[Any] = [{"role": "system", "content": "Be brief."}, {"type": "additional_tools", "tools": [FUNCTION]}]
    stored = StoredItems({"resp_1": [*kept, QUESTION, {"type": "compaction"}, "odd", summary, trigger]})
    parsed = accept({"previous_response_id": "resp_1", "input": "Go on."}, stored)
    assert [tool.name for tool in parsed.request.tools] == ["f"]
    assert texts(parsed)[0] == "Be brief." and texts(parsed)[-1] == "Go on."
    assert not any("Hi" in text for text in texts(parsed))


def test_a_choice_of_some_tools_leaves_the_others_out() -> None:
    allowed = {"type": "allowed_tools", "mode": "required", "tools": [{"type": "function", "name": "f"}]}
    two = {"input": "Hi", "tools": [FUNCTION, {"type": "function", "name": "g"}], "tool_choice": allowed}
    request = accept(two).request
    assert [tool.name for tool in request.tools] == ["f"] and request.params["function_choice"] == "required"


def test_what_the_response_repeats_and_what_is_ignored() -> None:
    body = {
        "input": "Hi",
        "store": False,
        "reasoning": {"summary": "auto", "other": 1},
        "text": {"verbosity": "low", "format": {"type": "text"}, "other": 1},
        "messages": [QUESTION],
        "user": "u",
        "parallel_tool_calls": True,
        "chat_template_kwargs": {"a": 1},
    }
    parsed = accept(body)
    options = parsed.options.responses
    assert options.summary and options.sealed
    assert options.fields["reasoning"] == {"effort": None, "summary": "auto", "other": 1}
    assert (options.fields["user"], options.fields["store"]) == ("u", False)
    assert parsed.request.params == {"extra_body": {"chat_template_kwargs": {"a": 1}}}
    assert [text.partition(" ")[0] for text in parsed.warnings] == ["reasoning.other", "text.other", "messages"]


def test_a_response_names_its_conversation_if_it_has_one() -> None:
    kept = StoredItems(conversation=StoredConversation("conv_1", [], 0.0), keeps_conversations=True)
    alone, within = accept({"input": "Hi"}), accept({"input": "Hi", "conversation": "conv_1"}, kept)
    assert "conversation" not in alone.options.responses.fields
    assert within.options.responses.fields["conversation"] == {"id": "conv_1"}


def test_a_refused_body_with_two_contexts_is_for_no_server() -> None:
    kept = StoredItems(conversation=StoredConversation("conv_1", [], 0.0), keeps_conversations=True)
    body = {"input": [QUESTION], "text": {"format": {"type": "grammar"}}, "conversation": "conv_1"}
    one, two = parse(body, kept), parse({**body, "previous_response_id": "resp_1"}, kept)
    assert isinstance(one, RejectedRequest) and one.passed is not None
    assert isinstance(two, RejectedRequest) and two.passed is None


def test_settings_of_the_reply() -> None:
    parsed = accept({"input": "Hi", "background": True, "cache": "off", "metadata": {"a": "b"}})
    settings = parsed.settings
    assert (settings.stream, settings.mode, settings.unread_seconds) == (True, "delta", math.inf)
    assert settings.cache is not None and (settings.cache.mode, settings.metadata) == ("off", {"a": "b"})
    whole = accept({"input": "Hi"}).settings
    assert (whole.stream, whole.mode, whole.unread_seconds) == (False, "whole", 0.0)


def test_the_last_format_of_text_counts_and_a_schema_is_passed_on() -> None:
    schema = {"type": "json_schema", "name": "s", "schema": {"type": "object"}}
    update = {"type": "configuration_update", "text": {"format": schema, "other": 1}}
    parsed = accept({"input": [QUESTION, update], "text": {"format": {"type": "json_object"}}})
    assert parsed.request.params["response_format"]["type"] == "json_schema"
    assert parsed.request.paths.param("response_format") == "input[1].text.format"
    assert [text.partition(" ")[0] for text in parsed.warnings] == ["input[1].text.other"]


@each_case(
    ("id_", "is_own"),
    [
        ("mcpl_c08a1ab582443de35010a0b077793962_0", True),
        ("mcpl_682d4379df088191886b70f4ec39f90403937d5f622d7a90", False),
        (None, False),
    ],
)
def test_calls_that_the_gateway_ran_are_known_by_the_list_of_their_tools(id_: str | None, is_own: bool) -> None:
    listed: Json = {"type": "mcp_list_tools", "id": id_, "server_label": "wx", "tools": []}
    called = {"type": "mcp_call", "id": "mcp_1", "server_label": "wx", "name": "get", "output": "rain"}
    stored = StoredItems({"resp_1": [QUESTION, listed, called]})
    request = accept({"previous_response_id": "resp_1", "input": "And now?"}, stored).request
    assert request.source is not None and request.source.has_own_calls is is_own


def test_what_the_client_calls_itself_and_the_conversation_is_kept_for_the_server() -> None:
    named = {"prompt_cache_key": "session", "safety_identifier": "someone", "user": None}
    assert accept({"input": "Hi", **named}).request.caller_fields == {
        "prompt_cache_key": "session",
        "safety_identifier": "someone",
    }
