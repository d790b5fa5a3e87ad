"""What a reply becomes as events of the Responses API in cases that the goldens do not have."""

import json
from typing import Any

from app.chat.events import Event, Finish, TextDelta, ToolCallDelta
from app.formats.base import Options, ReplyInfo, ResponsesOptions
from app.formats.responses import RESPONSES

from tests.each_case import each_case

Json = dict[str, Any]
CUSTOM = Options(responses=ResponsesOptions(custom=("patch",)))


def frames(*events: Event, options: Options = CUSTOM) -> list[Json]:
    """The events after those that open the stream, each event of the reply in a read of its own."""
    encoder = RESPONSES.reply_encoder(ReplyInfo("resp_1", "req-1", "m", 1, options=options), "delta")
    body = b"".join(encoder.feed([event]) for event in events)
    return [json.loads(line[6:]) for line in body.decode().split("\n") if line.startswith("data: ")]


@each_case(
    ("pieces", "written"),
    [
        (['{"input": "a', 'b"}'], "ab"),
        (['{"input": ""}'], ""),
        (["no JSON"], "no JSON"),
        (['{"text": "a"}'], '{"text": "a"}'),
    ],
)
def test_the_input_of_a_custom_tool_is_one_string(pieces: list[str], written: str) -> None:
    first, *others = pieces
    found = frames(ToolCallDelta(0, first, "c", "patch"), *(ToolCallDelta(0, one) for one in others), Finish("stop"))
    kinds = [one["type"].rpartition("custom_tool_call_input.")[2] for one in found if "custom" in one["type"]]
    assert kinds == (["delta", "done"] if written else ["done"])
    [done] = [one for one in found if one["type"] == "response.custom_tool_call_input.done"]
    assert done["input"] == written
    [item] = found[-1]["response"]["output"]
    assert (item["type"], item["name"], item["input"]) == ("custom_tool_call", "patch", written)


def test_blank_arguments_behind_a_call_that_has_ended_are_not_written() -> None:
    found = frames(ToolCallDelta(0, "{}", "c", "f"), TextDelta("é\u2028"), ToolCallDelta(0, " "), Finish("tool_calls"))
    deltas = [one["delta"] for one in found if one["type"].endswith(".delta")]
    assert deltas == ["{}", "é\u2028"]
