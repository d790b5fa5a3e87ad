"""Fields with the name of another API, and misspelt ones."""

from typing import Any

from app.formats.other_fields import find_misspelt, find_misspelt_fields, rename_fields

from tests.each_case import each_case

NAMES = {"max_output_tokens": "max_tokens", "max_length": "max_tokens", "stop_sequences": "stop"}


@each_case(
    ("body", "renamed", "warnings"),
    [
        ({"model": "m"}, {"model": "m"}, []),
        ({"max_output_tokens": 1}, {"max_tokens": 1}, ["max_output_tokens was read as max_tokens, its name here"]),
        ({"max_output_tokens": 1, "max_tokens": 2}, {"max_output_tokens": 1, "max_tokens": 2}, []),
        (
            {"max_output_tokens": 1, "max_tokens": None},
            {"max_tokens": 1},
            ["max_output_tokens was read as max_tokens, its name here"],
        ),
        (
            {"max_length": 1, "max_output_tokens": 2},
            {"max_length": 1, "max_tokens": 2},
            ["max_output_tokens was read as max_tokens, its name here"],
        ),
        ({"stop_sequences": None}, {"stop_sequences": None}, []),
    ],
)
def test_a_field_is_read_under_its_name_here_unless_the_request_has_both(
    body: dict[str, Any], renamed: dict[str, Any], warnings: list[str]
) -> None:
    found = rename_fields(body, NAMES)
    assert found.body == renamed
    assert list(found.warnings) == warnings


def test_the_names_are_those_of_the_caller() -> None:
    assert rename_fields({"max_output_tokens": 1, "top_p": 1}, NAMES).names == {"max_tokens": "max_output_tokens"}


KNOWN = (["temperature", "top_p"], ["temperatures", "passage"])


@each_case(
    ("key", "meant"),
    [("temprature", "temperature"), ("passages", "passage"), ("unrelated", None), ("text", None)],
)
def test_a_misspelt_field_is_one_that_is_near_to_a_known_one(key: str, meant: str | None) -> None:
    assert find_misspelt(key, KNOWN) == meant


def test_a_field_that_the_request_has_is_not_suggested() -> None:
    assert find_misspelt_fields(["temprature"], KNOWN, {"temperature"}) == []
    [violation] = find_misspelt_fields(["temprature"], KNOWN, ())
    assert violation.path == "temprature"
    assert violation.message.endswith("; did you mean `temperature`?")


def test_only_the_first_of_many_unknown_fields_are_compared() -> None:
    assert len(find_misspelt_fields(["temprature"] * 1000, KNOWN, ())) < 100
