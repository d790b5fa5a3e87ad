"""What a format without a place for other formats' fields cannot keep of a message."""

from collections.abc import Mapping
from typing import Any

from app.chat.messages import Message, Role, Text, ToolCall, ToolResult
from app.formats.losses import find_extra_losses, find_moved_results

from tests.each_case import each_case


def losses(extra: Mapping[str, Any]) -> list[str]:
    message = Message("user", (Text("t"),), path="messages[0]", extra=extra)
    found = list(find_extra_losses(message, {"written"}, "cannot be written"))
    assert {loss.path for loss in found} <= {"messages[0]"}
    return [loss.message for loss in found]


RAW = {"id": "1", "type": "TextMessage", "content": "t", "mood": "good", "empty": ""}


@each_case(
    ("extra", "messages"),
    [
        ({}, []),
        ({"written": 1}, []),
        ({"b": 1, "a": 1}, ["a, b cannot be written"]),
        ({"autogen": {"raw": RAW, "k": 0}}, ["mood cannot be written"]),
        ({"autogen": {"raw": RAW, "k": 0}, "mood": 1}, ["mood cannot be written"]),
        ({"autogen": {"raw": {**RAW, "metadata": {"kind": "x", "parley": "{}"}}, "k": 0}}, ["mood cannot be written"]),
        ({"autogen": {"raw": {**RAW, "metadata": {"k": 1}}, "k": 0}}, ["metadata, mood cannot be written"]),
        ({"autogen": None}, []),
        ({"autogen": {"k": 1}}, []),
        (
            {"autogen_before": [1, 2], "autogen_after": [3]},
            ["3 items next to it are not messages, and cannot be written"],
        ),
    ],
)
def test_keys_without_a_place_are_lost(extra: dict[str, Any], messages: list[str]) -> None:
    assert losses(extra) == messages


def message(role: Role, *parts: Text | ToolCall | ToolResult, path: str = "") -> Message:
    return Message(role, parts, path=path)


CALL, RESULT = message("assistant", ToolCall("f", "{}")), message("tool", ToolResult((), "f"), path="p")
USER, ANSWER = message("user", Text("q")), message("assistant", Text("t"))


@each_case(
    ("messages", "moved"),
    [
        ([USER, CALL, RESULT, RESULT], 0),
        ([CALL, ANSWER, RESULT], 0),
        ([CALL, USER, RESULT, RESULT], 2),
        ([CALL, USER, ANSWER, RESULT], 1),
        ([CALL, USER, CALL, RESULT], 0),
    ],
)
def test_a_result_moves_if_another_message_separates_it_from_the_last_call(messages: list[Message], moved: int) -> None:
    found = list(find_moved_results(messages))
    assert [loss.path for loss in found] == ["p"] * moved
    assert all(loss.message == "is moved directly after the call that it answers" for loss in found)
