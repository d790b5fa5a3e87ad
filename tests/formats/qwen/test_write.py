"""A conversation as Qwen-Agent's messages, and what that would refuse."""

from typing import Any

from app.chat.messages import Media, Message, Part, Reasoning, Role, Text, ToolCall, ToolResult
from app.formats.qwen.write import write_messages

from tests.each_case import each_case

Json = dict[str, Any]
USER = Message("user", (Text("q"),))


def message(role: Role, *parts: Part, **fields: Any) -> Message:
    return Message(role, parts, path="p", **fields)


def written(*messages: Message) -> list[Json]:
    return write_messages(messages)[0]


def test_each_payload_is_a_message_of_its_own() -> None:
    parts = (Reasoning("r"), Text("t"), ToolCall("f", "{", "c1"), Text("u"))
    assert written(message("assistant", *parts)) == [
        {"role": "assistant", "content": "", "reasoning_content": "r"},
        {"role": "assistant", "content": "t"},
        {
            "role": "assistant",
            "content": "",
            "function_call": {"name": "f", "arguments": "{"},
            "extra": {"function_id": "c1"},
        },
        {"role": "assistant", "content": "u"},
    ]


@each_case(
    ("parts", "content"),
    [
        ((), ""),
        ((Text("t"),), "t"),
        ((Text("t"), Text("u")), [{"text": "t"}, {"text": "u"}]),
        ((Media("image", ("https://h/a",)),), [{"image": "https://h/a"}]),
        ((Media("video", ("1", "2"), frames=True),), [{"video": ["1", "2"]}]),
        ((Media("video", ("1",)),), [{"video": "1"}]),
        ((Media("audio", ("UklGRg==",), format="wav"),), [{"audio": {"data": "UklGRg==", "format": "wav"}}]),
        ((Media("audio", ("https://h/a",)),), [{"audio": "https://h/a"}]),
    ],
)
def test_content_is_a_text_or_items(parts: tuple[Part, ...], content: Any) -> None:
    assert written(message("user", *parts))[0]["content"] == content


def test_a_result_has_the_name_of_its_call_and_says_whether_it_failed() -> None:
    call = message("assistant", ToolCall("f", "{}", "c1"))
    for result, name, extra in (
        (ToolResult((Text("r"),), None, "c1"), "f", {"function_id": "c1"}),
        (ToolResult((Text("r"),), "g", "c1", True), "g", {"function_id": "c1", "is_error": True}),
        (ToolResult((Text("r"),), "g", None, False), "g", {"is_error": False}),
    ):
        assert written(USER, call, message("tool", result))[2] == {
            "role": "function",
            "content": "r",
            "name": name,
            "extra": extra,
        }
    assert "name" not in written(USER, message("tool", ToolResult((), None, "c9")))[1]


def test_names_turns_and_other_fields_are_kept() -> None:
    [item] = written(message("user", Text("t"), name="Ada", turn="t1", extra={"mine": 1}))
    assert item == {"role": "user", "content": "t", "name": "Ada", "extra": {"mine": 1, "turn": "t1"}}
    call = ToolCall("f", "{}", None, {"extra_content": {"google": 1}})
    assert written(USER, message("assistant", call))[1]["extra"] == {"extra_content": {"google": 1}}


@each_case(
    ("messages", "losses"),
    [
        ((message("system", Text("s")), USER), []),
        (
            (message("system", Text("s")), message("system", Text("t")), USER),
            [("p", "Qwen-Agent accepts only one system message")],
        ),
        (
            (message("system", Text("s")), message("assistant", Text("t"))),
            [("p", "Qwen-Agent requires a user message before all other messages")],
        ),
        (
            (USER, message("tool", ToolResult((), None, "c1"))),
            [("p", "Qwen-Agent requires a function name on a result")],
        ),
        ((), []),
    ],
)
def test_a_conversation_that_qwen_agent_would_refuse_gives_losses(
    messages: tuple[Message, ...], losses: list[tuple[str, str]]
) -> None:
    assert [(loss.path, loss.message) for loss in write_messages(messages)[1]] == losses
