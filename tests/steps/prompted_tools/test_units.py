"""The original's two parsers on single texts: what is read otherwise stands in a table, with the reason."""

import pytest
from app.chat.messages import Tool
from app.steps.prompted_tools import NousStage, QwenStage

from tests.each_case import each_case
from tests.steps.prompted_tools.recorded_units import ALL_UNITS, NOUS, QWEN_UNITS, Json, expected, expected_by_qwen
from tests.steps.stage_runner import Reply, run, texts


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


TOOLS = [Tool(name, {"name": name}) for name in ("f", "g", "code_interpreter")]


@each_case("seed", [None, *range(8)])
@each_case("unit", QWEN_UNITS, ids=lambda unit: repr(unit["text"])[:40])
def test_qwen_text_is_read_as_the_original_reads_it_or_better(unit: Json, seed: int | None) -> None:
    forced = "" if unit["function_choice"] == "auto" else unit["function_choice"]
    stage = QwenStage("chat-1", TOOLS, parallel=unit["parallel"], forced=forced)
    assert run([stage], texts(unit["text"], seed)).short() == expected_by_qwen(unit)[0]


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
