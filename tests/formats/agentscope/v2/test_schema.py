"""The schema of AgentScope 2.x: what it accepts, and where and with which words it refuses the rest."""

from typing import Any

import pytest
from app.formats.agentscope.v2.schema import AgentScope2Msg, Messages
from pydantic import TypeAdapter, ValidationError

from tests.each_case import each_case
from tests.formats.agentscope.cases import Json, msg

TEXT_OR_BLOCKS = "must be a string or a list of blocks"


@each_case(
    "message",
    [
        msg([]),
        msg([{"type": "text", "text": "t"}], finished_reason="completed"),
        msg([{"type": "hint", "hint": [{"type": "text", "text": "t"}]}]),
        msg([{"type": "tool_call", "name": "f", "input": "{", "state": "asking"}]),
    ],
)
def test_a_message_of_the_classes_is_accepted(message: Json) -> None:
    AgentScope2Msg.model_validate(message)


@each_case(
    ("message", "place", "text"),
    [
        (msg("t"), ("content",), "list"),
        (
            msg([{"type": "tool_result", "output": 1}]),
            ("content", 0, "<tool_result>", "output"),
            TEXT_OR_BLOCKS,
        ),
        (msg([{"type": "tool_call", "name": " ", "input": ""}]), ("content", 0, "<tool_call>", "name"), "pattern"),
        (msg([{"type": "odd"}]), None, "type"),
        (msg([], role="tool"), ("role",), "user"),
    ],
)
def test_anything_else_is_refused_at_its_place(message: Json, place: Any, text: str) -> None:
    with pytest.raises(ValidationError) as refused:
        AgentScope2Msg.model_validate(message)
    [error] = refused.value.errors()
    assert text in error["msg"]
    assert place is None or error["loc"] == place


def test_a_list_of_messages_is_not_empty() -> None:
    with pytest.raises(ValidationError):
        TypeAdapter(Messages).validate_python([])
