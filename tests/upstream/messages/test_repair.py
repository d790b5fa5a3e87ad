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
