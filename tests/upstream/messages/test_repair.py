"""A server that cannot verify the reasoning of earlier turns is sent the request once more without it."""

import json
from typing import Any

import httpx
import pytest
from app.chat.events import Fault
from app.upstream.api import find_api, repair_refused
from app.upstream.messages.repair import strip_reasoning

from tests.in_process_gateway import ModelServer, Running
from tests.upstream.messages.replies import REPLY, SETTINGS

Json = dict[str, Any]
THOUGHT = {"type": "thinking", "thinking": "t", "signature": "s"}
CALL = {"type": "tool_use", "id": "c", "name": "f", "input": {}}
RESULT = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c", "content": "r"}]}
HISTORY = [
    {"role": "user", "content": "Hi"},
    {
        "role": "assistant",
        "content": "Hello.",
        "reasoning_content": "t",
        "reasoning_details": [{"type": "reasoning.text", "signature": "s", "format": "anthropic-claude-v1"}],
    },
    {"role": "user", "content": "More"},
]


def body(*messages: Json, **fields: Any) -> Json:
    return {"model": "m", "messages": list(messages)} | fields


def test_thinking_goes_and_a_message_that_is_only_a_thought_with_it() -> None:
    given = body({"role": "assistant", "content": [THOUGHT]}, {"role": "assistant", "content": [THOUGHT, CALL]}, RESULT)
    assert strip_reasoning(given) == body({"role": "assistant", "content": [CALL]}, RESULT)


def test_thinking_with_a_budget_goes_where_the_server_demands_a_thought() -> None:
    given = body({"role": "assistant", "content": [THOUGHT, CALL]}, RESULT, thinking={"type": "enabled"})
    assert strip_reasoning(given) == body({"role": "assistant", "content": [CALL]}, RESULT)


def test_a_body_without_thoughts_or_whose_caller_wants_the_refusal_is_left_alone() -> None:
    assert strip_reasoning(body({"role": "user", "content": "x"})) is None
    assert strip_reasoning(body({"role": "assistant", "content": "x"}, {"role": "assistant", "content": []})) is None
    assert strip_reasoning(body({"role": "assistant", "content": [CALL]}, RESULT, thinking={"type": "enabled"})) is None
    binding = {"type": "adaptive", "block_binding": {"prefix_mismatch_behavior": "error"}}
    assert strip_reasoning(body({"role": "assistant", "content": [THOUGHT]}, thinking=binding)) is None


REFUSALS = (
    "messages.1.content.0: Invalid `signature` in `thinking` block",
    "messages.1.content.0.thinking.signature: Field required",
    "`thinking` or `redacted_thinking` blocks in the latest assistant message cannot be modified",
    "messages.5.content.5: thinking blocks cannot be modified",
    "messages.1.content.0.thinking: each thinking block must contain thinking",
)


@pytest.mark.parametrize("message", REFUSALS)
def test_a_refused_signature_is_sent_once_more_without_it_and_a_warning(message: str) -> None:
    def answer(request: httpx.Request) -> httpx.Response:
        if b"thinking" in request.content:
            error = {"type": "error", "error": {"type": "invalid_request_error", "message": message}}
            return httpx.Response(400, json=error)
        return httpx.Response(200, json=REPLY)

    server = ModelServer(answer)
    with Running(SETTINGS, server) as gateway:
        answered = gateway.post("/v1/chat/completions", {"model": "anthropic", "messages": HISTORY})
    assert answered.status == 200
    assert [b"thinking" in request.content for request in server.requests] == [True, False]
    assert "cannot verify" in json.dumps(answered.json)


def test_a_body_from_which_nothing_can_be_taken_is_not_sent_again() -> None:
    error = {"type": "error", "error": {"type": "invalid_request_error", "message": REFUSALS[0]}}
    server = ModelServer(lambda _: httpx.Response(400, json=error))
    asked: list[Json] = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": [CALL]}, RESULT]
    tools = [{"name": "f", "input_schema": {"type": "object"}}]
    with Running(SETTINGS, server) as gateway:
        answered = gateway.post("/v1/messages", body(*asked, model="anthropic", max_tokens=9, tools=tools))
    assert (answered.status, len(server.requests)) == (400, 1)


def test_another_refusal_is_not_repaired() -> None:
    error = {"type": "error", "error": {"type": "invalid_request_error", "message": "max_tokens: too large"}}
    server = ModelServer(lambda _: httpx.Response(400, json=error))
    with Running(SETTINGS, server) as gateway:
        answered = gateway.post("/v1/chat/completions", {"model": "anthropic", "messages": HISTORY})
    assert (answered.status, len(server.requests)) == (400, 1)


