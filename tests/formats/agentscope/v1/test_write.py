"""A conversation as messages of AgentScope 1.x."""

from app.chat.messages import Media, Message, Part, Reasoning, Role, Text, ToolCall, ToolResult
from app.formats.agentscope.v1 import AGENTSCOPE
from app.formats.agentscope.v1.write import write_msg
from app.formats.base import Options

from tests.formats.agentscope.cases import Json, encoded


def message(role: Role, *parts: Part, name: str | None = None, path: str = "messages[0]") -> Message:
    return Message(role, parts, name, path=path)


def kinds(*messages: Message) -> list[tuple[str, list[str]]]:
    """The role of each message, and the types of its blocks."""
    return [(one["role"], [block["type"] for block in blocks_of(one)]) for one in encoded(AGENTSCOPE, messages)]


def blocks_of(written: Json) -> list[Json]:
    content = written["content"]
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


CALL = message("assistant", ToolCall("f", "{}", "1"))
RESULT = message("tool", ToolResult((Text("r"),), "f", "1"))


def test_each_turn_of_the_assistant_is_a_message_and_so_is_each_result() -> None:
    messages = (message("user", Text("q")), message("assistant", Reasoning("r")), CALL, RESULT, RESULT)
    assert kinds(*messages, message("assistant", Text("t"))) == [
        ("user", ["text"]),
        ("assistant", ["thinking", "tool_use"]),
        ("system", ["tool_result"]),
        ("system", ["tool_result"]),
        ("assistant", ["text"]),
    ]


def test_a_turn_of_another_speaker_is_another_message() -> None:
    one, other = (message("assistant", Text("t"), name=name) for name in ("Ada", "Bob"))
    assert [item["name"] for item in encoded(AGENTSCOPE, (one, other))] == ["Ada", "Bob"]


def test_a_single_text_is_a_string_unless_it_is_the_assistants_or_empty() -> None:
    cases: list[tuple[Role, str, object]] = [
        ("user", "t", "t"),
        ("user", "", [{"type": "text", "text": ""}]),
        ("assistant", "t", [{"type": "text", "text": "t"}]),
    ]
    for role, text, content in cases:
        head = Message(role, (), "n", extra={"message_id": "1"})
        assert write_msg(head, [{"type": "text", "text": text}], {})["content"] == content
    assert write_msg(Message("user", (), "n", extra={"message_id": "1"}), [], {})["content"] == ""


def test_keys_have_the_order_of_the_classes_and_an_unknown_time_is_left_out() -> None:
    head = Message("user", (), "n", extra={"message_id": "1", "created_at": "then"})
    assert list(write_msg(head, [], {})) == ["id", "name", "role", "content", "metadata", "timestamp"]
    assert "timestamp" not in write_msg(Message("user", (), "n", extra={"message_id": "1"}), [], {})


def test_a_file_is_a_loss_and_an_image_is_none() -> None:
    file, image = Media("file", ("https://h/a",), path="p"), Media("image", ("https://h/a",), path="p")
    losses = AGENTSCOPE.write((message("user", file, image),), Options()).losses
    assert [(loss.path, loss.message) for loss in losses] == [("p", "is written as the text '[file: https://h/a]'")]
