from app.chat.messages import Message, Reasoning, Text, ToolCall
from app.chat.turns import Turn
from app.formats.autogen.write import write_items
from app.openai_messages.grouping import group_messages

CALL = ToolCall("f", "{}")


def turn_of(*messages: Message) -> Turn:
    turn = Turn(messages[0])
    for one in messages:
        turn.add(one.parts)
    return turn


def test_a_turn_goes_on_from_reasoning_to_text_to_calls() -> None:
    turn = turn_of(Message("assistant", (Reasoning("r"),)), Message("assistant", (Text("t"),)))
    assert turn.accepts(Message("assistant", (CALL,)), (CALL,))
    assert not turn.accepts(Message("assistant", (Reasoning("r"),)), (Reasoning("r"),))
    assert not turn.accepts(Message("assistant", (CALL,), name="Other"), (CALL,))


def test_after_a_call_everything_is_of_its_turn_that_names_no_other() -> None:
    turn = turn_of(Message("assistant", (CALL,), turn="t1"))
    assert turn.accepts(Message("assistant", (Reasoning("r"),)), (Reasoning("r"),))
    assert not turn.accepts(Message("assistant", (CALL,), turn="t2"), (CALL,))


def test_autogen_has_one_turn_for_one_message_to_the_model() -> None:
    messages = [
        Message("assistant", (Reasoning("r"),)),
        Message("assistant", (Text("t"),), turn="t1"),
        Message("assistant", (CALL,), turn="t2"),
    ]
    groups, _ = group_messages(messages)
    items, _ = write_items(messages, None, "assistant")
    assert len(groups) == 1
    assert [one["type"] for one in items] == ["ThoughtEvent", "ThoughtEvent", "ToolCallRequestEvent"]
