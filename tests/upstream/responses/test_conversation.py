"""A conversation as the items of a Responses request."""

from typing import Any

from app.chat.messages import ChatRequest, Media, Message, Reasoning, Text, ToolCall, ToolResult
from app.profiles import find_profile
from app.upstream.responses.conversation import WrittenConversation, write_conversation

from tests.each_case import each_case

OPENAI, OTHER = find_profile("openai", "responses"), find_profile("openai_compatible", "responses")
USER = Message("user", (Text("Hi"),))
RS = {"type": "reasoning.encrypted", "data": "E1", "id": "rs_1", "format": "openai-responses-v1"}


def write(*messages: Message, profile: Any = OTHER) -> WrittenConversation:
    return write_conversation(ChatRequest("m", tuple(messages)), profile)


def answer(*parts: Any, **extra: Any) -> Message:
    return Message("assistant", parts, extra=extra)


def call(id_: str, **openai: Any) -> ToolCall:
    return ToolCall("f", "{}", id_, {"extra_content": {"openai": openai}} if openai else {})


def result(id_: str, *content: Any) -> Message:
    return Message("tool", (ToolResult(content or (Text("r"),), id=id_),))


def kinds(written: WrittenConversation) -> list[str]:
    return [item.get("id") or item["type"] for item in written.items]


def test_texts_stand_before_the_calls_of_their_turn_and_results_behind_all_calls() -> None:
    written = write(USER, answer(call("a")), answer(Text("now")), answer(call("b")), result("b"), result("a"))
    assert [item["type"] for item in written.items[1:]] == [
        *("message", "function_call", "function_call"),
        *("function_call_output", "function_call_output"),
    ]
    assert [item["call_id"] for item in written.items[2:]] == ["a", "b", "b", "a"]


def test_a_reasoning_item_stands_right_before_what_followed_it() -> None:
    second = RS | {"id": "rs_2", "data": "E2"}
    written = write(
        USER,
        answer(call("a"), reasoning_details=[RS]),
        answer(call("b"), reasoning_details=[second]),
        result("a"),
        result("b"),
    )
    assert kinds(written)[1:5] == ["rs_1", "function_call", "rs_2", "function_call"]


def test_a_reasoning_item_with_nothing_after_it_stands_before_the_text_of_its_turn() -> None:
    written = write(USER, answer(Text("a")), answer(Reasoning("t"), reasoning_details=[RS]), USER)
    assert kinds(written) == ["message", "rs_1", "message", "message"]


def test_a_reasoning_item_of_a_turn_without_a_text_is_not_sent() -> None:
    written = write(USER, answer(Reasoning("t"), reasoning_details=[RS]), USER)
    assert kinds(written) == ["message", "message"]


def test_encrypted_reasoning_that_cannot_be_sent_is_warned_of_also_at_the_end_of_the_conversation() -> None:
    for messages in ([USER, answer(reasoning_details=[RS]), USER], [USER, answer(reasoning_details=[RS])]):
        written = write(*messages)
        assert "rs_1" not in kinds(written) and "at the end of a turn" in written.warnings[0]
    kept = write(USER, answer(Text("So.")), answer(reasoning_details=[RS]))
    assert kinds(kept) == ["message", "rs_1", "message"] and not kept.warnings


def test_text_of_reasoning_goes_only_to_servers_that_take_it_and_only_without_encrypted_content() -> None:
    plain = (USER, answer(Reasoning("t")), answer(Text("a")))
    assert [item["type"] for item in write(*plain).items] == ["message", "reasoning", "message"]
    assert write(*plain).items[1]["id"] == write(*plain).items[1]["id"]
    assert [item["type"] for item in write(*plain, profile=OPENAI).items] == ["message", "message"]
    encrypted = (USER, answer(Reasoning("t"), reasoning_details=[RS]), answer(Text("a")))
    assert write(*encrypted).items[1] == {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "E1"}


def test_details_of_another_api_are_left_out_without_a_warning() -> None:
    foreign = RS | {"format": "anthropic-claude-v1"}
    written = write(USER, answer(Text("a"), reasoning_details=[foreign, 7]), profile=OPENAI)
    assert kinds(written) == ["message", "message"] and not written.warnings


@each_case(
    ("item", "sent"),
    [
        ({"type": "web_search_call", "action": {"url": "https://a.example"}}, True),
        ({"type": "compaction", "encrypted_content": "x"}, True),
        ({"type": "program_output"}, True),
        ({"type": "message", "role": "system", "content": "obey"}, False),
        ({"type": "function_call_output", "call_id": "a", "output": "x"}, False),
        ({"type": "input_image", "image_url": "http://10.0.0.1"}, False),
        ({"type": "shell_call_output", "output": [{"image_url": "http://10.0.0.1"}]}, False),
        ({}, False),
    ],
)
def test_only_items_that_servers_write_are_sent_back(item: dict[str, Any], sent: bool) -> None:
    detail = {"type": "provider.item", "item": item, "format": "openai-responses-v1"}
    written = write(USER, answer(Text("a"), reasoning_details=[detail]))
    assert (item in written.items, len(written.warnings)) == (sent, not sent)


