"""The original's two parsers on single texts: what is read otherwise stands in a table, with the reason."""

import pytest
from app.chat.messages import Tool
from app.steps.prompted_tools import NousStage, QwenStage

from tests.steps.prompted_tools.recorded_units import ALL_UNITS, NOUS, QWEN_UNITS, Json, expected, expected_by_qwen
from tests.steps.stage_runner import Reply, run, texts


def nous(unit: Json, seed: int | None) -> Reply:
    stage = NousStage("chat-1", (), thought_in_content=unit["thought_in_content"])
    return run([stage], texts(unit["text"], seed))


UNITS = [unit for unit in ALL_UNITS if "thought_in_content" in unit]


@pytest.mark.parametrize("seed", [None, *range(8)])
@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: f"{unit['name']}-{unit['thought_in_content']}")
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


@pytest.mark.parametrize("seed", [None, *range(8)])
@pytest.mark.parametrize("unit", QWEN_UNITS, ids=lambda unit: repr(unit["text"])[:40])
def test_qwen_text_is_read_as_the_original_reads_it_or_better(unit: Json, seed: int | None) -> None:
    forced = "" if unit["function_choice"] == "auto" else unit["function_choice"]
    stage = QwenStage("chat-1", TOOLS, parallel=unit["parallel"], forced=forced)
    assert run([stage], texts(unit["text"], seed)).short() == expected_by_qwen(unit)[0]
