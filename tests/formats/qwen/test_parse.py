"""Qwen-Agent's messages as those of a conversation, and the checks that need the whole list."""

from typing import Any

import pytest
from app.chat.messages import ToolCall, ToolResult
from app.formats import FORMATS
from app.formats.base import Options, ParsedMessages


def decode(*messages: Any) -> ParsedMessages:
    """What comes of these messages behind a user's."""
    return FORMATS["qwen"].parse([{"role": "user", "content": "x"}, *messages], Options())


def places(*messages: Any) -> list[str]:
    return [violation.path for violation in decode(*messages).violations]


def call(name: str = "f", arguments: str = "{}", id_: str = "1") -> dict[str, Any]:
    called = {"name": name, "arguments": arguments}
    return {"role": "assistant", "content": "", "function_call": called, "extra": {"function_id": id_}}


def test_unknown_keys_are_warnings_that_name_them() -> None:
    decoded = decode({"role": "user", "content": "x", "foo": 1, "a.b": 2, "tool_calls": []})
    assert not decoded.violations
    assert [warning.split(" ")[0] for warning in decoded.warnings] == [
        "messages[1].foo",
        'messages[1]["a.b"]',
        "messages[1].tool_calls",
    ]


def test_reasoning_of_a_user_is_dropped_with_a_warning() -> None:
    decoded = decode({"role": "user", "content": "x", "reasoning_content": "hm"})
    assert [part.kind for part in decoded.messages[1].parts] == ["text"]
    assert decoded.warnings == ["messages[1].reasoning_content was not sent: only an assistant message can have it"]


def test_reasoning_can_only_be_text() -> None:
    item = {"image": "https://example.com/a.png"}
    assert places({"role": "assistant", "content": "", "reasoning_content": [{"text": "a"}, item]}) == [
        "messages[1].reasoning_content[1]"
    ]


def test_a_result_without_a_name_takes_it_from_the_call_that_its_id_names() -> None:
    decoded = decode(call("f"), {"role": "function", "content": "x", "extra": {"function_id": "1"}})
    (result,) = decoded.messages[2].parts
    assert isinstance(result, ToolResult)
    assert (result.name, result.id) == ("f", "1")


def test_a_result_whose_id_names_no_call_needs_a_name() -> None:
    result = {"role": "function", "content": "x", "extra": {"function_id": "2"}}
    assert places(call("f"), result) == ["messages[2].name"]
    assert places(call("f"), result | {"name": "f"}) == []


@pytest.mark.parametrize("arguments", ["{", "not json", '{"a": 1} x', "\ud800"])
def test_arguments_that_are_no_json_go_back_with_a_warning(arguments: str) -> None:
    decoded = decode(call(arguments=arguments))
    assert decoded.warnings == ["messages[1].function_call.arguments is not valid JSON"]
    (part,) = decoded.messages[1].parts
    assert isinstance(part, ToolCall)
    assert part.arguments == arguments


@pytest.mark.parametrize("arguments", ["{}", "", " ", "[1]", '"x"'])
def test_arguments_that_are_json_or_blank_need_no_warning(arguments: str) -> None:
    assert decode(call(arguments=arguments)).warnings == []


def test_a_number_is_taken_for_an_id_and_nothing_else_is() -> None:
    (part,) = decode(call() | {"extra": {"function_id": 7}}).messages[1].parts
    assert isinstance(part, ToolCall)
    assert part.id == "7"
    assert places(call() | {"extra": {"function_id": True}}) == ["messages[1].extra.function_id"]


def test_a_user_message_comes_first_and_there_is_one_system_message() -> None:
    system, user, assistant = ({"role": role, "content": "x"} for role in ("system", "user", "assistant"))
    found = FORMATS["qwen"].parse([assistant, system, user, system], Options()).violations
    assert [violation.path for violation in found] == ["messages[3].role", "messages[0].role"]