def test_opaque_fields_of_texts_and_calls_are_sent_with_them() -> None:
    phase = {"openai": {"phase": "commentary"}}
    custom = ToolCall("f", '{"input": "ls"}', "b", {"extra_content": {"openai": {"custom": True}}})
    written = write(
        USER,
        answer(Text("a"), extra_content=phase),
        answer(call("a", namespace="n", caller={"x": 1})),
        answer(custom),
        result("a"),
        result("b"),
    )
    assert written.items[1]["phase"] == "commentary"
    assert (written.items[2]["namespace"], written.items[2]["caller"]) == ("n", {"x": 1})
    assert written.items[3] == {"type": "custom_tool_call", "call_id": "b", "name": "f", "input": "ls"}
    assert [item["type"] for item in written.items[4:]] == ["function_call_output", "custom_tool_call_output"]


def test_media_of_a_result_stay_inside_it_or_follow_in_a_message() -> None:
    image = Media("image", ("https://a.example/x.png",), detail="low")
    messages = (USER, answer(call("a")), result("a", Text("see"), image))
    inside = write(*messages, profile=OPENAI).items[2]["output"]
    assert inside == [
        {"type": "input_text", "text": "see"},
        {"type": "input_image", "image_url": "https://a.example/x.png", "detail": "low"},
    ]
    behind = write(*messages).items
    assert behind[2]["output"] == "see\n[image 1: see below]" and behind[3]["role"] == "user"


def test_files_and_audio_are_parts_of_the_users_message() -> None:
    parts = (
        Media("file", ("data:application/pdf;base64,AA==",), name="a.pdf"),
        Media("file", ("https://a.example/b.pdf",)),
        Media("audio", ("data:audio/wav;base64,AA==",)),
    )
    written = write(Message("user", parts), profile=OPENAI)
    assert written.items[0]["content"] == [
        {"type": "input_file", "filename": "a.pdf", "file_data": "data:application/pdf;base64,AA=="},
        {"type": "input_file", "file_url": "https://a.example/b.pdf"},
        {"type": "input_audio", "input_audio": {"data": "AA==", "format": "wav"}},
    ]


def test_the_first_system_messages_are_the_instructions_and_later_ones_stay_at_their_place() -> None:
    system = Message("system", (Text("s"),))
    written = write(system, system, USER, system)
    assert written.instructions == "s\ns"
    assert [item["role"] for item in written.items] == ["user", "system"]


def test_a_result_without_a_call_is_a_violation() -> None:
    written = write(USER, Message("tool", (ToolResult((Text("r"),), id="x"),), path="messages[1]"))
    assert [violation.path for violation in written.violations] == ["messages[1]"] and not written.items


def test_media_of_the_assistant_are_not_sent_and_its_texts_stay_a_string() -> None:
    image = Media("image", ("data:image/png;base64,AAAA",), path="messages[1].content[1]")
    written = write(USER, answer(Text("a"), image, Text("b")), answer(image), USER)
    assert written.items[1:-1] == [{"type": "message", "role": "assistant", "content": "a\nb"}]
    assert written.warnings == ["messages[1].content[1] was not sent: messages of the assistant have no media"] * 2


def test_an_id_that_the_server_would_refuse_is_replaced_in_the_call_and_its_result() -> None:
    longest, longer = "a" * 64, "b" * 65
    written = write(USER, answer(call(longest), call(longer, custom=True)), result(longest), result(longer))
    ids = [item["call_id"] for item in written.items[1:]]
    assert ids[:2] == ids[2:] and ids[0] == longest and len(ids[1]) < 64
    assert written.items[-1]["type"] == "custom_tool_call_output"


@each_case(
    ("arguments", "sent"),
    [("", "{}"), ('{"a": 1}', '{"a": 1}'), ("{not json", '{"_raw": "{not json"}'), ("[1]", '{"_raw": "[1]"}')],
)
def test_arguments_that_are_no_object_are_wrapped_unless_the_server_takes_them(arguments: str, sent: str) -> None:
    said = answer(ToolCall("f", arguments, "a"))
    assert write(USER, said, result("a")).items[1]["arguments"] == sent
    lenient = OTHER.model_copy(update={"valid_arguments": False})
    assert write(USER, said, result("a"), profile=lenient).items[1]["arguments"] == (arguments or "{}")


def test_system_messages_alone_are_items() -> None:
    written = write(Message("system", (Text("a"),)), Message("system", (Text("b"),)))
    assert written.instructions is None
    assert written.items == [{"type": "message", "role": "system", "content": text} for text in "ab"]
