"""The body of a client of the Gemini API that the gateway cannot read, for a server of the same API."""

from typing import Any

from app.chat.messages import ChatRequest, PassedBody
from app.profiles import find_profile
from app.upstream.gemini.passed_body import build_passed

Json = dict[str, Any]


def build(body: Json) -> tuple[Json, list[str]]:
    request = ChatRequest("m", (), passed=PassedBody("gemini", body))
    return build_passed(request, "up", find_profile("gemini", "gemini"))


def test_only_what_the_gateway_reads_is_taken_out() -> None:
    body = {"contents": [{"role": "robot"}], "future": 1, "generationConfig": {"seed": 1, "logprobs": 2, "new": 3}}
    assert build(body) == (body, [])
    extended = {**body, "cache": True, "max_retries": 1, "generationConfig": {"seed": 1, "enable_thinking": True}}
    sent, warnings = build(extended)
    assert sent == {**body, "generationConfig": {"seed": 1}}
    assert [text.split(" ")[0] for text in warnings] == ["generationConfig.enable_thinking", "max_retries"]
