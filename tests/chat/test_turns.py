from app.chat.messages import Media, Message, Reasoning, Text, ToolCall, ToolResult
from app.chat.turns import Turn, split_message, to_model_view
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


def test_a_message_is_split_at_what_is_no_text_and_no_media() -> None:
    text, picture, result = Text("t"), Media("image", ("https://example.com/a",)), ToolResult((Text("r"),), "c1")
    pieces = split_message(Message("assistant", (text, picture, CALL, result, text)))
    assert [(piece.role, piece.parts) for piece in pieces] == [
        ("assistant", (text, picture)),
        ("assistant", (CALL,)),
        ("tool", (result,)),
        ("assistant", (text,)),
    ]
    assert [piece.parts for piece in split_message(Message("user", ()))] == [()]
    assert [piece.parts for piece in split_message(Message("assistant", (CALL,)))] == [(CALL,)]


def test_a_model_sees_no_paths_names_of_files_and_other_fields() -> None:
    picture = Media("image", ("https://example.com/a",), path="messages[0]", name="a.png")
    result = ToolResult((picture, Text("r")), "c1")
    seen = to_model_view(Message("tool", (picture, CALL, result), name="f", path="x", turn="t", extra={"is_error": 1}))
    assert (seen.name, seen.path, seen.turn, seen.extra) == (None, "", None, {})
    media, call, results = seen.parts
    assert type(media) is Media and (media.path, media.name) == ("", None)
    assert call is CALL
    assert type(results) is ToolResult and type(results.content[0]) is Media and results.content[0].path == ""
