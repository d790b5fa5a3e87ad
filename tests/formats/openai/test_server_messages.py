from app.chat.accumulator import MessageAccumulator
from app.chat.events import Event, Extra, ServerCall, ServerResult, TextDelta, ToolCallDelta, TurnEnd
from app.chat.messages import Media, Text
from app.chat.server_tools import ToolError
from app.formats.openai.server_messages import ServerMessages, list_entries

IMAGE = Media("image", ("data:image/png;base64,AA==",))
SOUND = Media("audio", ("data:audio/wav;base64,AA==",))


def test_turns_with_calls_of_the_gateway_and_their_results_are_entries_in_their_order() -> None:
    events: list[Event] = [
        ServerResult("c0", "wx-set", "wx", "set", (Text("set"),)),
        TextDelta("A"),
        Extra({"reasoning_details": [1]}),
        TextDelta("B", refusal=True),
        ServerCall(0, "wx", "now", approval=True),
        ToolCallDelta(0, "{}", "c1", "wx-now"),
        Extra({"extra_content": {"s": 1}}, 0),
        ToolCallDelta(1, "{}", "c2", "own"),
        TurnEnd("tool_calls"),
        ServerResult("c1", "wx-now", "wx", "now", (Text("x"), IMAGE, SOUND), ToolError("execution", 0, "x")),
        TextDelta("C"),
    ]
    accumulator = MessageAccumulator()
    accumulator.feed(events)
    served = {"id": "c1", "type": "function", "function": {"name": "wx-now", "arguments": "{}"}}
    own = {"id": "c2", "type": "function", "function": {"name": "own", "arguments": "{}"}}
    assert list_entries(accumulator.messages, accumulator.turn_ends) == [
        {"index": 0, "role": "tool", "tool_call_id": "c0", "content": "set"},
        {
            "index": 1,
            "role": "assistant",
            "content": "A",
            "reasoning_details": [1],
            "tool_calls": [{**served, "extra_content": {"s": 1}, "approval": "required"}, own],
        },
        {
            "index": 2,
            "role": "tool",
            "tool_call_id": "c1",
            "content": [
                {"type": "text", "text": "x"},
                {"type": "image_url", "image_url": {"url": IMAGE.urls[0]}},
                {"type": "audio", "audio": {"url": SOUND.urls[0]}},
            ],
            "is_error": True,
        },
    ]


def test_a_turn_with_calls_of_the_client_alone_is_no_entry() -> None:
    accumulator = MessageAccumulator()
    accumulator.feed([ToolCallDelta(0, "{}", "c2", "own"), TurnEnd("tool_calls")])
    assert ServerMessages().add_turn(accumulator.messages) is None
