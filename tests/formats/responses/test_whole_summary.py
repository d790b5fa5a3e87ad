"""Which replies are a summary that may replace a conversation."""

from typing import Literal

import pytest
from app.chat.events import Event, Failed, Finish, Passed, TextDelta, ToolCallDelta
from app.formats.responses.whole_summary import FinishedSummary, WholeSummary


@pytest.mark.parametrize(
    "events",
    [
        [TextDelta("S"), Finish("length")],
        [Finish("stop")],
        [TextDelta(" \n"), Finish("stop")],
        [TextDelta("No.", refusal=True), Finish("stop")],
        [ToolCallDelta(0, "c", "f", "{}"), Finish("tool_calls")],
    ],
)
def test_only_a_whole_summary_passes(events: list[Event]) -> None:
    end = WholeSummary().feed(events)[-1]
    assert type(end) is Failed
    assert end.fault.transient
    assert "no summary" in end.fault.message


@pytest.mark.parametrize("events", [[TextDelta("S"), Finish("stop")], [Passed("x", "{}"), Finish("stop")], []])
def test_a_whole_summary_passes_as_it_is(events: list[Event]) -> None:
    assert WholeSummary().feed(events) is events


@pytest.mark.parametrize("reason", ["length", "content_filter"])
def test_a_reply_that_says_itself_that_it_is_unfinished_does_not_fail(
    reason: Literal["length", "content_filter"],
) -> None:
    events: list[Event] = [TextDelta("S"), Finish(reason)]
    assert FinishedSummary().feed(events) is events


@pytest.mark.parametrize(
    "events", [[Finish("stop")], [TextDelta("S"), ToolCallDelta(0, "{}", "c", "f"), Finish("stop")]]
)
def test_a_finished_reply_has_a_summary_and_no_call(events: list[Event]) -> None:
    assert type(FinishedSummary().feed(events)[-1]) is Failed
