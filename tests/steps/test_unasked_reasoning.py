"""Reasoning of a reply whose request has switched thinking off."""

from app.chat.events import Event, Extra, Failed, Fault, Finish, ReasoningDelta, TextDelta, ToolCallDelta
from app.steps.unasked_reasoning import UnaskedReasoningStage

from tests.each_case import each_case

STOP = Finish("stop")
THOUGHT: list[Event] = [ReasoningDelta("It is "), ReasoningDelta("Paris.")]
FAILED = Failed(Fault("server_error", "x", True, 500))


def run(events: list[Event], *, at_once: bool) -> list[Event]:
    stage = UnaskedReasoningStage()
    batches = [events] if at_once else [[event] for event in events]
    return [event for batch in batches for event in stage.feed(batch)]


@each_case("at_once", [True, False])
def test_reasoning_that_is_all_of_a_reply_is_the_answer(at_once: bool) -> None:
    *answer, end = run([TextDelta("\n"), *THOUGHT, STOP], at_once=at_once)
    assert answer == [TextDelta("\n"), TextDelta("It is "), TextDelta("Paris.")]
    assert type(end) is Finish and len(end.warnings) == 1 and end.cacheable


@each_case(
    "rest",
    [
        [TextDelta("Paris."), STOP],
        [TextDelta(" "), TextDelta("Paris."), STOP],
        [TextDelta("I cannot.", refusal=True), STOP],
        [ToolCallDelta(0, "{}", "c", "f"), Finish("tool_calls")],
        [Finish("length")],
        [Finish("content_filter")],
        [FAILED],
    ],
)
def test_reasoning_before_an_answer_and_of_a_reply_that_is_not_whole_stays_reasoning(rest: list[Event]) -> None:
    events = [Extra({"x": 1}), *THOUGHT, *rest]
    assert run(events, at_once=True) == run(events, at_once=False) == events


def test_what_has_no_reasoning_passes_at_once() -> None:
    stage = UnaskedReasoningStage()
    assert stage.feed([TextDelta("a")]) == [TextDelta("a")]
    assert stage.feed([ReasoningDelta("b")]) == [ReasoningDelta("b")]
    assert UnaskedReasoningStage().feed([ReasoningDelta(" "), STOP]) == [ReasoningDelta(" "), STOP]
