"""A request of an OpenAI client comes to a model server as the client meant it."""

import json
from typing import Any

import pytest

from tests.conversations.sample_conversations import MODELS
from tests.formats.agentscope.cases import FOLDER
from tests.in_process_gateway import ModelServer, Running

BODIES = json.loads((FOLDER / "autogen" / "client" / "r90_tools_and_options.json").read_text("utf-8"))["bodies"]
OPTIONS = ("tools", "tool_choice", "response_format")
REQUEST = {"model": "plain", "messages": [{"role": "user", "content": "x"}]}


def sent(body: dict[str, Any]) -> dict[str, Any]:
    server = ModelServer()
    with Running(MODELS, server) as gateway:
        answer = gateway.post("/v1/chat/completions", body)
        assert answer.status == 200, answer.body
    found: dict[str, Any] = json.loads(server.requests[-1].content)
    return found


@pytest.mark.parametrize("name", BODIES)
def test_tools_and_options_of_autogens_client_are_sent(name: str) -> None:
    body = BODIES[name]
    found = sent({**body, "model": "plain"})
    assert {key: found.get(key) for key in OPTIONS} == {key: body.get(key) for key in OPTIONS}
    assert found["messages"] == [{"role": "user", "content": "x"}], "names are sent where the profile says so"


@pytest.mark.parametrize(
    ("field", "value", "name", "expected"),
    [
        ("max_completion_tokens", 5, "max_tokens", 5),
        ("logit_bias", {"1": 2}, "logit_bias", {"1": 2}),
        ("function_call", {"name": "f"}, "tool_choice", {"type": "function", "function": {"name": "f"}}),
        ("stop", ["a"], "stop", ["a"]),
        ("user", "u", "user", "u"),
    ],
)
def test_a_parameter_is_sent_under_the_servers_name(field: str, value: Any, name: str, expected: Any) -> None:
    functions = {"functions": [{"name": "f"}]} if field == "function_call" else {}
    assert sent({**REQUEST, **functions, field: value}).get(name) == expected
