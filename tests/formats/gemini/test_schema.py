"""The shapes of contents."""

import pytest
from app.formats.gemini.schema import GeminiContent, GeminiMessage
from pydantic import ValidationError

from tests.each_case import each_case


@each_case("role", [None, "user", "MODEL", "Function", "system"])
def test_a_role_may_be_in_any_case(role: str | None) -> None:
    assert GeminiContent.model_validate({"role": role, "parts": []}).role == role


@each_case(
    "content",
    [
        {"role": "robot"},
        {"role": 3},
        {"parts": "x"},
        {"parts": [{"text": 3}]},
        {"parts": [{"functionCall": {"name": " "}}]},
    ],
)
def test_another_shape_is_refused(content: object) -> None:
    with pytest.raises(ValidationError):
        GeminiContent.model_validate(content)


@each_case("message", [{"content": "x"}, {"type": "message"}])
def test_a_message_of_another_format_is_refused(message: object) -> None:
    assert GeminiContent.model_validate(message).parts is None
    with pytest.raises(ValidationError):
        GeminiMessage.model_validate(message)