def test_thinking_that_is_bound_elsewhere_may_be_dropped_by_the_server() -> None:
    server = ModelServer(lambda _: httpx.Response(200, json=REPLY))
    models = {"m": {"upstreams": ["anthropic"], "profile": {"thinking_binding": "drop_block"}}}
    with Running({**SETTINGS, "models": models}, server) as gateway:
        body = {"model": "m", "messages": HISTORY, "enable_thinking": True}
        assert gateway.post("/v1/chat/completions", body).status == 200
    binding = {"prefix_mismatch_behavior": "drop_block"}
    assert json.loads(server.requests[0].content)["thinking"] == {"type": "adaptive", "block_binding": binding}
    assert server.requests[0].headers["anthropic-beta"] == "thinking-binding-controls-2026-08-01"


def test_a_refusal_that_a_relay_has_wrapped_is_found() -> None:
    inner = {"type": "error", "error": {"type": "invalid_request_error", "message": REFUSALS[0]}, "request_id": "r"}
    wrapped = {"type": "error", "error": {"type": "request_fail", "upstream_error": inner}}
    server = ModelServer(
        lambda request: (
            httpx.Response(400, json=wrapped) if b"thinking" in request.content else httpx.Response(200, json=REPLY)
        )
    )
    with Running(SETTINGS, server) as gateway:
        answered = gateway.post("/v1/chat/completions", {"model": "anthropic", "messages": HISTORY})
    assert (answered.status, len(server.requests)) == (200, 2)


SYSTEM = {"role": "system", "content": "Be brief."}
USER = {"role": "user", "content": "Hi"}
SAID = {"role": "assistant", "content": "Hello."}
RULE: Json = {"type": "text", "text": "Be brief."}
ASKED: Json = {"type": "text", "text": "Hi"}
MISPLACED = "messages.2: role 'system' must precede an 'assistant' message or end the array"
UNKNOWN = 'messages: Unexpected role "system". The Messages API accepts a top-level `system` parameter'


def refuse(words: str, *messages: Json) -> Any:
    """The messages that are sent after a refusal in these words."""
    data = json.dumps(body(*messages)).encode()
    repaired = repair_refused(find_api("messages"), data, Fault("invalid_request", words, False, 400))
    return None if repaired is None else json.loads(repaired.data)["messages"]


def test_a_system_message_where_none_is_taken_is_a_text_of_the_user() -> None:
    joined = {"role": "user", "content": [RULE, ASKED]}
    assert refuse(MISPLACED, USER, SAID, SYSTEM, USER) == [USER, SAID, joined]
    assert refuse(MISPLACED, SYSTEM, USER) == [joined]
    assert refuse(MISPLACED, USER, SYSTEM, USER) == [{"role": "user", "content": [ASKED, RULE, ASKED]}]
    assert refuse(MISPLACED, USER, SAID, SYSTEM) == [USER, SAID, {**SYSTEM, "role": "user"}]
    assert refuse(MISPLACED, USER, SYSTEM, SAID, USER, SYSTEM) is None
    assert refuse(MISPLACED, USER) is None


@pytest.mark.parametrize("words", [UNKNOWN, "messages.1.role: Input should be 'user' or 'assistant'"])
def test_a_server_may_take_no_system_messages_in_the_conversation(words: str) -> None:
    assert refuse(words, USER, SYSTEM, SAID) == [{"role": "user", "content": [ASKED, RULE]}, SAID]
    assert refuse(words, USER, SAID) is None


# -- thinking -----------------------------------------------------------------------------------------------------

NOT_ADAPTIVE = "adaptive thinking is not supported on this model"
CALLED = {"role": "assistant", "content": [{"type": "tool_use", "id": "t", "name": "f", "input": {}}]}
RETURNED = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t", "content": "r"}]}


def repair(words: str, given: Json) -> Any:
    fault = Fault("invalid_request", words, False, 400)
    repaired = repair_refused(find_api("messages"), json.dumps(given).encode(), fault)
    return None if repaired is None else json.loads(repaired.data)


def ask(*messages: Json, **options: Any) -> Json:
    return {"model": "m", "max_tokens": 10_000, "messages": list(messages), **options}


def test_a_model_without_adaptive_thinking_gets_a_budget() -> None:
    given = ask(USER, thinking={"type": "adaptive", "display": "omitted"}, output_config={"effort": "low"})
    assert repair(NOT_ADAPTIVE, given) == {**given, "thinking": {"type": "enabled", "budget_tokens": 2000}}
    words = "thinking: Input tag 'adaptive' found using 'type' does not match any of the expected tags"
    sent = ask(USER, thinking={"type": "enabled", "budget_tokens": 8000})
    assert repair(words, ask(USER, thinking={"type": "adaptive"})) == sent
    words = "Only 'enabled' and 'disabled' are supported for thinking; 'adaptive' is not supported."
    assert repair(words, ask(USER, thinking={"type": "adaptive"})) == sent
    small = {**given, "max_tokens": 1024}
    assert repair(NOT_ADAPTIVE, small) == {name: value for name, value in small.items() if name != "thinking"}
    assert repair(NOT_ADAPTIVE, ask(USER)) is None


