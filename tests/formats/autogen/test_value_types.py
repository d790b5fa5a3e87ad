"""The values in AutoGen's messages: what is accepted, and with which words the rest is refused."""

from typing import Any

import pytest
from app.formats.autogen.value_types import (
    AssistantContent,
    AutogenFunctionCall,
    FunctionExecutionResult,
    Image,
    MemoryContent,
    UserContent,
    dump_json,
    is_base64,
)
from pydantic import TypeAdapter, ValidationError

from tests.each_case import each_case


def refusals(kind: Any, value: Any) -> list[str]:
    with pytest.raises(ValidationError) as refused:
        TypeAdapter(kind).validate_python(value)
    return [error["msg"] for error in refused.value.errors()]


def test_json_is_written_without_spaces_and_with_all_letters() -> None:
    assert dump_json({"a": [1, "é"]}) == '{"a":[1,"é"]}'


@each_case(
    ("text", "valid"),
    [
        ("aGk=", True),
        ("aGk=\n", True),
        ("aG k=", True),
        ("", False),
        ("a.b=", False),
        ("=aGk", False),
        ("aGk===", False),
    ],
)
def test_base64_may_have_white_space_and_ends_with_its_padding(text: str, valid: bool) -> None:
    assert is_base64(text) is valid


@each_case(
    ("value", "message"),
    [
        ([{"data": "data:image/png;base64,aGk="}], "Value error, must be base64 without the head of a data URI"),
        ([{"data": "no base64!"}], "Value error, must be an image in base64"),
        ([1], 'must be a string or an image, {"data": base64}'),
        (1, "must be a string or a list of strings and images"),
    ],
)
def test_content_of_a_user_is_text_and_images(value: Any, message: str) -> None:
    assert refusals(UserContent, value) == [message]


def test_images_stand_between_texts() -> None:
    content = TypeAdapter(UserContent).validate_python(["see", {"data": "aGk=", "more": 1}])
    assert content == ["see", Image.model_validate({"data": "aGk=", "more": 1})]


def test_content_of_the_assistant_is_a_text_or_calls() -> None:
    assert TypeAdapter(AssistantContent).validate_python("t") == "t"
    calls = TypeAdapter(AssistantContent).validate_python([{"id": "1", "name": "f", "arguments": {"a": "é"}}])
    assert calls == [AutogenFunctionCall(id="1", name="f", arguments='{"a":"é"}')]
    assert refusals(AssistantContent, {"a": 1}) == ["must be a string or a list of calls"]


def test_a_function_needs_a_name_that_is_not_blank() -> None:
    assert len(refusals(AutogenFunctionCall, {"id": "1", "name": " ", "arguments": "{}"})) == 1


def test_a_result_of_older_versions_has_no_name() -> None:
    assert FunctionExecutionResult.model_validate({"content": "r", "call_id": "1"}).name is None


def test_the_content_of_a_memory_is_a_text_or_an_object() -> None:
    for content in ("t", {"a": 1}):
        assert MemoryContent.model_validate({"content": content, "mime_type": "text/plain"}).content == content
    assert refusals(MemoryContent, {"content": 1, "mime_type": "t"}) == ["must be a string or an object"]
