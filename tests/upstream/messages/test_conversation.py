"""The messages of a conversation, where no case of others says what they must be."""

from typing import Any

from app.chat.messages import ChatRequest, Media, Message, Reasoning, Text, ToolCall, ToolResult
from app.profiles import find_profile
from app.upstream.messages.conversation import WrittenConversation, write_conversation

from tests.each_case import each_case
from tests.upstream.messages.replies import Json

USER = Message("user", (Text("Hi"),))


def write(*messages: Message, kind: str = "anthropic") -> WrittenConversation:
    return write_conversation(ChatRequest("m", messages), find_profile(kind, "messages"))


def test_a_detail_of_an_image_is_lost_with_a_warning() -> None:
    written = write(Message("user", (Media("image", ("http://x.test/a",), detail="low"),)))
    assert written.messages[0]["content"][0]["source"]["url"] == "http://x.test/a" and len(written.warnings) == 1


def test_unsigned_thinking_is_sent_to_servers_that_take_it() -> None:
    thought = Message("assistant", (Reasoning("hm"), Text("a")))
    written = write(USER, thought, USER, kind="anthropic_compatible")
    assert written.messages[1]["content"][0] == {"type": "thinking", "thinking": "hm", "signature": ""}
    assert write(USER, thought, USER).messages[1]["content"] == "a"


@each_case(
    "item",
    [
        {
            "type": "provider.item",
            "item": {"type": "web_search_tool_result", "content": [{"type": "image", "source": {}}]},
        },
        {"type": "provider.item", "item": 5},
        {"type": "future"},
        {"type": "reasoning.encrypted", "data": 5},
    ],
)
def test_an_odd_detail_is_not_sent(item: Json) -> None:
    url = {"type": "image", "source": {"type": "url", "url": "http://10.0.0.1/"}}
    if isinstance(item.get("item"), dict):
        item["item"]["content"] = [url]
    said = Message("assistant", (Text("a"),), extra={"reasoning_details": [item | {"format": "anthropic-claude-v1"}]})
    assert write(USER, said, USER).messages[1]["content"] == "a"


def test_ids_that_become_the_same_stay_apart_and_calls_stand_behind_the_texts() -> None:
    calls = Message("assistant", (ToolCall("f", "{}", "a:1"), Text("later"), ToolCall("f", "{}", "a.1")))
    results = Message("tool", (ToolResult((Text("r"),), "f", "a:1"), ToolResult((Text("s"),), "f", "a.1")))
    written = write(USER, calls, results)
    blocks = written.messages[1]["content"]
    assert [block["type"] for block in blocks] == ["text", "tool_use", "tool_use"]
    assert [block["id"] for block in blocks[1:]] == ["a_1", "a_1_1"]
    assert [block["tool_use_id"] for block in written.messages[2]["content"]] == ["a_1", "a_1_1"]


def test_the_end_of_a_prefill_with_thought_is_stripped_too() -> None:
    item = {"type": "reasoning.text", "signature": "s", "text": "t", "format": "anthropic-claude-v1"}
    written = write(USER, Message("assistant", (Text("It is \n"),), extra={"reasoning_details": [item]}))
    assert [block.get("text") for block in written.messages[-1]["content"]] == [None, "It is"]


def signature(name: str, **fields: Any) -> Json:
    return {"type": "reasoning.text", "signature": name, "format": "anthropic-claude-v1", **fields}


@each_case(
    ("text", "details", "thoughts"),
    [
        ("One.Two.", [signature("A"), signature("B", text="Two.")], [("One.", "A"), ("Two.", "B")]),
        ("One.", [signature("A"), signature("B", text="")], [("One.", "A"), ("", "B")]),
        ("One.\nTwo.", [signature("A", text="One."), signature("B", text="Two.")], [("One.", "A"), ("Two.", "B")]),
        ("Two.", [signature("A"), signature("B", text="Two.")], [("Two.", "A"), ("Two.", "B")]),
    ],
)
def test_a_signature_without_a_text_signs_what_the_others_do_not(text: str, details: Any, thoughts: Any) -> None:
    written = write(
        USER, Message("assistant", (Reasoning(text), Text("x")), extra={"reasoning_details": details}), USER
    )
    assert [(block["thinking"], block["signature"]) for block in written.messages[1]["content"][:-1]] == thoughts


@each_case("kind", ["anthropic", "anthropic_compatible"])
def test_a_conversation_of_system_messages_alone_is_the_users(kind: str) -> None:
    written = write(Message("system", (Text("a"),)), Message("system", (Text("b"),)), kind=kind)
    assert written.system is None and written.messages == [{"role": "user", "content": "a\nb"}]
    assert write(Message("system", (Text("a"),)), Message("user", (Text(""),)), kind=kind).violations


SYSTEM = Message("system", (Text("S"),))
SAID = Message("assistant", (Text("a"),))


@each_case(
    ("messages", "roles"),
    [
        ((USER, SYSTEM, SAID, USER), ["user", "system", "assistant", "user"]),
        ((USER, SAID, USER, SYSTEM), ["user", "assistant", "user", "system"]),
        ((USER, SYSTEM, SYSTEM, SAID, USER), ["user", "system", "assistant", "user"]),
        ((USER, SAID, SYSTEM, USER), ["user", "assistant", "user"]),
        ((USER, SAID, SYSTEM), ["user", "assistant", "user"]),
        ((USER, SYSTEM, USER), ["user"]),
    ],
)
def test_a_system_message_stands_where_anthropic_takes_one(messages: Any, roles: list[str]) -> None:
    written = write(*messages)
    assert [message["role"] for message in written.messages] == roles
    assert str(written.messages).count("'S'") == sum(message is SYSTEM for message in messages)
