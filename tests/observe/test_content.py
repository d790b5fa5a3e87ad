"""Captured messages are JSON, whatever a caller and a model wrote."""

import json

from app.chat.messages import Message, Text, ToolCall
from app.observe.content import CapturedContent

from tests.each_case import each_case


@each_case("arguments", ["[" * 5000, '{"a": "\ud800"}', '{"a": "\\ud800"}', "{"])
def test_arguments_that_are_no_json_are_captured_as_text(arguments: str) -> None:
    written = CapturedContent([Message("assistant", (ToolCall("f", arguments, "c1"),))]).write_input()
    ((message,),) = [json.loads(written)]
    assert message["parts"] == [{"type": "tool_call", "id": "c1", "name": "f", "arguments": arguments}]


def test_half_a_surrogate_pair_is_captured() -> None:
    written = CapturedContent([Message("user", (Text("a\ud800"),))]).write_input()
    assert written.isascii()
    assert json.loads(written)[0]["parts"] == [{"type": "text", "content": "a\ud800"}]
