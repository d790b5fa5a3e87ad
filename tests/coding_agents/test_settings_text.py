"""Values that are changed in a text of JSON or TOML."""

import tomllib
from datetime import date
from typing import Any

import pytest
from app.coding_agents.settings_text import (
    ABSENT,
    Keys,
    Syntax,
    UnchangeableText,
    change_text,
    find_value,
    json_text,
    parse_text,
)

from tests.each_case import each_case

OURS: dict[Keys, Any] = {
    ("model",): "qwen3",
    ("model_context_window",): 32768,
    ("model_providers", "parley"): {"name": "Parley", "on": True},
}


def test_the_rest_of_a_json_text_stays() -> None:
    before = '{"env": {"A": "1"}, "theme": "dark"}'
    after = change_text(before, "json", {("env", "B"): "2", ("model",): "ü"})
    assert after == ('{\n  "env": {\n    "A": "1",\n    "B": "2"\n  },\n  "theme": "dark",\n  "model": "ü"\n}\n')


def test_a_table_that_becomes_empty_is_left_out() -> None:
    assert parse_text(change_text('{"env": {"A": "1"}, "b": 2}', "json", {("env", "A"): ABSENT}), "json") == {"b": 2}


@each_case("text", ['{"a":   1}', ""])
def test_a_text_that_says_it_already_stays_as_it_is(text: str) -> None:
    assert change_text(text, "json", {("b",): ABSENT}) == text


def test_a_number_is_not_the_same_as_a_boolean() -> None:
    assert parse_text(change_text('{"a": 1}', "json", {("a",): True}), "json")["a"] is True
    assert json_text(1) != json_text(1.0) != json_text(True)


@each_case(
    "syntax, text, reason",
    [
        ("json", '{"a": 1, // a comment\n"b": 2}', "not valid JSON"),
        ("json", "[]", "not an object"),
        ("json", '{"a": 1, "a": 2}', "twice"),
        ("json", '{"env": "text"}', "'env' is not an object"),
        ("toml", "a = ", "not valid TOML"),
        ("toml", 'model = """\nqwen\n"""\n', "in a form that this program does not change"),
        ("toml", 'text = """\n[model_providers.parley]\n"""\n', "in a form that this program does not change"),
    ],
)
def test_a_text_that_cannot_be_changed_safely_is_refused(syntax: Syntax, text: str, reason: str) -> None:
    values: dict[Keys, Any] = {("env", "B"): "2"} if syntax == "json" else OURS
    with pytest.raises(UnchangeableText, match=reason):
        change_text(text, syntax, values)


@each_case(
    "before, after",
    [
        (
            "",
            'model = "qwen3"\nmodel_context_window = 32768\n\n[model_providers.parley]\nname = "Parley"\non = true\n',
        ),
        (
            '# mine\nmodel = "o"\nb = 1 # one\n\n[model_providers.parley]\nold = 1\n'
            "[model_providers.parley.headers]\nx = 1\n[projects.a]\ntrust = 2",
            '# mine\nb = 1 # one\nmodel = "qwen3"\nmodel_context_window = 32768\n\n[projects.a]\ntrust = 2\n\n'
            '[model_providers.parley]\nname = "Parley"\non = true\n',
        ),
    ],
)
def test_the_rest_of_a_toml_text_stays(before: str, after: str) -> None:
    assert change_text(before, "toml", OURS) == after
    if before:
        assert change_text(before.replace("\n", "\r\n"), "toml", OURS) == after.replace("\n", "\r\n")


def test_a_json_text_keeps_its_ends_of_lines() -> None:
    assert change_text('{\r\n"a": 1}', "json", {("b",): 2}) == '{\r\n  "a": 1,\r\n  "b": 2\r\n}\r\n'


def test_removed_values_leave_the_rest_of_a_toml_text() -> None:
    text = change_text("a = 1\n\n[t]\nb = 2\n", "toml", OURS)
    assert change_text(text, "toml", dict.fromkeys(OURS, ABSENT)) == "a = 1\n\n[t]\nb = 2\n"


def test_values_of_every_kind_are_written_as_toml() -> None:
    value = {"a": ['"\\\n\x7f', 1, 2.5, False], "b": {"c d": "é"}}
    assert tomllib.loads(change_text("", "toml", {("t", "x"): value}))["t"]["x"] == value


def test_a_date_is_not_written() -> None:
    with pytest.raises(UnchangeableText, match="kind that this program does not write"):
        change_text("", "toml", {("a",): date(2026, 1, 1)})


def test_a_value_below_a_text_is_absent() -> None:
    assert find_value({"a": "text"}, ("a", "b")) is ABSENT
    assert find_value({"a": {"b": 1}}, ("a", "b")) == 1
