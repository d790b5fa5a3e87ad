"""What both prompts share: the system message, the last turn, and calls in words."""

from typing import Any

import pytest
from app.chat.messages import ChatRequest, Media, Message, Reasoning, Text
from app.profiles import Profile
from app.steps.prompted_tools import add_tool_prompt

from tests.steps.prompted_tools.sample_requests import (
    NOUS,
    PICTURE,
    QUESTION,
    QWEN,
    F,
    assistant,
    call,
    messages_for,
    result,
    text,
)


def test_texts_of_one_message_are_joined_as_the_caller_joins_them() -> None:
    system = Message("system", (Text("a"), Text("b")))
    made, _ = add_tool_prompt(ChatRequest("m", (system, QUESTION), (F,)), NOUS)
    assert text(made.messages[0]).startswith("a\nb\n\n# Tools\n")


def test_a_system_message_may_hold_a_picture() -> None:
    system = Message("system", (PICTURE,))
    made, _ = add_tool_prompt(ChatRequest("m", (system, QUESTION), (F,)), NOUS)
    assert made.messages[0].parts[0] == PICTURE


def test_a_last_turn_of_the_assistant_goes_on_in_the_users() -> None:
    assert [text(message) for message in messages_for(assistant(Text("It is")))[1:]] == ["q\n\nIt is"]


@pytest.mark.parametrize("profile", [NOUS, QWEN])
def test_tools_and_their_parameters_are_left_out_of_the_request(profile: Profile) -> None:
    request = ChatRequest("m", (QUESTION,), (F,), {"tool_choice": "auto", "parallel_tool_calls": True, "top_p": 1})
    made, warnings = add_tool_prompt(request, profile)
    assert made.tools == ()
    assert made.params.keys() - {"stop"} == {"top_p"}
    assert warnings == []


def test_a_conversation_without_calls_stays_as_it_is() -> None:
    messages = (Message("user", (Text("again"),)),)
    assert messages_for(*messages, tools=()) == [QUESTION, *messages]


def test_text_beside_a_call_is_sent() -> None:
    converted = messages_for(
        assistant(Reasoning("r"), Text("Wait."), call('{"a": 1}')), result(PICTURE), function_choice="none"
    )
    assert converted[1].parts == (Reasoning("r"), Text("Wait."))
    assert converted[2].parts[-1] == PICTURE
    assert 'The tool "f" was called with these arguments: \n{"a": 1}' in text(converted[2])


@pytest.mark.parametrize(
    ("params", "message", "heading"),
    [
        ({}, Text("q"), "# Tools"),
        ({"lang": "zh"}, Text("q"), "# 工具"),
        ({"lang": "en"}, Text("天气"), "# Tools"),
        ({}, Text("天气"), "# 工具"),
        ({}, Media("image", ("https://example.com/猫.png",)), "# 工具"),
        ({}, Media("image", ("data:image/png;base64,猫",)), "# Tools"),
    ],
)
def test_the_language_is_the_callers(params: dict[str, Any], message: Text | Media, heading: str) -> None:
    request = ChatRequest("m", (Message("user", (message,)),), (F,), params)
    assert text(add_tool_prompt(request, QWEN)[0].messages[0]).startswith(heading)
