"""Marks for the prompt cache, and fields of calls, that a server does not take."""

from app.chat.messages import (
    UNREAD,
    CacheMark,
    ChatRequest,
    Media,
    Message,
    Reasoning,
    Text,
    Tool,
    ToolCall,
    ToolResult,
)
from app.profiles import Profile
from app.steps.cache_marks import strip_cache_marks, warn_of_unsent_fields

from tests.each_case import each_case


def mark(path: str) -> CacheMark:
    return CacheMark({"type": "ephemeral"}, path)


def test_every_mark_is_removed_with_a_warning_for_each() -> None:
    messages = (
        Message("user", (Text("a", mark("one")), Text("b"), Media("image", ("https://h/a.png",), mark=mark("two")))),
        Message("assistant", (ToolCall("f", "{}", "1"),)),
        Message("tool", (ToolResult((Text("r", mark("three")),), "f", "1"),)),
    )
    request = ChatRequest("m", messages, (Tool("f", {"name": "f"}, mark("four")),))
    stripped, warnings = strip_cache_marks(request, "why")
    assert stripped.messages == (
        Message("user", (Text("a"), Text("b"), Media("image", ("https://h/a.png",)))),
        messages[1],
        Message("tool", (ToolResult((Text("r"),), "f", "1"),)),
    )
    assert stripped.tools == (Tool("f", {"name": "f"}),)
    assert warnings == [f"{name} was not sent: why" for name in ("one", "two", "three", "four")]


def test_a_request_without_marks_is_returned_itself() -> None:
    request = ChatRequest("m", (Message("user", (Text("a"),)),), (Tool("f", {"name": "f"}),))
    stripped, warnings = strip_cache_marks(request, "why")
    assert stripped is request
    assert warnings == []


CALL = ToolCall("f", "{}", "1", {"extra_content": {"google": 1}}, "messages[1].tool_calls[0]")
DETAILS = {"extra_content": {"google": 2}}


@each_case(
    ("sent", "calls_as_text", "reasons"),
    [
        (True, False, []),
        (True, True, ["messages[1].tool_calls[0].extra_content was not sent: tool calls are sent as text"]),
        (
            False,
            False,
            [
                "messages[1].tool_calls[0].extra_content was not sent: this model's server does not accept it",
                "messages[1]: extra_content was not sent: this model's server does not accept it",
            ],
        ),
    ],
)
def test_a_field_that_is_not_sent_gives_a_warning(sent: bool, calls_as_text: bool, reasons: list[str]) -> None:
    request = ChatRequest("m", (Message("assistant", (Text("t"), CALL), path="messages[1]", extra=DETAILS),))
    profile = Profile(replay_extra_content=sent)
    assert warn_of_unsent_fields(request, profile, calls_as_text=calls_as_text) == reasons


@each_case(
    ("message", "warned"),
    [
        (Message("assistant", (), path="messages[0]", extra=DETAILS), ["messages[0]: extra_content"]),
        (Message("assistant", (Reasoning("r"),), path="messages[0]", extra=DETAILS), ["messages[0]: extra_content"]),
        (Message("assistant", (ToolCall("f", "{}"),), path="messages[0]", extra=DETAILS), []),
        (Message("assistant", (Text("t"),), path="messages[0]", extra={"extra_content": None}), []),
        (Message("assistant", (ToolCall("f", "{}", extra={"x": 1}),), path="messages[0]"), ["messages[0]: x"]),
    ],
)
def test_the_field_of_a_message_that_has_only_calls_is_that_of_its_calls(message: Message, warned: list[str]) -> None:
    warnings = warn_of_unsent_fields(
        ChatRequest("m", (message,)), Profile(replay_extra_content=False), calls_as_text=False
    )
    assert [
        warning.removesuffix(" was not sent: this model's server does not accept it") for warning in warnings
    ] == warned


@each_case(
    ("profile", "warned"),
    [
        (Profile(replay_reasoning="item"), []),
        (Profile(replay_reasoning="item_text"), []),
        (Profile(replay_details=True), []),
        (Profile(replay_reasoning="none"), ["an item"]),
    ],
)
def test_an_item_of_a_provider_is_told_where_it_is_not_sent(profile: Profile, warned: list[str]) -> None:
    message = Message("assistant", (Text("a"),), extra={UNREAD: ("an item",)})
    assert warn_of_unsent_fields(ChatRequest("m", (message,)), profile, calls_as_text=False) == warned
