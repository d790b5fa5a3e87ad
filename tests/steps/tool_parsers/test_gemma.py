"""Gemma 4's arguments, which are no JSON."""

import pytest
from app.chat.messages import Tool
from app.steps.tool_parsers import tool_parser_stage

from tests.each_case import each_case
from tests.linear_time import linear
from tests.steps.stage_runner import Reply, run, texts

TOOLS = (Tool("f", {"name": "f"}), Tool("g", {"name": "g"}))


def reply(text: str, seed: int | None) -> Reply:
    return run([tool_parser_stage("gemma4", TOOLS, "chat-1")], texts(text, seed))


@each_case("seed", [None, 0, 1])
@each_case(
    ("text", "name", "arguments"),
    [
        ('<|tool_call>call:f{s:<|"|>a, {b}<|"|>,n:3}<tool_call|>', "f", '{"s": "a, {b}", "n": 3}'),
        (
            '<|tool_call>call:f{l:[1,<|"|>x<|"|>,{a:true}],o:{x:y z}}',
            "f",
            '{"l": [1, "x", {"a": true}], "o": {"x": "y z"}}',
        ),
        ('<|tool_call>call:f{<|"|>s<|"|>:1,<|"|>t<|"|> : 2}<tool_call|>', "f", '{"s": 1, "t": 2}'),
        ("<|tool_call>call:f{\"s\" : 1, 't':2, u : 3}<tool_call|>", "f", '{"s": 1, "t": 2, "u": 3}'),
        ("<|tool_call>call:f{<escape>s<escape>:1}<tool_call|>", "f", '{"s": 1}'),
        ("<|tool_call>call:g{}<tool_call|>", "g", "{}"),
        ("<start_function_call>call:f{s:<escape>a<escape>}<end_function_call>", "f", '{"s": "a"}'),
        ('<|tool_call>call:f(s: "a)b", n: 3)<tool_call|>', "f", '{"s": "a)b", "n": 3}'),
        ("call:f{n:1}<tool_call|>", "f", '{"n": 1}'),
    ],
)
def test_a_call_is_read(text: str, name: str, arguments: str, seed: int | None) -> None:
    assert reply(text, seed).short() == [("F", name, arguments)]


def test_a_call_without_its_opening_is_one_of_an_offered_function_only() -> None:
    assert reply("call:h{n:1}", None).short() == [("C", "call:h{n:1}")]


@each_case(
    "text",
    [
        "<|tool_call>call:f{" + "[" * 200 + "]" * 200 + "}",
        "<|tool_call>call:f{:}",
        "<|tool_call>call:f{a:[1}",
        "<|tool_call>call:f{a:[1}]",
    ],
)
def test_what_is_no_call_is_text_with_a_warning(text: str) -> None:
    found = reply(text, 1)
    assert found.short() == [("C", text)]
    assert found.warnings


@pytest.mark.many_cases
@each_case("key", ["a", '"a"', '<|"|>a<|"|>', '<|"|>', ""])
def test_blanks_behind_a_key_take_linear_time(key: str) -> None:
    assert linear(lambda size: reply(f"<|tool_call>call:f{{{key}{' ' * size},}}<tool_call|>", None), 4000)
