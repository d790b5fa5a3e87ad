"""Functions that Qwen-Agent takes or refuses, and where ours differ on purpose."""

import json
from pathlib import Path
from typing import Any

GOLDEN = Path(__file__).parents[1] / "goldens" / "qwen_agent" / "unit_is_tool_schema.json"

CASES: list[Any] = json.loads(GOLDEN.read_text("utf-8"))

LOOSER = "Qwen-Agent asks this of its tools' classes; of a function it is the model server that knows what it takes"


def why_different(case: Any) -> str:
    """Why the gateway takes what is no schema of a tool to Qwen-Agent; blank where both say the same."""
    return "" if case["result"] or not case["input"]["name"].strip() else LOOSER
