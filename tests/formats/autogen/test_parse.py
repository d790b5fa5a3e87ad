"""Which messages are the user's and which the assistant's, and what of a list a model is sent."""

from typing import Any

from app.chat.messages import Reasoning, Text, ToolResult
from app.formats.autogen import AUTOGEN
from app.formats.base import Options

from tests.each_case import each_case
from tests.formats.autogen.recorded_cases import calls, read, results, summary, text, thought
from tests.formats.autogen.shown_messages import shown

ASKED = {"type": "UserInputRequestedEvent", "source": "proxy", "request_id": "1"}


CHUNK = {"type": "ModelClientStreamingChunkEvent", "source": "a", "content": "x"}


PREAMBLE = {"kind": "content"}


CASES: list[tuple[str, list[Any], str | None, list[str]]] = [
    (
        "user is a user, anybody else the assistant",
        [text("user", "q"), text("a", "x")],
        None,
        ["user:text:q", "assistant:text:x"],
    ),
    ("all but the named agent are users", [text("a", "x"), text("b", "y")], "b", ["user:text:x", "assistant:text:y"]),
    ("who is asked for input is a user", [ASKED, text("proxy", "q")], None, ["user:text:q"]),
    (
        "who is asked for input and has a model is none",
        [ASKED, thought("proxy", "hm", metadata={"kind": "reasoning"}), text("proxy", "x")],
        None,
        ["assistant:reasoning:hm", "assistant:text:x"],
    ),
    (
        "an own thought is reasoning",
        [thought("a", "hm"), text("a", "x")],
        "a",
        ["assistant:reasoning:hm", "assistant:text:x"],
    ),
    (
        "a last thought is reasoning",
        [text("user", "q"), thought("a", "hm")],
        "a",
        ["user:text:q", "assistant:reasoning:hm"],
    ),
    (
        "a thought before calls is text",
        [thought("a", "hm"), CHUNK, calls("a", "1")],
        "a",
        ["assistant:text:hm", "assistant:tool_call:1"],
    ),
    (
        "another agent's acts between do not count",
        [thought("a", "hm"), calls("b", "9"), calls("a", "1")],
        "a",
        ["assistant:text:hm", "assistant:tool_call:1"],
    ),
    (
        "calls of another agent make no text",
        [thought("a", "hm"), calls("b", "1")],
        None,
        ["assistant:reasoning:hm", "assistant:tool_call:1"],
    ),
    (
        "a thought says itself what it is",
        [thought("a", "x", metadata=PREAMBLE), thought("a", "y", metadata={"kind": "reasoning"}), calls("a", "1")],
        "a",
        ["assistant:text:x", "assistant:reasoning:y", "assistant:tool_call:1"],
    ),
    (
        "others' thoughts and acts are theirs",
        [thought("b", "x"), calls("b", "1"), results("b", "1"), text("b", "y")],
        "a",
        ["user:text:y"],
    ),
    (
        "a summary of earlier messages says nothing new",
        [calls("a", "1"), results("a", "1"), summary("a", "1"), text("user", "q")],
        "a",
        ["assistant:tool_call:1", "tool:tool_result:1", "user:text:q"],
    ),
    (
        "a summary without lists behind a result says nothing",
        [calls("a", "1"), results("a", "1"), summary("a")],
        "a",
        ["assistant:tool_call:1", "tool:tool_result:1"],
    ),
    (
        "a summary of unknown calls tells them",
        [summary("a", "1", "2")],
        "a",
        ["assistant:tool_call:1", "assistant:tool_call:2", "tool:tool_result:1", "tool:tool_result:2"],
    ),
    (
        "a summary tells results that are missing",
        [calls("a", "1"), summary("a", "1")],
        "a",
        ["assistant:tool_call:1", "tool:tool_result:1"],
    ),
    ("a summary of nothing is text", [summary("a")], "a", ["assistant:text:in short"]),
    ("another's summary is a user's text", [summary("b", "1")], "a", ["user:text:in short"]),
    (
        "code that ran is a message to the agent",
        [{"type": "CodeExecutionEvent", "source": "a", "result": {"exit_code": 1, "output": "boom"}}],
        "a",
        ["user:text:boom"],
    ),
    (
        "an empty system message says nothing",
        [{"type": "SystemMessage", "content": ""}, text("user", "q")],
        None,
        ["user:text:q"],
    ),
]


@each_case(("why", "items", "agent", "expected"), CASES, ids=[case[0] for case in CASES])
def test_sides(why: str, items: list[Any], agent: str | None, expected: list[str]) -> None:
    assert shown(read(items, agent)) == expected


def test_a_result_without_a_name_has_that_of_its_call() -> None:
    bare = [{"content": "r", "call_id": "1"}, {"content": "r", "call_id": "?"}]
    items = [calls("a", "1"), {"type": "ToolCallExecutionEvent", "source": "a", "content": bare}]
    _, first, second = read(items)
    assert (first.parts[0], first.name) == (ToolResult((Text("r"),), "f_1", "1"), "f_1")
    assert second.name == "tool"


def test_keys_that_are_not_autogens_are_named_in_a_warning() -> None:
    decoded = AUTOGEN.parse([text("user", "q", colour="red")], Options())
    assert decoded.warnings == ["messages[0].colour is not a field of AutoGen's TextMessage and was ignored"]


def test_messages_know_where_they_stood() -> None:
    assert [one.path for one in read([text("user", "q"), calls("a", "1", "2")])] == [
        "messages[0]",
        *["messages[1]"] * 2,
    ]


def test_an_empty_thought_beside_text_is_no_reasoning() -> None:
    (message,) = read([{"type": "AssistantMessage", "source": "a", "content": "x", "thought": ""}])
    assert not any(isinstance(part, Reasoning) for part in message.parts)
