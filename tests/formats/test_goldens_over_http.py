"""Every golden list of the other formats, over HTTP to a recording model server: no step on the way changes what
`test_requests.py` of each format compares with the real packages. Functions beside it change nothing either."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from app.errors import InvalidInput
from app.profiles import Profile

from tests.each_case import each_case
from tests.formats.agentscope.cases import sent_repaired
from tests.formats.agentscope.recorded_requests import CASES, DEEPSEEK, OPENAI
from tests.formats.autogen.recorded_cases import read
from tests.formats.autogen.recorded_requests import AGENTS, PROFILE, REQUESTS, TRANSCRIPTS
from tests.formats.autogen.recorded_requests import PROFILES as AUTOGEN_PROFILES
from tests.formats.autogen.recorded_requests import sent as sent_for_autogen
from tests.in_process_gateway import ModelServer, Running

FUNCTION = {"name": "look", "parameters": {"type": "object", "properties": {}}}
ROWS: dict[str, Profile] = {"OpenAI": OPENAI, "DeepSeek": DEEPSEEK, "AutoGen": PROFILE, **AUTOGEN_PROFILES}
MODELS = {
    "upstreams": {"local": {"base_url": "http://model.test/v1"}},
    "models": {
        name: {"upstreams": ["local"], "profile": row.model_dump(exclude_unset=True)} for name, row in ROWS.items()
    },
}
SOUND = "sound goes out under the type that its bytes show: the goldens' mp3 and ogg are wav in truth"
with_and_without_functions = each_case("functions", [[], [FUNCTION]], ids=["plain", "functions"])


class Gateway:
    def __init__(self, running: Running, server: ModelServer) -> None:
        self._running = running
        self._server = server

    def sent(self, model: str, form: str, messages: list[Any], **fields: Any) -> Any:
        """What the model server gets as messages; None where the caller is refused."""
        asked = len(self._server.requests)
        request = {"model": model, "format": form, "messages": messages, "stream": False, **fields}
        answer = self._running.post("/v1/chat", request)
        if answer.status in (400, 422):
            assert len(self._server.requests) == asked
            return None
        assert answer.status == 200, answer.body
        return json.loads(self._server.requests[-1].content)["messages"]


@pytest.fixture(scope="module")
def gateway() -> Iterator[Gateway]:
    server = ModelServer()
    with Running(MODELS, server) as running:
        yield Gateway(running, server)


@each_case("name", REQUESTS)
@with_and_without_functions
def test_a_core_list_of_autogen_reaches_the_server_as_it_is_compared(
    gateway: Gateway, name: str, functions: list[Any]
) -> None:
    messages = REQUESTS[name]["input"]
    model = name if name in AUTOGEN_PROFILES else "AutoGen"
    try:
        expected = sent_for_autogen(read(messages), ROWS[model])
    except InvalidInput:
        expected = None
    assert gateway.sent(model, "autogen", messages, functions=functions) == expected


@each_case("name", TRANSCRIPTS)
@with_and_without_functions
def test_a_transcript_of_autogen_reaches_the_server_as_it_is_compared(
    gateway: Gateway, name: str, functions: list[Any]
) -> None:
    case = AGENTS[name]["input"]
    expected = sent_for_autogen(read(case["transcript"], case["agent_name"]))
    found = gateway.sent("AutoGen", "autogen", case["transcript"], agent=case["agent_name"], functions=functions)
    assert found == expected


@pytest.mark.many_cases
@each_case(("form", "messages", "formatter", "name", "expected"), CASES)
@with_and_without_functions
def test_a_list_of_agentscope_reaches_the_server_as_it_is_compared(
    gateway: Gateway, form: Any, messages: list[Any], formatter: str, name: str, expected: Any, functions: list[Any]
) -> None:
    compared = sent_repaired(form, messages, ROWS[formatter])
    found = gateway.sent(formatter, form.name, messages, functions=functions)
    assert undeclared(found) == undeclared(compared), SOUND


def undeclared(value: Any) -> Any:
    """Without the type of sound."""
    if isinstance(value, list):
        return [undeclared(one) for one in value]
    if not isinstance(value, dict):
        return value
    if "input_audio" in value:
        return {"input_audio": value["input_audio"]["data"].partition("base64,")[2] or value["input_audio"]["data"]}
    return {key: undeclared(one) for key, one in value.items()}
