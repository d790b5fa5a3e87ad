"""Bodies that are sent once more with a value that the server says it takes."""

import json
from typing import Any

import httpx
import msgspec
from app.chat.events import Fault
from app.upstream.api import find_api, repair_refused
from app.upstream.refused_values import find_values

from tests.each_case import each_case
from tests.in_process_gateway import ModelServer, Running
from tests.linear_time import linear

Json = dict[str, Any]
PLAIN: Json = {"model": "m", "messages": []}


def repair(body: Json, message: str, api: Any = "chat_completions") -> Json | None:
    repaired = repair_refused(find_api(api), msgspec.json.encode(body), Fault("invalid_request", message, False, 400))
    return None if repaired is None else msgspec.json.decode(repaired.data)


@each_case(
    ("message", "effort", "nearest"),
    [
        # ollama/ollama#17331, livekit/agents#7169
        ('invalid reasoning value: \'minimal\' (must be "high", "medium", "low", "max", or "none")', "minimal", "low"),
        (
            "Unsupported value: 'reasoning_effort' does not support 'minimal' with this model. Supported values are: "
            "'none', 'low', 'medium', 'high', 'xhigh'.",
            "minimal",
            "low",
        ),
        ("'xhigh' is not supported. Supported values are: 'low', 'medium', 'high'.", "xhigh", "high"),
        ("'none' is not supported. Supported values are: 'low', 'medium', 'high'.", "none", "low"),
        # microsoft/vscode#310940, github/copilot-cli#3080
        ('effort "high" is not supported by model claude; supported values: [medium]', "high", "medium"),
        ('reasoning_effort "medium" is not supported by model claude; supported values: [high]', "medium", "high"),
        ("reasoning_effort: must be one of `none` or `default`", "high", "default"),
        ("reasoning_effort: unknown variant `max`, expected one of `low`, `high`", "max", "high"),
        ("reasoning_effort: Input should be 'none'", "max", "none"),
    ],
)
def test_an_effort_becomes_the_nearest_that_the_server_names(message: str, effort: str, nearest: str) -> None:
    assert repair({**PLAIN, "reasoning_effort": effort}, message) == {**PLAIN, "reasoning_effort": nearest}
    asks: Json = {"input": [], "reasoning": {"effort": effort, "summary": "auto"}}
    assert repair(asks, message, "responses") == {"input": [], "reasoning": {"effort": nearest, "summary": "auto"}}
    asks = {**PLAIN, "output_config": {"effort": effort}}
    assert repair(asks, message, "messages") == {**PLAIN, "output_config": {"effort": nearest}}


def test_other_values_of_the_same_words_change_no_effort() -> None:
    listed = "Supported values are: 'low', 'medium', 'high'."
    for message in (
        f"Invalid verbosity 'max'. {listed}",
        f"Invalid value for image detail. {listed}",
        "must be high enough",
    ):
        assert repair({**PLAIN, "reasoning_effort": "max"}, message) is None
    for effort in ("low", 5, ["max"], None):
        assert repair({"input": [], "reasoning": {"effort": effort}}, f"It is odd. {listed}", "responses") is None


@each_case(
    ("message", "given", "sent"),
    [
        # CherryHQ/cherry-studio#16431, anthropics/claude-code#29531
        ('invalid thinking.type: "enabled" (allowed: adaptive, disabled) (2013)', "enabled", "adaptive"),
        (
            "Only 'enabled' and 'disabled' are supported for thinking; 'adaptive' is not supported.",
            "adaptive",
            "enabled",
        ),
        ("thinking.type must be one of adaptive, enabled", "disabled", None),
        ("thinking.type must be one of adaptive, enabled", "enabled", "enabled"),
    ],
)
def test_a_type_of_thinking_becomes_the_other_one_or_is_left_out(message: str, given: str, sent: str | None) -> None:
    changed = repair({**PLAIN, "thinking": {"type": given, "budget_tokens": 5}}, message)
    if given == sent:
        assert changed is None
    else:
        assert changed == PLAIN | ({"thinking": {"type": sent}} if sent else {})


def test_roles_get_the_names_that_the_server_knows() -> None:
    # decolua/9router#773
    message = "messages[0].role: unknown variant `developer`, expected one of `system`, `user`, `assistant`, `tool`"
    user = {"role": "user", "content": "Hi"}
    body = {"model": "m", "messages": [{"role": "developer", "content": "Be kind."}, user]}
    assert repair(body, message) == {**body, "messages": [{"role": "system", "content": "Be kind."}, user]}
    assert repair({"model": "m", "messages": [user]}, message) is None
    message = "Role 'function' is not supported. Please use a valid role: SYSTEM, USER, MODEL."
    result = {"parts": [{"functionResponse": {"name": "f", "response": {}}}]}
    sent = {"contents": [{"role": "user", **result}]}
    assert repair({"contents": [{"role": "function", **result}]}, message, "gemini") == sent


def test_the_values_are_remembered() -> None:
    def answer(request: httpx.Request) -> httpx.Response:
        if json.loads(request.content)["reasoning_effort"] == "medium":
            return ModelServer.short_reply()
        words = "reasoning_effort is not supported; supported values: [medium]"
        return httpx.Response(400, json={"error": {"message": words, "type": "invalid_request_error"}})

    server = ModelServer(answer)
    with Running(None, server) as gateway:
        for effort, requests in (("high", 2), ("low", 3)):
            answered = gateway.post(
                "/v1/chat/completions",
                {**PLAIN, "messages": [{"role": "user", "content": "Hi"}], "reasoning_effort": effort},
            )
            assert (answered.status, len(server.requests)) == (200, requests)
            assert "this model takes medium" in str(answered.json["warnings"])


@each_case("part", ["must be a, ", "supported values: [a", "only a or b ", "one of 'low', "])
def test_hostile_messages_are_read_in_linear_time(part: str) -> None:
    assert linear(lambda size: find_values("efforts", part * size), 500)
