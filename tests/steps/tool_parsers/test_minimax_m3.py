"""MiniMax-M3's arguments, which are tags of their names."""

from app.chat.messages import Tool
from app.steps.tool_parsers import tool_parser_stage

from tests.each_case import each_case
from tests.steps.stage_runner import Reply, run, texts

SCHEMA = {
    "properties": {
        "s": {"type": "string"},
        "n": {"type": "integer"},
        "l": {"type": "array", "items": {"type": "integer"}},
        "o": {"type": "object", "properties": {"x": {"type": "string"}, "item": {"type": "string"}}},
    }
}
TOOLS = (Tool("f", {"name": "f", "parameters": SCHEMA}), Tool("g", {"name": "g"}))
M3 = "]<]minimax[>["


def m3(inner: str, end: str = f"{M3}</invoke>", name: str = "f") -> str:
    return f'{M3}<tool_call>{M3}<invoke name="{name}">{inner.replace("@", M3)}{end}{M3}</tool_call>'


def reply(text: str, seed: int | None) -> Reply:
    return run([tool_parser_stage("minimax_m3", TOOLS, "chat-1")], texts(text, seed))


@each_case("seed", [None, 0, 1])
@each_case(
    ("inner", "arguments"),
    [
        ("@<n>1@</n>", '{"n": 1}'),
        ("", "{}"),
        ("@<s>\na\n@</s>@</s>", '{"s": "a"}'),
        ("@<s>a", '{"s": "a"}'),
        ("@<l>@<item>1@</item>@<item>2@</item>@</l>", '{"l": [1, 2]}'),
        ("@<o>@<x>1@</x>@</o>", '{"o": {"x": "1"}}'),
        ("@<o>@<item>1@</item>@</o>", '{"o": {"item": "1"}}'),
        ("@<n>1@</n>@<n>2@</n>", '{"n": [1, 2]}'),
        ("@<unknown>@<x>a@</x>@</unknown>", '{"unknown": {"x": "a"}}'),
        ("@<item>1@</item>", "{}"),
    ],
)
def test_the_tags_of_a_call_are_its_arguments(inner: str, arguments: str, seed: int | None) -> None:
    assert reply(m3(inner), seed).short() == [("F", "f", arguments)]


def test_a_function_without_parameters_takes_any() -> None:
    assert reply(m3("@<a>x@</a>", name="g"), None).short() == [("F", "g", '{"a": "x"}')]


def test_the_end_of_a_block_ends_a_call_too() -> None:
    assert reply(m3("@<n>1", ""), 0).short() == [("F", "f", '{"n": 1}')]


@each_case("text", [f'{M3}<invoke name="f">{M3}<n>1', m3("@<o>" * 200)])
def test_what_is_no_call_is_text_with_a_warning(text: str) -> None:
    found = reply(text, 1)
    assert found.short() == [("C", text)]
    assert found.warnings
