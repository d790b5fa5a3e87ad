"""Which functions a request may bring."""

import json
from typing import Any

import pytest
from app.formats.functions import parse_tools

from tests.formats.recorded_functions import CASES, why_different


@pytest.mark.parametrize("case", CASES, ids=lambda case: json.dumps(case["input"]))
def test_a_function_is_taken_where_qwen_agent_knows_a_tool_or_looser(case: Any) -> None:
    tools, wrong = parse_tools("functions", [case["input"]])
    assert (len(tools) == 1) == (not wrong) == (case["result"] or bool(why_different(case)))


@pytest.mark.parametrize(
    ("tool", "path", "message"),
    [
        ({"function": {"name": "f"}}, "tools[0].type", "is required"),
        ({"type": None, "function": {"name": "f"}}, "tools[0].type", "is required"),
        ({"type": "custom", "function": {"name": "f"}}, "tools[0].type", "must be function"),
        ({"type": "web_search", "name": "f"}, "tools[0].type", "must be function or custom"),
        ({"type": "custom", "custom": None}, "tools[0].custom", "must be a custom object"),
        ({"type": "custom", "custom": {}}, "tools[0].custom.name", "is required"),
        ({"type": "custom"}, "tools[0].name", "is required"),
        ({"type": "function"}, "tools[0].function", "is required"),
        ({"type": "function", "function": None}, "tools[0].function", "must be a function object"),
        ({"type": "function", "function": {}}, "tools[0].function.name", "is required"),
        ({"description": "d"}, "tools[0].name", "is required"),
    ],
)
def test_what_a_tool_lacks_is_named_where_it_is_missing(tool: Any, path: str, message: str) -> None:
    tools, [wrong] = parse_tools("tools", [tool])
    assert (tools, wrong.path) == ((), path)
    assert wrong.message.startswith(message)


def test_a_tool_may_be_bare_or_wrapped() -> None:
    for tool in ({"name": "f"}, {"type": "function", "name": "f"}, {"type": "function", "function": {"name": "f"}}):
        [read], wrong = parse_tools("tools", [tool])
        assert (read.name, wrong) == ("f", [])
