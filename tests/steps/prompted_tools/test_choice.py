"""Which functions a model may or must call."""

from typing import Any

import pytest
from app.chat.messages import ChatRequest
from app.errors import InvalidInput
from app.steps.prompted_tools import add_tool_prompt, prompted_tool_stage

from tests.steps.prompted_tools.sample_requests import (
    CODE,
    NOUS,
    QUESTION,
    QWEN,
    F,
    messages_for,
    text,
)


@pytest.mark.parametrize(
    ("choice", "word"),
    [("required", "must call the function f"), ({"type": "function", "function": {"name": "f"}}, "the function f")],
)
def test_a_call_can_be_demanded(choice: Any, word: str) -> None:
    assert word in text(messages_for(function_choice=choice)[0])
    assert text(messages_for(profile=QWEN, tool_choice=choice)[-1]).endswith("q\n\n✿FUNCTION✿: f")


def test_any_of_several_functions_can_be_demanded_only_with_nous() -> None:
    assert "at least one" in text(messages_for(tools=(F, CODE), function_choice="required")[0])
    request = ChatRequest("m", (QUESTION,), (F, CODE), {"function_choice": "required"})
    assert "can force only a named one" in add_tool_prompt(request, QWEN)[1][0]


def test_one_call_at_a_time_cannot_be_had_with_nous() -> None:
    request = ChatRequest("m", (QUESTION,), (F,), {"parallel_function_calls": False})
    assert "parallel_function_calls has no effect" in add_tool_prompt(request, NOUS)[1][0]
    assert add_tool_prompt(request, QWEN)[1] == []


@pytest.mark.parametrize("choice", ["g", {"type": "function", "function": {"name": "g"}}, {"function": 1}])
def test_a_function_that_is_none_cannot_be_chosen(choice: Any) -> None:
    with pytest.raises(InvalidInput, match="or one of the functions"):
        messages_for(function_choice=choice)


@pytest.mark.parametrize("choice", ["f", "required"])
def test_without_functions_none_can_be_chosen(choice: str) -> None:
    with pytest.raises(InvalidInput, match="needs functions to choose from"):
        messages_for(tools=(), function_choice=choice)


def test_without_functions_a_reply_is_only_text() -> None:
    assert prompted_tool_stage(ChatRequest("m", (QUESTION,)), NOUS, "chat-1") is None
    assert prompted_tool_stage(ChatRequest("m", (QUESTION,), (F,), {"function_choice": "none"}), NOUS, "chat-1") is None
