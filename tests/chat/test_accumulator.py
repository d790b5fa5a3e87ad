"""Events that only add to a message, taken many at once."""

from typing import Any

from app.chat.accumulator import (
    MessageAccumulator,
    MessageCompleted,
    MessageDelta,
    MessageStarted,
    Step,
    parse_arguments,
)
from app.chat.events import (
    NEXT_MESSAGE,
    CallEnd,
    Event,
    Extra,
    Finish,
    ReasoningDelta,
    ServerCall,
    ServerResult,
    TextDelta,
    ToolCallDelta,
    ToolsListed,
    TurnEnd,
)
from app.chat.messages import Media, Text
from app.chat.server_tools import ListedServer, ToolError

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


def describe(step: Step) -> str:
    if isinstance(step, MessageStarted | MessageCompleted):
        return f"{type(step).__name__[7:]} {step.message.index} {step.message.kind}"
    return f"Delta {step.message.index} {step.text}" if isinstance(step, MessageDelta) else type(step).__name__


def test_the_calls_of_a_turn_are_complete_before_its_results_and_the_next_turn_starts_new_messages() -> None:
    accumulator = MessageAccumulator()
    steps = accumulator.feed(
        [
            ToolsListed(ListedServer("wx")),
            TextDelta("Look."),
            ServerCall(0, "wx", "now"),
            ToolCallDelta(0, "{}", "c1", "wx-now"),
            CallEnd(0),
            ToolCallDelta(1, "[1]", "c2", "own"),
            TurnEnd("tool_calls"),
            ServerResult("c1", "wx-now", "wx", "now", (Text("12"), Text("00")), index=0),
            TextDelta("Noon."),
            Finish("stop"),
        ]
    )
    assert list(map(describe, steps)) == [
        "ToolsListed",
        *("Started 0 content", "Delta 0 Look.", "Completed 0 content"),
        *("Started 1 function_call", "Delta 1 {}", "Completed 1 function_call"),
        *("Started 2 function_call", "Delta 2 [1]", "Completed 2 function_call"),
        "TurnEnd",
        *("Started 3 function_result", "Delta 3 12\n00", "Completed 3 function_result"),
        *("Started 4 content", "Delta 4 Noon.", "Completed 4 content"),
        "Finish",
    ]
    served, own = accumulator.messages[1:3]
    assert served.server == ServerCall(0, "wx", "now")
    assert (own.server, own.extra) == (None, {"arguments_valid": False})


def test_a_result_with_media_has_no_text() -> None:
    accumulator = MessageAccumulator()
    image = Media("image", ("data:image/png;base64,AA==",))
    error = ToolError("execution", 0, "no")
    accumulator.feed([ServerResult("c1", "wx-now", "wx", "now", (Text("See"), image), error)])
    [message] = accumulator.messages
    assert message.text == ""
    assert message.result is not None and message.result.is_error


def test_white_space_at_the_end_of_a_turn_does_not_begin_the_next_one() -> None:
    accumulator = MessageAccumulator()
    accumulator.feed([FIRST, TextDelta(" "), ReasoningDelta("\n"), TurnEnd("tool_calls"), TextDelta("a")])
    assert [message.text for message in accumulator.messages] == ["{", "a"]


def test_fields_for_the_next_message_end_the_open_one() -> None:
    accumulator = MessageAccumulator()
    steps = accumulator.feed(
        [TextDelta("One."), Extra({"extra_content": 1}, NEXT_MESSAGE), TextDelta("Two."), Finish("stop")]
    )
    assert [(message.text, message.extra) for message in accumulator.messages] == [
        ("One.", {}),
        ("Two.", {"extra_content": 1}),
    ]
    assert [step.message.index for step in steps if isinstance(step, MessageCompleted)] == [0, 1]


@each_case(
    ("arguments", "value"),
    [
        ("", {}),
        (" \n", {}),
        ('{"a":1}', {"a": 1}),
        ("[1]", None),
        ("null", None),
        ("{", None),
        ('"\ud800"', None),
        ("[" * 100_000, None),
    ],
)
def test_arguments_are_an_object_or_nothing(arguments: str, value: dict[str, Any] | None) -> None:
    assert parse_arguments(arguments) == value
