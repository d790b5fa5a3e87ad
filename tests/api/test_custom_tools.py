"""Tools of chat completions that are no plain functions: custom ones, flat ones, and choices of some of them."""

import json
from typing import Any

from tests.api.completion_requests import DONE, QUESTION, TOOL, USAGE, called, event, frame, server_sending
from tests.each_case import each_case
from tests.in_process_gateway import SERVER, Answer, ModelServer, Running

Json = dict[str, Any]
GRAMMAR = {"syntax": "lark", "definition": "start: WORD"}
CUSTOM: Json = {"type": "custom", "custom": {"name": "run", "description": "Runs it."}}
NAMED = {"type": "function", "function": {"name": "f"}}


def post(server: ModelServer, path: str = "/v1/chat/completions", **fields: Any) -> tuple[Answer, Json]:
    """Return the answer, and the body that the model server was sent."""
    body = {"model": "m", "messages": QUESTION, "stream": False, **fields}
    with Running(SERVER, server) as gateway:
        answer = gateway.post(path, body)
    return answer, json.loads(server.requests[-1].content) if server.requests else {}


def calling(*arguments: str, name: str = "run") -> ModelServer:
    first, *rest = arguments
    more = (called(0, arguments=text) for text in rest)
    return server_sending(called(0, "c1", name, first), *more, event({}, "tool_calls"), frame(USAGE_CHUNK), DONE)


USAGE_CHUNK = {"choices": [], "usage": USAGE}


@each_case(
    "tool",
    [
        {"type": "custom", "custom": {"name": "run", "format": {"type": "grammar", "grammar": GRAMMAR}}},
        {"type": "custom", "name": "run", "format": {"type": "grammar", **GRAMMAR}},
    ],
)
def test_a_custom_tool_is_offered_as_a_function_with_one_text(tool: Json) -> None:
    answer, sent = post(ModelServer(), tools=[tool])
    assert answer.status == 200
    [offered] = sent["tools"]
    assert offered["function"]["name"] == "run"
    assert offered["function"]["description"] == "The input must match this lark grammar:\nstart: WORD"
    assert offered["function"]["parameters"]["required"] == ["input"]
    assert "x-parley-warnings" not in answer.headers


def test_its_call_comes_back_as_a_custom_call() -> None:
    answer, _ = post(calling('{"input": "ls', ' \\"a\\""}'), tools=[CUSTOM, TOOL])
    [choice] = answer.json["choices"]
    custom = {"name": "run", "input": 'ls "a"'}
    assert choice["message"]["tool_calls"] == [{"id": "c1", "type": "custom", "custom": custom}]
    assert choice["finish_reason"] == "tool_calls"
    answer, _ = post(calling('{"input": "x"}', name="f"), tools=[CUSTOM, TOOL])
    [call] = answer.json["choices"][0]["message"]["tool_calls"]
    assert call["function"] == {"name": "f", "arguments": '{"input": "x"}'}


@each_case("arguments", [('{"input": "ls -l"}',), ("{", '"input"', ': "ls ', '-l"', "}")])
def test_the_text_of_a_streamed_custom_call_is_complete(arguments: tuple[str, ...]) -> None:
    answer, _ = post(calling(*arguments), tools=[CUSTOM], stream=True)
    deltas = [chunk["choices"][0]["delta"] for chunk in _read_chunks(answer) if chunk["choices"]]
    calls = [call for delta in deltas for call in delta.get("tool_calls", ())]
    assert calls[0] == {"index": 0, "id": "c1", "type": "custom", "custom": {"name": "run", "input": ""}}
    assert "".join(call["custom"]["input"] for call in calls) == "ls -l"


@each_case(
    ("arguments", "text"),
    [
        ('{"command": "ls"}', "ls"),  # the only text, under another name
        ('{"command": ["run", "ls"]}', "ls"),
        ('{"command": ["ls", "-l", "/"]}', '{"command": ["ls", "-l", "/"]}'),
        ('{"command": "ls", "timeout": 3}', '{"command": "ls", "timeout": 3}'),
        ('{"n": 1}', '{"n": 1}'),
        ('["ls"]', '["ls"]'),
    ],
)
def test_arguments_of_another_form_have_the_text_or_are_it(arguments: str, text: str) -> None:
    answer, _ = post(calling(arguments), tools=[CUSTOM])
    assert answer.json["choices"][0]["message"]["tool_calls"][0]["custom"]["input"] == text


def test_a_custom_call_of_the_history_is_sent_as_the_functions() -> None:
    history = [
        *QUESTION,
        {"role": "assistant", "tool_calls": [{"id": "a", "type": "custom", "custom": {"name": "run", "input": "é\n"}}]},
        {"role": "tool", "tool_call_id": "a", "content": "ok"},
    ]
    answer, sent = post(ModelServer(), messages=history, tools=[CUSTOM])
    assert answer.status == 200, answer.body
    [call] = sent["messages"][1]["tool_calls"]
    assert (call["type"], call["function"]["name"]) == ("function", "run")
    assert json.loads(call["function"]["arguments"]) == {"input": "é\n"}


def test_a_custom_tool_can_be_demanded() -> None:
    for choice in ({"type": "custom", "custom": {"name": "run"}}, {"type": "custom", "name": "run"}):
        _, sent = post(calling('{"input": ""}'), tools=[CUSTOM, TOOL], tool_choice=choice)
        assert sent["tool_choice"] == {"type": "function", "function": {"name": "run"}}


def test_a_flat_tool_is_sent_as_a_function() -> None:
    flat = {"type": "function", **TOOL["function"], "strict": True}
    _, sent = post(ModelServer(), tools=[flat])
    assert sent["tools"] == [{"type": "function", "function": {**TOOL["function"], "strict": True}}]


@each_case(
    "choice",
    [
        {"type": "allowed_tools", "allowed_tools": {"mode": "required", "tools": [NAMED]}},
        {"type": "allowed_tools", "mode": "required", "tools": [{"type": "function", "name": "f"}]},
    ],
)
def test_of_the_tools_only_the_allowed_ones_are_offered(choice: Json) -> None:
    answer, sent = post(calling("{}", name="f"), tools=[CUSTOM, TOOL], tool_choice=choice)
    assert ([tool["function"]["name"] for tool in sent["tools"]], sent["tool_choice"]) == (["f"], "required")
    assert "x-parley-warnings" not in answer.headers
    fields = {"functions": [TOOL], "generate_cfg": {"function_choice": choice}}
    _, sent = post(calling("{}", name="f"), "/v1/chat", **fields)
    assert sent["tool_choice"] == "required"


def test_an_allowed_tool_that_is_not_offered_is_refused_at_its_place() -> None:
    choice = {"type": "allowed_tools", "allowed_tools": {"tools": [NAMED, {"type": "custom", "custom": {"name": "g"}}]}}
    answer, _ = post(ModelServer(), tools=[TOOL], tool_choice=choice)
    assert (answer.status, answer.json["error"]["param"]) == (400, "tool_choice.allowed_tools.tools[1]")
    answer, _ = post(ModelServer(), tool_choice=choice)
    assert answer.status == 400


def _read_chunks(answer: Answer) -> list[Json]:
    lines = [line[6:] for line in answer.body.decode().split("\n") if line.startswith("data: ")]
    return [json.loads(line) for line in lines if line != "[DONE]"]
