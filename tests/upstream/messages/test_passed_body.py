"""What of a client's own body is sent to a server of the same API."""

from typing import Any

from app.chat.messages import ChatRequest, PassedBody
from app.profiles import find_profile
from app.upstream.messages.passed_body import build_passed

from tests.each_case import each_case

PROFILE = find_profile("anthropic", "messages")
MESSAGES = [{"role": "user", "content": "Hi"}]


@each_case(
    ("given", "params", "sent", "warned"),
    [
        ({}, {}, {"max_tokens": 8192}, 0),
        ({"max_tokens": 5}, {"max_tokens": 9}, {"max_tokens": 5}, 0),
        ({}, {"max_tokens": 9, "temperature": 0.5, "top_k": 3}, {"max_tokens": 9, "temperature": 0.5, "top_k": 3}, 0),
        ({"max_tokens": 5, "top_p": 1}, {"top_p": 0.5}, {"max_tokens": 5, "top_p": 1}, 0),
        ({"max_tokens": 5}, {"stop": "X"}, {"max_tokens": 5, "stop_sequences": ["X"]}, 0),
        ({"max_tokens": 5}, {"stop": ["X", "Y"]}, {"max_tokens": 5, "stop_sequences": ["X", "Y"]}, 0),
        ({"max_tokens": 5, "stop_sequences": ["A"]}, {"stop": "X"}, {"max_tokens": 5, "stop_sequences": ["A"]}, 0),
        ({"max_tokens": 5}, {"enable_thinking": False}, {"max_tokens": 5, "thinking": {"type": "disabled"}}, 0),
        (
            {"max_tokens": 5, "output_config": {"format": 1}},
            {"reasoning_effort": "low"},
            {"max_tokens": 5, "thinking": {"type": "adaptive"}, "output_config": {"effort": "low", "format": 1}},
            0,
        ),
        (
            {"max_tokens": 5, "output_config": {"effort": "max"}},
            {"reasoning_effort": "low"},
            {"max_tokens": 5, "thinking": {"type": "adaptive"}, "output_config": {"effort": "max"}},
            0,
        ),
        ({"max_tokens": 5}, {"thinking_budget": 2000}, {"max_tokens": 5}, 1),
        ({"max_tokens": 5, "thinking": 1}, {"enable_thinking": True}, {"max_tokens": 5, "thinking": 1}, 0),
        ({"max_tokens": 5, "cache": "off", "seed": 1, "future": 2}, {}, {"max_tokens": 5, "future": 2}, 1),
    ],
)
def test_what_the_gateway_knows_is_added_and_taken_out(given: Any, params: Any, sent: Any, warned: int) -> None:
    body, warnings = build({"messages": MESSAGES, **given}, params)
    assert body == {"messages": MESSAGES, "model": "up", **sent}
    assert len(warnings) == warned


def build(body: dict[str, Any], params: dict[str, Any]) -> tuple[dict[str, Any], list[str]]:
    return build_passed(ChatRequest("m", (), params=params, passed=PassedBody("messages", body)), "up", PROFILE)


def test_unsigned_thinking_is_dropped_where_the_server_takes_none() -> None:
    thought, text = {"type": "thinking", "thinking": "a", "signature": ""}, {"type": "text", "text": "b"}
    signed = thought | {"signature": "s"}
    given = [{"role": "assistant", "content": [thought, text]}, {"role": "assistant", "content": [signed]}, "odd"]
    nothing_else = {"role": "assistant", "content": [thought]}
    body, _ = build({"messages": [*given, nothing_else]}, {})
    assert body["messages"] == [{"role": "assistant", "content": [text]}, *given[1:]]
    loose = PROFILE.model_copy(update={"unsigned_thinking": "send"})
    request = ChatRequest("m", (), passed=PassedBody("messages", {"messages": given}))
    assert build_passed(request, "up", loose)[0]["messages"] == given


@each_case(("kind", "kept"), [("anthropic", 3), ("anthropic_compatible", 3), ("vllm", 2), ("deepseek", 2)])
def test_the_billing_header_is_left_out_where_the_server_keeps_the_beginnings_of_prompts(kind: str, kept: int) -> None:
    header = {"type": "text", "text": "x-anthropic-billing-header: cc_version=2.1; cch=a5145;"}
    given: dict[str, Any] = {
        "messages": MESSAGES,
        "system": [header, {"type": "text", "text": "You are Claude Code"}, "odd"],
    }
    request = ChatRequest("m", (), passed=PassedBody("messages", given))
    body, warnings = build_passed(request, "up", find_profile(kind, "messages"))
    assert body["system"] == given["system"][-kept:] and not warnings
    plain = ChatRequest("m", (), passed=PassedBody("messages", given | {"system": "x-anthropic-billing-header: a"}))
    assert build_passed(plain, "up", find_profile(kind, "messages"))[0]["system"] == "x-anthropic-billing-header: a"
