"""A conversation as messages of AgentScope 2.x."""

from app.chat.messages import Media, Message, Part, Reasoning, Role, Text, ToolCall, ToolResult
from app.formats.agentscope.v2 import AGENTSCOPE2
from app.formats.agentscope.v2.write import write_msg
from app.formats.base import Options

from tests.formats.agentscope.cases import Json, encoded


def message(role: Role, *parts: Part, name: str | None = None, path: str = "messages[0]") -> Message:
    return Message(role, parts, name, path=path)


def kinds(*messages: Message) -> list[tuple[str, list[str]]]:
    """The role of each message, and the types of its blocks."""
    return [(one["role"], [block["type"] for block in blocks_of(one)]) for one in encoded(AGENTSCOPE2, messages)]


def blocks_of(written: Json) -> list[Json]:
    content = written["content"]
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


CALL = message("assistant", ToolCall("f", "{}", "1"))
RESULT = message("tool", ToolResult((Text("r"),), "f", "1"))


def test_everything_that_an_assistant_does_in_a_row_is_one_message() -> None:
    messages = (message("user", Text("q")), message("assistant", Reasoning("r")), CALL, RESULT)
    assert kinds(*messages, message("assistant", Text("t"))) == [
        ("user", ["text"]),
        ("assistant", ["thinking", "tool_call", "tool_result", "text"]),
    ]


def test_two_turns_in_a_row_and_another_speaker_are_other_messages() -> None:
    text = message("assistant", Text("t"))
    assert kinds(text, message("assistant", Text("u"))) == [("assistant", ["text"])] * 2
    assert kinds(CALL, RESULT, message("assistant", Text("t"), name="Bob")) == [
        ("assistant", ["tool_call", "tool_result"]),
        ("assistant", ["text"]),
    ]


def test_a_call_with_its_result_is_finished() -> None:
    [item] = encoded(AGENTSCOPE2, (CALL, RESULT))
    assert [block["state"] for block in item["content"]] == ["finished", "success"]


def test_a_result_behind_another_message_moves_to_its_call_with_a_warning() -> None:
    other = message("assistant", ToolCall("g", "{}", "2"))
    late = message("tool", ToolResult((Text("r"),), "f", "1"), path="messages[4]")
    messages = (CALL, message("user", Text("q")), other, message("user", Text("q")), late)
    assert kinds(*messages) == [
        ("assistant", ["tool_call", "tool_result"]),
        ("user", ["text"]),
        ("assistant", ["tool_call"]),
        ("user", ["text"]),
    ]
    losses = AGENTSCOPE2.write(messages, Options()).losses
    assert [(loss.path, loss.message) for loss in losses] == [
        ("messages[4]", "is moved directly after the call that it answers")
    ]


def test_a_late_result_without_an_id_is_that_of_the_last_call_of_its_function_or_of_any() -> None:
    other = message("assistant", ToolCall("g", "{}", "2"))
    for name, order in (("f", ["tool_call", "tool_result"]), (None, ["tool_call"])):
        late = message("tool", ToolResult((Text("r"),), name))
        found = kinds(CALL, message("user", Text("q")), other, message("user", Text("q")), late)
        assert found[0] == ("assistant", order)


def test_an_unknown_time_is_left_out() -> None:
    head = Message("user", (), "n", extra={"message_id": "1", "created_at": "then"})
    assert list(write_msg(head, [], {})) == ["name", "content", "role", "id", "metadata", "created_at"]
    assert "created_at" not in write_msg(Message("user", (), "n", extra={"message_id": "1"}), [], {})


def test_media_of_a_system_message_are_a_loss_and_those_of_a_user_are_none() -> None:
    image = Media("image", ("https://h/a",), path="p")
    losses = AGENTSCOPE2.write((message("system", image), message("user", image)), Options()).losses
    assert [(loss.path, loss.message) for loss in losses] == [("p", "is written as the text '[image: https://h/a]'")]
