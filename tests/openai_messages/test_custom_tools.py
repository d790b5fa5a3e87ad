"""Custom tools as functions with one parameter."""

from typing import Any

from app.openai_messages.custom_tools import make_function, unwrap_input, wrap_input

from tests.each_case import each_case

GRAMMAR = {"syntax": "lark", "definition": "start: A"}
IN_WORDS = "The input must match this lark grammar:\nstart: A"


@each_case(
    ("description", "format_", "expected"),
    [
        ("Runs.", None, "Runs."),
        (None, None, None),
        ("Runs.", {"type": "text"}, "Runs."),
        ("Runs.", {"type": "grammar", **GRAMMAR}, f"Runs.\n\n{IN_WORDS}"),
        (None, {"type": "grammar", "grammar": GRAMMAR}, IN_WORDS),
    ],
)
def test_a_grammar_is_described_in_words(description: str | None, format_: Any, expected: str | None) -> None:
    function = make_function(description, format_)
    assert function.get("description") == expected
    assert function["parameters"]["required"] == ["input"]


def test_a_text_is_wrapped_into_arguments_and_unwrapped() -> None:
    assert wrap_input("ä\n") == '{"input": "ä\\n"}'
    assert unwrap_input(wrap_input("ä\n")) == "ä\n"


OTHER_OBJECTS = ("{}", '{"a": "b", "c": "d"}', '{"a": ["b", 1]}', '{"a": ["b"]}')


@each_case("arguments", ["", "plain", '{"input": 1}', "[]", "\ud800", *OTHER_OBJECTS])
def test_arguments_of_another_form_stay_as_they_are(arguments: str) -> None:
    assert unwrap_input(arguments) == arguments


@each_case(
    ("arguments", "text"),
    [
        ('{"patch": "*** Begin Patch"}', "*** Begin Patch"),
        ('{"command": ["apply_patch", "*** Begin Patch"]}', "*** Begin Patch"),
        ('{"input": ["apply_patch", "*** Begin Patch"], "workdir": "/a"}', "*** Begin Patch"),
        ('{"input": "a", "patch": "b"}', "a"),
    ],
)
def test_the_text_may_have_another_name_or_stand_in_a_command_line(arguments: str, text: str) -> None:
    assert unwrap_input(arguments) == text
