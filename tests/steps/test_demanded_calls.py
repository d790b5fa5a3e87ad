"""Which function a request demands, and what is said where the model did not call it."""

from typing import Any

from app.chat.events import Event, Finish, TextDelta, ToolCallDelta
from app.chat.messages import ChatRequest, Tool
from app.steps.demanded_calls import DemandedCallStage, find_demanded_function

from tests.each_case import each_case

TOOLS = (Tool("f", {"name": "f"}),)
STOP = Finish("stop")


@each_case(
    ("params", "tools", "name"),
    [
        ({}, TOOLS, None),
        ({"function_choice": "auto"}, TOOLS, None),
        ({"tool_choice": "none"}, TOOLS, None),
        ({"tool_choice": "required"}, TOOLS, ""),
        ({"function_choice": "f", "tool_choice": "none"}, TOOLS, "f"),
        ({"tool_choice": {"type": "function", "function": {"name": "f"}}}, TOOLS, "f"),
        ({"tool_choice": "required"}, (), None),
    ],
)
def test_the_function_that_must_be_called(params: dict[str, Any], tools: tuple[Tool, ...], name: str | None) -> None:
    assert find_demanded_function(ChatRequest("m", (), tools, params)) == name


@each_case(
    ("name", "events", "warned"),
    [
        ("", [TextDelta("a"), STOP], True),
        ("f", [ToolCallDelta(0, "{}", "c", "g"), STOP], True),
        ("f", [ToolCallDelta(0, "{}", "c", "f"), STOP], False),
        ("", [ToolCallDelta(0, "{}", "c", "g"), STOP], False),
    ],
)
def test_a_demand_that_is_not_met_is_warned_of_and_the_reply_is_not_kept(
    name: str, events: list[Event], warned: bool
) -> None:
    stage = DemandedCallStage(name)
    end = [event for one in events for event in stage.feed([one])][-1]
    assert isinstance(end, Finish)
    assert (bool(end.warnings), end.cacheable) == (warned, not warned)
    assert stage.feed([]) == []
