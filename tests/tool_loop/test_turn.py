from app.chat.events import (
    CallEnd,
    Event,
    Extra,
    Finish,
    MediaOutput,
    Passed,
    PassedEnd,
    ReasoningDelta,
    ServerCall,
    TextDelta,
    TokenLogprobs,
    ToolCallDelta,
)
from app.chat.messages import Media, Message, Reasoning, Text, ToolCall
from app.tool_loop.turn import CallIds, Turn, TurnCall

from tests.tool_loop.fake_servers import make_tool

NOW = make_tool("clock", "now", approval=True)


def make_turn(first_index: int = 0, *taken: str, calls_are_text: bool = False) -> Turn:
    return Turn({NOW.name: NOW}, {"own"}, first_index, CallIds(taken), calls_are_text=calls_are_text)


def test_calls_are_marked_numbered_on_and_told_one_after_the_other() -> None:
    turn = make_turn(3, "c1")
    out = turn.feed(
        [
            ToolCallDelta(0, "{", "c1", "clock-now"),
            ToolCallDelta(1, "{}", "c2", "own"),
            ToolCallDelta(0, "}"),
            ToolCallDelta(2, "{}", "c1", "made_up"),
            Finish("tool_calls"),
        ]
    )
    assert out == [
        ServerCall(3, "clock", "now", approval=True),
        ToolCallDelta(3, "{", "c1_1", "clock-now"),
        ToolCallDelta(3, "}"),
        CallEnd(3),
        ToolCallDelta(4, "{}", "c2", "own"),
        CallEnd(4),
        ServerCall(5, "", "made_up"),
        ToolCallDelta(5, "{}", "c1_2", "made_up"),
    ]
    assert turn.end == Finish("tool_calls")
    assert turn.next_index == 6
    assert turn.has_own_calls
    assert turn.finish()[1] == [
        TurnCall(3, "c1_1", "clock-now", "{}", NOW),
        TurnCall(5, "c1_2", "made_up", "{}", None),
    ]


def test_events_of_a_server_between_those_of_a_call_do_not_end_it() -> None:
    turn = make_turn()
    begun = turn.feed([Passed("content_block_start", "{}"), ToolCallDelta(0, "{", "c1", "clock-now")])
    rest = turn.feed([Passed("content_block_delta", "{}"), ToolCallDelta(0, "}"), PassedEnd(), Finish("tool_calls")])
    assert begun[1:] == [ToolCallDelta(0, "{", "c1", "clock-now")] and rest == [ToolCallDelta(0, "}")]
    assert turn.finish()[1] == [TurnCall(0, "c1", "clock-now", "{}", NOW)]


def test_a_turn_is_the_messages_that_a_client_would_send_back() -> None:
    turn = make_turn(2)
    turn.feed(
        [
            ReasoningDelta("Hm"),
            TextDelta("A"),
            TextDelta("B"),
            MediaOutput("image", "data:image/png;base64,AA=="),
            ToolCallDelta(0, "[1]", "c1", "clock-now"),
            Extra({"extra_content": {"sign": 1}}, 0),
            Extra({"reasoning_details": [1]}),
            Finish("tool_calls"),
        ]
    )
    messages, _ = turn.finish()
    assert messages == [
        Message("assistant", (Reasoning("Hm"),)),
        Message("assistant", (Text("AB"),)),
        Message("assistant", (Media("image", ("data:image/png;base64,AA==",)),)),
        Message(
            "assistant",
            (ToolCall("clock-now", "[1]", "c1", {"extra_content": {"sign": 1}}),),
            extra={"reasoning_details": [1], "arguments_valid": False},
        ),
    ]


def test_the_extra_of_a_call_gets_the_index_in_the_reply() -> None:
    turn = make_turn(1)
    call: Event = ToolCallDelta(0, "{}", "c1", "own")
    assert turn.feed([call, Extra({"a": 1}, 0), Extra({"b": 1})])[-2:] == [Extra({"a": 1}, 1), Extra({"b": 1})]


def test_white_space_before_a_call_that_is_text_is_dropped_and_other_white_space_is_kept() -> None:
    turn = make_turn(calls_are_text=True)
    events: list[Event] = [TextDelta("A \n"), TextDelta("\nB\n"), ToolCallDelta(0, "{}", "c1", "own")]
    assert [event.text for event in turn.feed(events) if type(event) is TextDelta] == ["A", " \n\nB"]
    turn = make_turn(calls_are_text=True)
    told = turn.feed([TextDelta("A\n"), ReasoningDelta("B"), TextDelta("C "), Finish("stop")])
    assert told == [TextDelta("A"), TextDelta("\n"), ReasoningDelta("B"), TextDelta("C"), TextDelta(" ")]


def test_log_probabilities_keep_white_space_before_a_call_that_is_text_back() -> None:
    turn = make_turn(calls_are_text=True)
    scores: list[Event] = [TokenLogprobs([{"token": "\n"}]), TextDelta("\n")]
    out = turn.feed([TextDelta("Hi"), *scores, *scores, ToolCallDelta(0, "{}", "c1", "own"), Finish("tool_calls")])
    assert [event for event in out if type(event) is TextDelta] == [TextDelta("Hi")]
    assert [event for event in out if type(event) is TokenLogprobs] == [scores[0], scores[0]]
