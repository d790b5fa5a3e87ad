"""Events that only add to a message, taken many at once."""

from app.chat.accumulator import MessageAccumulator
from app.chat.events import Event, ReasoningDelta, TextDelta, ToolCallDelta

from tests.each_case import each_case

FIRST = ToolCallDelta(0, "{", "c", "f")


@each_case(
    ("opened", "events", "taken"),
    [
        (TextDelta("a"), [TextDelta("b"), TextDelta("c"), ReasoningDelta("d")], ["b", "c"]),
        (TextDelta("a"), [TextDelta("b"), TextDelta("c", refusal=True)], ["b"]),
        (TextDelta("a"), [TextDelta("b", refusal=True)], None),
        (TextDelta("a"), [ReasoningDelta("b")], None),
        (ReasoningDelta("a"), [ReasoningDelta("b"), ReasoningDelta("c")], ["b", "c"]),
        (FIRST, [ToolCallDelta(0, "1"), ToolCallDelta(0, "2"), ToolCallDelta(1, "3")], ["1", "2"]),
        (FIRST, [ToolCallDelta(0, "1"), ToolCallDelta(0, "")], ["1"]),
        (FIRST, [ToolCallDelta(1, "1")], None),
        (FIRST, [ToolCallDelta(0, "")], None),
    ],
)
def test_events_that_add_to_one_message_are_taken_together(
    opened: Event, events: list[Event], taken: list[str] | None
) -> None:
    accumulator = MessageAccumulator()
    accumulator.feed([opened])
    [message] = accumulator.messages
    before = message.text
    run = accumulator.extend_run(events, 0)
    assert (run and run[1]) == taken
    assert message.text == before + "".join(taken or ())
