"""Calls of custom tools in the history of chat completions."""

from typing import Any

import pytest
from app.formats.openai.schema import ToolCallWire
from pydantic import ValidationError


def read_call(custom: Any) -> ToolCallWire:
    return ToolCallWire.model_validate({"id": "c", "type": "custom", "custom": custom})


def test_the_call_of_a_custom_tool_is_read_as_that_of_a_function() -> None:
    call = read_call({"name": "f", "input": "ab"})
    assert (call.id, call.type, call.function.name, call.function.arguments) == (
        "c",
        "function",
        "f",
        '{"input": "ab"}',
    )
    assert read_call({"name": "f"}).function.arguments == '{"input": ""}'


def test_the_call_of_a_custom_tool_without_a_text_is_refused() -> None:
    with pytest.raises(ValidationError):
        read_call({"name": "f", "input": 1})
