"""Calls in the older prompt of Qwen-Agent, whose commands stand between flowers."""

import pytest
from app.chat.events import Finish, TextDelta
from app.chat.messages import ChatRequest, Text, Tool
from app.chat.stage import Pipe
from app.steps.pipeline import reply_stages
from app.steps.prompted_tools import QwenStage, add_tool_prompt, prompted_tool_stage
from app.steps.stop_words import StopWordStage
from msgspec.structs import replace

from tests.each_case import each_case
from tests.steps.prompted_tools.recorded_units import QWEN_UNITS, Json, expected_by_qwen
from tests.steps.prompted_tools.sample_requests import (
    NOUS,
    PICTURE,
    QUESTION,
    QWEN,
    F,
    assistant,
    call,
    messages_for,
    result,
    text,
)
from tests.steps.stage_runner import run, texts


def test_stop_words_are_added_to_the_callers() -> None:
    request = ChatRequest("m", (QUESTION,), (F,), {"stop": "END"})
    assert add_tool_prompt(request, QWEN)[0].params["stop"] == ["END", "✿RESULT✿", "✿RETURN✿"]


def test_a_forced_call_follows_a_picture_on_its_own_line() -> None:
    converted = messages_for(assistant(PICTURE), profile=QWEN, function_choice="f")[-1]
    assert converted.parts[-1] == Text("\n✿FUNCTION✿: f")


def test_several_calls_of_one_message_follow_each_other() -> None:
    converted = messages_for(assistant(call(), call()), result(Text("1")), result(Text("2")), profile=QWEN)[-1]
    one = "✿FUNCTION✿: f\n✿ARGS✿: {}"
    assert text(converted) == f"q\n\n{one}\n{one}\n✿RESULT✿: 1\n✿RESULT✿: 2\n✿RETURN✿"


@each_case("seed", [None, *range(5)])
@each_case(
    ("reply", "want"),
    [
        ("✿FUNCTION✿: f\n✿ARGS✿: plain words\n", [("F", "f", "plain words")]),
        ("✿FUNCTION✿: f\n✿ARGS✿: ```py\nx", [("F", "f", "```py\nx")]),
        ("✿FUNCTION✿: f ✿RESULT✿ made up", [("F", "f", "{}")]),
        ("✿FUNCTION✿: nobody\nso", [("C", "✿FUNCTION✿: nobody\nso")]),
        ("✿ARGS✿: {}", [("C", "✿ARGS✿: {}")]),
        ("✿FUNCTION✿: f\n✿ARGS✿: {\"a\": 'x' y}\n✿RETURN✿", [("F", "f", '{"a": "x" y}')]),
        ('✿FUNCTION✿: f\n✿ARGS✿: {"a": x y', [("F", "f", '{"a": x y')]),
        ("Hi  there \n", [("C", "Hi  there \n")]),
    ],
)
def test_a_qwen_reply_is_read(reply: str, want: list[tuple[str, ...]], seed: int | None) -> None:
    stage = prompted_tool_stage(ChatRequest("m", (QUESTION,), (F,)), QWEN, "chat-1")
    assert stage is not None
    assert run([stage], texts(reply, seed)).short() == want


@pytest.mark.parametrize("tools", [(), (F,)])
def test_the_qwen_prompt_stops_at_its_commands_also_without_a_function(tools: tuple[Tool, ...]) -> None:
    choice = {"function_choice": "none"} if tools else {}
    request = ChatRequest("m", (QUESTION,), tools, {"stop": "x", **choice})
    made, _ = add_tool_prompt(request, QWEN)
    assert made.params["stop"] == ["x", "✿RESULT✿", "✿RETURN✿"]
    assert add_tool_prompt(replace(request, params=choice), NOUS)[0].params == {}
    chain = reply_stages(request, QWEN, "chat-1")
    out = Pipe(chain).feed([TextDelta("a ✿RES"), TextDelta("ULT✿: b"), Finish("stop")])
    assert "".join(event.text for event in out if isinstance(event, TextDelta)) == "a "


def test_a_caller_who_looks_for_stop_words_itself_gets_the_text_behind_those_of_the_prompt_too() -> None:
    request = ChatRequest("m", (QUESTION,), (), {"skip_stopword_postproc": True})
    assert add_tool_prompt(request, QWEN)[0].params["stop"] == ["✿RESULT✿", "✿RETURN✿"]
    assert not any(isinstance(stage, StopWordStage) for stage in reply_stages(request, QWEN, "chat-1"))


TOOLS = [Tool(name, {"name": name}) for name in ("f", "g", "code_interpreter")]


@each_case("seed", [None, *range(8)])
@each_case("unit", QWEN_UNITS, ids=lambda unit: repr(unit["text"])[:40])
def test_qwen_text_is_read_as_the_original_reads_it_or_better(unit: Json, seed: int | None) -> None:
    forced = "" if unit["function_choice"] == "auto" else unit["function_choice"]
    stage = QwenStage("chat-1", TOOLS, parallel=unit["parallel"], forced=forced)
    assert run([stage], texts(unit["text"], seed)).short() == expected_by_qwen(unit)[0]


@each_case(
    ("text", "arguments"),
    [
        ("✿FUNCTION✿: f ✿ARGS✿: {}", "{}"),
        ("✿FUNCTION✿: f\n✿ARGS✿: abc\n✿RESULT✿", "abc"),
        ("✿FUNCTION✿: f\n✿ARGS✿: abc ✿RESULT✿ and more", "abc"),
    ],
)
@each_case("seed", [None, *range(4)])
def test_arguments_end_at_the_next_word_of_the_template(text: str, arguments: str, seed: int | None) -> None:
    call = run([QwenStage("chat-1", TOOLS)], texts(text, seed)).messages()[0]
    assert call["function_call"] == {"name": "f", "arguments": arguments}
