from app.chat.messages import Media, Text
from app.chat.server_tools import (
    ModelCall,
    OfferedTool,
    ServerToolsSummary,
    ToolAnswer,
    ToolCallSummary,
    ToolError,
    describe_part,
    refuse_call,
)

from tests.each_case import each_case


def test_a_tool_is_a_function_whose_schema_is_unchanged() -> None:
    schema = {"type": "object", "title": "X"}
    tool = OfferedTool("wx-now", "wx", "now", "The time", schema, annotations={"readOnlyHint": True})
    assert tool.to_schema() == {"name": "wx-now", "description": "The time", "parameters": schema}
    assert OfferedTool("wx-now", "wx", "now", None, schema).to_schema() == {"name": "wx-now", "parameters": schema}


def test_a_refused_call_is_told_as_an_error_that_reached_no_server() -> None:
    answer = refuse_call("there is no tool 'x'", -32602)
    text = "Error: there is no tool 'x'"
    error = ToolError("protocol", -32602, "there is no tool 'x'")
    assert answer == ToolAnswer((Text(text),), error, "not_run", len(text))


def test_a_summary_has_the_cost_beside_the_usage_and_a_limit_only_if_one_was_met() -> None:
    call = ModelCall("tool_calls", {"total_tokens": 3, "cost": 0.5}, cached=True)
    summary = ServerToolsSummary((call,), (ToolCallSummary("c1", "wx", "now", "ok", 12, 5),))
    assert summary.to_dict() == {
        "model_calls": [{"finish_reason": "tool_calls", "usage": {"total_tokens": 3}, "cached": True, "cost": 0.5}],
        "calls": [{"id": "c1", "server": "wx", "tool": "now", "outcome": "ok", "ms": 12, "bytes": 5}],
    }
    assert ServerToolsSummary((), (), "rounds").to_dict()["limit"] == "rounds"


def test_a_reply_is_cached_if_all_of_its_model_calls_were() -> None:
    hit, miss = ModelCall("stop", cached=True), ModelCall("stop")
    assert [ServerToolsSummary(calls).cached for calls in ((hit, hit), (hit, miss), ())] == [True, False, False]
    assert miss.to_dict() == {"finish_reason": "stop", "usage": None, "cached": False}


@each_case(
    ("part", "text"),
    [
        (Text("rain"), "rain"),
        (Media("image", ("data:image/png;base64,AA",)), "[image: image/png]"),
        (Media("image", ("data:,AA",)), "[image: image]"),
        (Media("audio", ("https://example.com/a",)), "[audio: audio]"),
    ],
)
def test_media_of_a_result_are_described_by_their_types(part: Text | Media, text: str) -> None:
    assert describe_part(part) == text