def test_a_budget_needs_the_thought_of_the_last_calls() -> None:
    given = ask(USER, CALLED, RETURNED, thinking={"type": "adaptive"})
    assert repair(NOT_ADAPTIVE, given) == ask(USER, CALLED, RETURNED)
    assert repair(NOT_ADAPTIVE, ask(RETURNED, thinking={"type": "adaptive"})) == ask(RETURNED)
    counted = {"model": "m", "messages": [USER]}  # has no limit
    assert repair(NOT_ADAPTIVE, {**counted, "thinking": {"type": "adaptive"}}) == counted
    thought = {"type": "thinking", "thinking": "hm", "signature": "s"}
    thinks = {"role": "assistant", "content": [thought, *CALLED["content"]]}
    sent = ask(USER, thinks, RETURNED, thinking={"type": "enabled", "budget_tokens": 8000})
    assert repair(NOT_ADAPTIVE, ask(USER, thinks, RETURNED, thinking={"type": "adaptive"})) == sent


def test_a_model_without_budgets_decides_itself() -> None:
    words = (
        '"thinking.type.enabled" is not supported for this model. Use "thinking.type.adaptive" and "output_config...'
    )
    given = ask(USER, thinking={"type": "enabled", "budget_tokens": 2000, "display": "summarized"})
    assert repair(words, given) == ask(USER, thinking={"type": "adaptive", "display": "summarized"})
    assert repair(words, ask(USER, thinking={"type": "adaptive"})) is None


@pytest.mark.parametrize(
    "words",
    ["This model does not support the effort parameter.", "output_config.effort: Extra inputs are not permitted"],
)
def test_a_refused_effort_is_left_out(words: str) -> None:
    format_ = {"type": "json_schema", "schema": {}}
    assert repair(words, ask(USER, output_config={"effort": "high"})) == ask(USER)
    given = ask(USER, output_config={"effort": "high", "format": format_})
    assert repair(words, given) == ask(USER, output_config={"format": format_})
    assert repair(words, ask(USER, output_config={"format": format_})) is None


@pytest.mark.parametrize(
    "words",
    [
        '"thinking.type.disabled" is not supported for this model.',
        "When `thinking` is enabled, a final `assistant` message must start with a thinking block",
        "m does not support thinking",
    ],
)
def test_refused_thinking_is_left_out(words: str) -> None:
    assert repair(words, ask(USER, thinking={"type": "disabled"})) == ask(USER)
    assert repair(words, ask(USER)) is None


@pytest.mark.parametrize(
    "words",
    [
        "The `content[].thinking` in the thinking mode must be passed back to the API.",
        "Missing thinking block in the assistant message at message index 11.",
    ],
)
def test_turns_without_a_thought_get_a_blank_one_where_it_is_demanded(words: str) -> None:
    blank = {"type": "thinking", "thinking": " ", "signature": ""}
    thought = {"role": "assistant", "content": [{"type": "thinking", "thinking": "hm", "signature": ""}]}
    filled = {"role": "assistant", "content": [blank, *CALLED["content"]]}
    said = {"role": "assistant", "content": [blank, {"type": "text", "text": "Hello."}]}
    assert repair(words, ask(USER, CALLED, RETURNED, SAID, thought)) == ask(USER, filled, RETURNED, said, thought)
    assert repair(words, ask(USER, thought)) is None


# -- cache marks and media ----------------------------------------------------------------------------------------


def test_fields_of_cache_marks_that_are_refused_are_left_out() -> None:
    def write(**more: str) -> Json:
        mark = {"cache_control": {"type": "ephemeral", **more}}
        block = {"type": "tool_result", "tool_use_id": "t", "content": [{"type": "text", "text": "r", **mark}], **mark}
        message = {"role": "user", "content": [block]}
        system = [{"type": "text", "text": "s", **mark}]
        return ask(message, system=system, tools=[{"name": "f", "input_schema": {}, **mark}], **mark)

    for words in (
        "unknown parameter system.cache_control.scope",
        "system.2.cache_control.ephemeral.scope: Extra inputs are not permitted",
        "`cache_control.ttl: 1h` is not supported",
    ):
        assert repair(words, write(scope="global", ttl="1h")) == write()
        assert repair(words, write()) is None


