"""The demo model reads functions from the prompt and writes its calls as text."""

import json

import pytest
from app.chat.messages import Tool
from app.steps.prompted_tools.choice import ToolChoice
from app.steps.prompted_tools.nous import build_system_block

from tests.demo.demo_replies import Converse

NAMES = ("get_weather", "get_time")
CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
LINES = [json.dumps({"type": "function", "function": {"name": name, "parameters": CITY}}) for name in NAMES]
QUESTION = {"role": "user", "content": "What is the weather and the time in Paris?"}
CALLS = [f'<tool_call>\n{{"name": "{name}", "arguments": {{"city": "Paris"}}}}\n</tool_call>' for name in NAMES]


def system(*lines: str) -> dict[str, str]:
    return {"role": "system", "content": "\n".join(["# Tools", "<tools>", *lines, "</tools>"])}


def test_calls_are_written_as_text(converse: Converse) -> None:
    reply = converse([system(*LINES), QUESTION])
    assert reply.content == "\n".join(["Let me check.", *CALLS])
    assert reply.calls == []
    assert reply.finish.reason == "stop"


def test_results_are_reported_with_the_names_of_their_calls(converse: Converse) -> None:
    results = "".join(f"<tool_response>\n{text}\n</tool_response>\n" for text in ("sunny", "12:00"))
    assistant = {"role": "assistant", "content": "\n".join(CALLS)}
    reply = converse([system(*LINES), QUESTION, assistant, {"role": "user", "content": results}])
    assert "get_weather returned: sunny\n" in reply.content
    assert reply.content.endswith("get_time returned: 12:00")


def test_more_results_than_calls_are_all_reported(converse: Converse) -> None:
    reply = converse([system(*LINES), QUESTION, {"role": "user", "content": "<tool_response>\nr\n</tool_response>"}])
    assert reply.content.endswith("returned: r")


@pytest.mark.parametrize("line", ["[]", "{", '{"function": 1}', '{"function": {"name": "f", "parameters": 1}}', ""])
def test_a_line_that_is_no_function_is_ignored(converse: Converse, line: str) -> None:
    assert converse([system(line, LINES[0]), QUESTION]).content.endswith(CALLS[0])


def test_small_talk_calls_nothing(converse: Converse) -> None:
    assert "<tool_call>" not in converse([system(*LINES), {"role": "user", "content": "Hello"}]).content


def test_tools_of_the_body_come_before_those_of_the_prompt(converse: Converse) -> None:
    tool = {"type": "function", "function": {"name": "get_time", "parameters": CITY}}
    reply = converse([system(LINES[0]), QUESTION], tools=[tool])
    assert [name for name, _ in reply.calls] == ["get_time"]


@pytest.mark.parametrize(
    ("choice", "question", "called"),
    [
        (ToolChoice("named", "get_time"), "What is the weather in Paris?", ["get_time"]),
        (ToolChoice("required"), "Hello", ["get_weather"]),
        (ToolChoice("auto"), "Hello", []),
    ],
    ids=lambda value: getattr(value, "word", None),
)
def test_a_function_that_the_prompt_demands_is_called(
    converse: Converse, choice: ToolChoice, question: str, called: list[str]
) -> None:
    tools = [Tool(name, {"name": name, "parameters": CITY}) for name in NAMES]
    system = {"role": "system", "content": build_system_block(tools, choice, code=False)}
    assistant = converse([system, {"role": "user", "content": question}]).content
    assert [name for name in NAMES if f'"name": "{name}"' in assistant] == called
