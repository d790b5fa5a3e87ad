"""What of a client's own body is sent to a server of the same API."""

from typing import Any

from app.chat.messages import ChatRequest, PassedBody
from app.profiles import find_profile
from app.upstream.responses.passed_body import build_passed

from tests.each_case import each_case

OPENAI, OTHER = find_profile("openai", "responses"), find_profile("openai_compatible", "responses")


def build(body: dict[str, Any], params: dict[str, Any], profile: Any = OTHER) -> tuple[dict[str, Any], list[str]]:
    return build_passed(ChatRequest("m", (), params=params, passed=PassedBody("responses", body)), "up", profile)


@each_case(
    ("given", "params", "sent", "warned"),
    [
        ({}, {}, {}, 0),
        ({"temperature": 1}, {"temperature": 0.5, "top_p": 0.4}, {"temperature": 1, "top_p": 0.4}, 0),
        ({}, {"max_tokens": 9}, {"max_output_tokens": 9}, 0),
        ({"max_output_tokens": 5}, {"max_tokens": 9}, {"max_output_tokens": 5}, 0),
        ({}, {"reasoning_effort": "low"}, {"reasoning": {"effort": "low"}}, 0),
        ({"reasoning": {"summary": "auto"}}, {"enable_thinking": False})
        + ({"reasoning": {"effort": "none", "summary": "auto"}}, 0),
        ({"reasoning": {"effort": "high"}}, {"reasoning_effort": "low"}, {"reasoning": {"effort": "high"}}, 0),
        ({"reasoning": {"summary": "auto", "effort": "high"}}, {"enable_thinking": False})
        + ({"reasoning": {"summary": "auto", "effort": "high"}}, 0),
        ({"reasoning": {"effort": None}}, {"reasoning_effort": "low"}, {"reasoning": {"effort": None}}, 0),
        ({"reasoning": "odd"}, {"reasoning_effort": "low"}, {"reasoning": "odd"}, 0),
        ({"cache": "off", "lang": "en", "future": 1}, {}, {"future": 1}, 1),
    ],
)
def test_what_the_gateway_knows_is_added_and_taken_out(given: Any, params: Any, sent: Any, warned: int) -> None:
    body, warnings = build({"input": "Hi", **given}, params)
    assert body == {"input": "Hi", "model": "up", "store": False, **sent}
    assert len(warnings) == warned


def test_the_text_of_a_sealed_thought_gets_an_id_where_the_server_takes_texts() -> None:
    thought = {"type": "reasoning", "summary": [], "content": [{"type": "reasoning_text", "text": "a"}]}
    (sent,) = build({"input": [thought]}, {})[0]["input"]
    assert sent["id"].startswith("rs_") and sent | thought == sent
    body, warnings = build({"input": [thought, "odd"]}, {}, OPENAI)
    assert body["input"] == ["odd"] and not warnings


def test_an_id_of_a_call_that_the_server_would_refuse_is_replaced() -> None:
    call, output = {"type": "function_call", "call_id": "a" * 65}, {"type": "function_call_output", "call_id": "a" * 65}
    first, second, third = build({"input": [call, output, {**call, "call_id": "a" * 64}]}, {})[0]["input"]
    assert first["call_id"] == second["call_id"] and len(first["call_id"]) < 64 and third["call_id"] == "a" * 64