def test_marks_of_parts_are_those_of_the_result_where_a_server_wants_that() -> None:
    words = "messages.0.content.0.tool_result.content.1.cache_control: cache_control may not be specified within"
    mark = {"cache_control": {"type": "ephemeral"}}
    part = {"type": "text", "text": "r"}

    def write(*parts: Any, **more: Any) -> Json:
        block = {"type": "tool_result", "tool_use_id": "t", "content": list(parts), **more}
        return ask({"role": "user", "content": [block]})

    assert repair(words, write(part, {**part, **mark}, "odd")) == write(part, part, "odd", **mark)
    assert repair(words, write(part, **mark)) is None
    assert repair(words, ask(USER, RETURNED)) is None


def test_content_is_blocks_where_a_server_finds_none_in_a_text() -> None:
    assert repair("Empty input messages", ask(USER, RETURNED)) == ask({"role": "user", "content": [ASKED]}, RETURNED)
    assert repair("Empty input messages", ask(RETURNED)) is None


def test_stop_sequences_of_white_space_alone_are_left_out_where_they_are_refused() -> None:
    words = "stop_sequences: each stop sequence must contain non-whitespace"
    assert repair(words, ask(USER, stop_sequences=["\n", "END"])) == ask(USER, stop_sequences=["END"])
    assert repair(words, ask(USER, stop_sequences=["\n"])) == ask(USER)
    assert repair(words, ask(USER, stop_sequences=["END"])) is None
    assert repair(words, ask(USER)) is None


def test_the_last_message_has_no_thought_where_none_may_be() -> None:
    words = "messages.1.content.0: an `assistant` message in the final position cannot contain `thinking`."
    text = {"type": "text", "text": "I"}
    thought = {"role": "assistant", "content": [THOUGHT, text]}
    sent = ask(USER, thought, USER, {"role": "assistant", "content": [text]})
    assert repair(words, ask(USER, thought, USER, thought)) == sent
    assert repair(words, sent) is None
    assert repair(words, ask(USER, {"role": "assistant", "content": [THOUGHT]})) is None


IMAGE: Json = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"}}
FILE: Json = {"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": "AAAA"}}


@pytest.mark.parametrize(
    "words",
    [
        "Input should be a valid string (ref: a9065c14)",
        "Only text tool_result blocks are supported when tool_result.content is an array.",
        "images are not allowed in a tool_result",
    ],
)
def test_media_stand_behind_results_where_these_may_have_none(words: str) -> None:
    text = {"type": "text", "text": "page"}

    def result(id_: str, content: Any) -> Json:
        return {"type": "tool_result", "tool_use_id": id_, "content": content}

    given = {"role": "user", "content": [result("t", [text, IMAGE]), result("u", "x"), result("v", [FILE]), ASKED]}
    sent = [result("t", "page\n[image 1: see below]"), result("u", "x"), result("v", "[file 2: see below]")]
    sent += [{"type": "text", "text": "[image 1]"}, IMAGE, {"type": "text", "text": "[file 2]"}, FILE, ASKED]
    assert repair(words, ask(USER, CALLED, given)) == ask(USER, CALLED, {"role": "user", "content": sent})
    assert repair(words, ask(USER, CALLED, RETURNED)) is None


def test_schemas_are_written_as_a_server_of_messages_takes_them() -> None:
    words = "tools.0.function_declarations[0].parameters.properties[0].enum: only allowed for STRING type"
    given = {"type": "object", "properties": {"a": {"type": "integer", "enum": [1]}}}
    sent = {"type": "object", "properties": {"a": {"type": "integer"}}}
    tools = [{"name": "f", "input_schema": given}]
    assert repair(words, ask(USER, tools=tools)) == ask(USER, tools=[{"name": "f", "input_schema": sent}])


@pytest.mark.parametrize(
    "words",
    [
        "messages.0.content.1.image.source.base64.data: At least one of the image dimensions exceed max allowed size "
        "for many-image requests: 2000 pixels",
        "messages.0.content.1.image.source.base64: image exceeds 5 MB maximum: 6543210 bytes > 5242880 bytes",
        "this model does not support image input",
    ],
)
def test_refused_images_of_earlier_turns_and_of_results_are_words(words: str) -> None:
    word: Json = {"type": "text", "text": "[an image, which this model cannot see]"}
    old, new = {"role": "user", "content": [ASKED, IMAGE]}, {"role": "user", "content": [IMAGE]}
    assert repair(words, ask(old, SAID, new)) == ask({**old, "content": [ASKED, word]}, SAID, new)
    assert repair(words, ask(new)) is None
    result = {"type": "tool_result", "tool_use_id": "t", "content": [IMAGE]}
    sent = {"role": "user", "content": [{**result, "content": [word]}, word]}
    assert repair(words, ask(USER, CALLED, {"role": "user", "content": [result, IMAGE]})) == ask(USER, CALLED, sent)
