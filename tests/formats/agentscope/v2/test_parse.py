"""Blocks of AgentScope 2.x as parts of messages."""

from app.chat.messages import Media, Message, Part, Reasoning, Role, Text, ToolCall, ToolResult
from app.formats.agentscope.v2 import AGENTSCOPE2
from app.formats.agentscope.v2.parse import finish_answered_calls, validate_and_read, write_blocks
from msgspec.structs import replace

from tests.each_case import each_case
from tests.formats.agentscope.cases import Json, decoded, msg, refused, warned

CALL = {"type": "tool_call", "id": "1", "name": "f", "input": "{"}


@each_case(
    ("block", "part"),
    [
        ({"type": "text", "text": "t"}, Text("t")),
        ({"type": "thinking", "thinking": "r"}, Reasoning("r")),
        (
            {"type": "data", "source": {"type": "url", "url": "https://h/a", "media_type": "video/mp4"}},
            Media("video", ("https://h/a",)),
        ),
        (
            {"type": "data", "source": {"type": "base64", "media_type": "text/csv", "data": "YQ=="}, "name": "a.csv"},
            Media("file", ("data:text/csv;base64,YQ==",), name="a.csv"),
        ),
        (CALL, ToolCall("f", "{", "1")),
        (
            {"type": "tool_result", "id": "1", "name": "f", "output": "r", "state": "error"},
            ToolResult((Text("r"),), "f", "1", True),
        ),
        (
            {"type": "tool_result", "id": "1", "name": "f", "output": "r", "state": "success"},
            ToolResult((Text("r"),), "f", "1", False),
        ),
    ],
)
def test_a_block_is_a_part(block: Json, part: Part) -> None:
    [found] = [part for message in decoded(AGENTSCOPE2, msg([block])) for part in message.parts]
    assert (replace(found, path="") if isinstance(found, Media | ToolCall) else found) == part


def test_a_hint_is_a_message_of_the_user() -> None:
    found = decoded(AGENTSCOPE2, msg([{"type": "hint", "hint": "h"}, {"type": "text", "text": "t"}]))
    assert [(one.role, one.parts) for one in found] == [("user", (Text("h"),)), ("assistant", (Text("t"),))]


def test_a_call_of_a_user_is_refused_at_its_place() -> None:
    [(path, message)] = refused(AGENTSCOPE2, msg([{"type": "text", "text": "t"}, CALL], "user"))
    assert path == "messages[0].content[1]"
    assert message == "a user message cannot have a block of type tool_call"
    assert validate_and_read(msg([CALL], "user")) is None
    assert validate_and_read(msg([CALL])) is not None
    assert validate_and_read({"content": 1}) is None


def test_a_call_with_its_result_in_the_same_message_is_finished() -> None:
    other = {**CALL, "id": "2"}
    result = {"type": "tool_result", "id": "1", "name": "f", "output": "r"}
    finished = finish_answered_calls([{**CALL, "state": "pending"}, {**other, "state": "pending"}, result])
    assert [block.get("state") for block in finished[:2]] == ["finished", "pending"]


def test_unknown_keys_of_a_message_are_named() -> None:
    [warning] = warned(AGENTSCOPE2, msg([{"type": "text", "text": "t"}], mood="good"))
    assert warning == "messages[0].mood is not a field of an AgentScope message and was ignored"


def test_arguments_that_are_not_json_give_a_warning_and_blank_ones_none() -> None:
    assert warned(AGENTSCOPE2, msg([CALL])) == ["messages[0].content[0].input is not valid JSON"]
    assert warned(AGENTSCOPE2, msg([{**CALL, "input": " "}])) == []


@each_case(("state", "is_error"), [("running", None), ("success", False), ("error", True), ("denied", True)])
def test_a_result_has_failed_in_every_state_but_success_unless_it_is_running(state: str, is_error: bool | None) -> None:
    block = {"type": "tool_result", "id": "1", "name": "f", "output": "", "state": state}
    [message] = decoded(AGENTSCOPE2, msg([block]))
    assert message.parts == (ToolResult((), "f", "1", is_error),)


@each_case(
    ("part", "role", "blocks"),
    [
        (
            Media("image", ("https://h/a",), name="a"),
            "user",
            [
                {
                    "type": "data",
                    "source": {"type": "url", "url": "https://h/a", "media_type": "image/png"},
                    "name": "a",
                }
            ],
        ),
        (Media("image", ("https://h/a",)), "system", [{"type": "text", "text": "[image: https://h/a]"}]),
        (
            ToolCall("f", "{", "1"),
            "assistant",
            [{"type": "tool_call", "id": "1", "name": "f", "input": "{", "state": "pending"}],
        ),
        (
            ToolResult((Text("r"),), "f", "1", True),
            "tool",
            [{"type": "tool_result", "id": "1", "name": "f", "output": "r", "state": "error"}],
        ),
        (
            ToolResult((Text(""),), "f", "1"),
            "tool",
            [
                {
                    "type": "tool_result",
                    "id": "1",
                    "name": "f",
                    "output": [{"type": "text", "text": ""}],
                    "state": "success",
                }
            ],
        ),
    ],
)
def test_a_part_is_written_as_blocks(part: Part, role: Role, blocks: list[Json]) -> None:
    assert write_blocks(Message(role, (part,))) == blocks
