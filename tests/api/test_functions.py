"""Which functions a request may bring."""

import json
from pathlib import Path
from typing import Any

import pytest
from app.api.tools import read_tools

GOLDEN = Path(__file__).parents[1] / "goldens" / "qwen_agent" / "unit_is_tool_schema.json"
CASES: list[Any] = json.loads(GOLDEN.read_text("utf-8"))
LOOSER = "Qwen-Agent asks this of its tools' classes; of a function it is the model server that knows what it takes"


def why_different(case: Any) -> str:
    """Why the gateway takes what is no schema of a tool to Qwen-Agent; blank where both say the same."""
    return "" if case["result"] or not case["input"]["name"].strip() else LOOSER


@pytest.mark.parametrize("case", CASES, ids=lambda case: json.dumps(case["input"]))
def test_a_function_is_taken_where_qwen_agent_knows_a_tool_or_looser(case: Any) -> None:
    tools, wrong = read_tools("functions", [case["input"]])
    assert (len(tools) == 1) == (not wrong) == (case["result"] or bool(why_different(case)))
