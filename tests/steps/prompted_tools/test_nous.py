"""Calls in the prompt of the chat templates of Qwen, beyond what was recorded."""

import pytest
from app.chat.messages import ChatRequest, Text
from app.profiles import Profile
from app.steps.prompted_tools import NousStage, prompted_tool_stage

from tests.each_case import each_case
from tests.steps.prompted_tools.recorded_units import ALL_UNITS, NOUS, Json, expected
from tests.steps.prompted_tools.sample_requests import (
    CODE,
    PICTURE,
    QUESTION,
    assistant,
    call,
    messages_for,
    result,
    text,
)
from tests.steps.stage_runner import Reply, run, texts


@pytest.mark.parametrize(
    ("arguments", "want"),
    [('{"a":1}', '{"a": 1}'), ("{a: 1,}", '{"a": 1}'), ("", "{}"), ('{"a": "x"y"}', '"{\\"a\\": \\"x\\"y\\"}"')],
)
def test_arguments_of_the_history_are_values_or_a_string(arguments: str, want: str) -> None:
    converted = messages_for(assistant(call(arguments)), result(Text("r")))[2]
    assert text(converted) == f'<tool_call>\n{{"name": "f", "arguments": {want}}}\n</tool_call>'


def test_several_calls_of_one_message_stand_on_their_own_lines() -> None:
    converted = messages_for(assistant(Text("So: "), call(), call()), result(Text("1")), result(Text("2")))
    one = '<tool_call>\n{"name": "f", "arguments": {}}\n</tool_call>'
    assert text(converted[2]) == f"So: {one}\n{one}"
    assert text(converted[3]) == "<tool_response>\n1\n</tool_response>\n<tool_response>\n2\n</tool_response>"


def test_pictures_of_a_result_stay_where_they_stand() -> None:
    converted = messages_for(assistant(call()), result(Text("see "), PICTURE))[-1]
    assert converted.parts == (Text("<tool_response>\n"), Text("see "), PICTURE, Text("\n</tool_response>"))


def test_code_without_a_code_argument_is_an_ordinary_call() -> None:
    coder = Profile(native_tools=False, special_code_mode=True)
    converted = messages_for(assistant(call('{"x": 1}', CODE.name)), result(Text("r")), profile=coder, tools=(CODE,))
    assert "<code>" not in text(converted[2])


def test_a_code_block_needs_arguments_to_stand_in() -> None:
    request = ChatRequest("m", (QUESTION,), (CODE,))
    stage = prompted_tool_stage(request, Profile(native_tools=False, special_code_mode=True), "chat-1")
    assert stage is not None
    reply = '<tool_call>{"name": "code_interpreter", "arguments": [1]}<code>x</code></tool_call>'
    assert run([stage], texts(reply)).short() == [("C", reply)]


def test_a_call_whose_code_block_is_cut_off_is_text() -> None:
    request = ChatRequest("m", (QUESTION,), (CODE,))
    stage = prompted_tool_stage(request, Profile(native_tools=False, special_code_mode=True), "chat-1")
    assert stage is not None
    reply = '<tool_call>{"name": "code_interpreter", "arguments": {}}<code>x'
    found = run([stage], texts(reply))
    assert found.short() == [("C", reply)]
    assert found.warnings == ["a tool call that was cut off is returned as text"]


def nous(unit: Json, seed: int | None) -> Reply:
    stage = NousStage("chat-1", (), thought_in_content=unit["thought_in_content"])
    return run([stage], texts(unit["text"], seed))


UNITS = [unit for unit in ALL_UNITS if "thought_in_content" in unit]


@each_case("seed", [None, *range(8)])
@each_case("unit", UNITS, ids=lambda unit: f"{unit['name']}-{unit['thought_in_content']}")
def test_nous_text_is_read_as_the_original_reads_it_or_better(unit: Json, seed: int | None) -> None:
    want, _ = expected(unit)
    reply = nous(unit, seed)
    assert reply.short() == want
    tag_is_text = any(kind == "C" and "<tool_call>" in text and "<think>" not in text for kind, text, *_ in want)
    through_thought = "</think>" in unit["text"]
    assert bool(reply.warnings) == (tag_is_text and not through_thought)


def test_the_table_names_only_what_differs() -> None:
    differ = {unit["name"] for unit in UNITS if expected(unit)[1]}
    assert {name.partition("-")[0] for name in NOUS} == differ


@each_case("text", ["a</think>b", "<think>a</think>b", "a", "<think>a"])
@each_case("seed", [None, *range(4)])
def test_a_thought_that_holds_no_call_is_text_as_it_stands(text: str, seed: int | None) -> None:
    reply = run([NousStage("chat-1", (), thought_in_content=True)], texts(text, seed))
    assert [message.get("content") for message in reply.messages()] == [text]


@pytest.mark.parametrize("seed", [None, *range(4)])
def test_the_end_of_a_call_is_no_text_even_behind_some(seed: int | None) -> None:
    text = '<tool_call>\n{"name": "f", "arguments": {}} text </tool_call> more'
    call, content = run([NousStage("chat-1", (), thought_in_content=False)], texts(text, seed)).messages()
    assert (call["function_call"]["name"], content["content"]) == ("f", " text  more")
