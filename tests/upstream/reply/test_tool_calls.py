"""Fragments into calls: what a flood of them costs, and when arguments are whole."""

import json
from collections.abc import Callable

import pytest
from app.chat.events import Event, Extra, TextDelta, ToolCallDelta
from app.upstream.reply.chunk import FunctionFragment, ToolCallFragment
from app.upstream.reply.partial_tool_call import PartialToolCall
from app.upstream.reply.tool_calls import ToolCallAssembler

from tests.each_case import each_case
from tests.linear_time import linear


def fed(*fragments: ToolCallFragment, text: str = "", whole: bool = False) -> list[Event]:
    table, out = ToolCallAssembler("chat-1"), list[Event]()
    for fragment in fragments:
        table.feed([fragment], out, whole=whole)
        if text:
            table.seal_last_call(text, out)
    table.close(out)
    return out


def piece(
    number: int, name: str | None = None, arguments: str | None = None, id: str | None = None
) -> ToolCallFragment:
    return ToolCallFragment(number, id, FunctionFragment(name, arguments))


FLOODS: dict[str, Callable[[int], object]] = {
    "a string": lambda n: fed(piece(0, "f", '"'), *[piece(0, None, "x" * 50)] * n),
    "a name on every fragment": lambda n: fed(piece(0, "f", "["), *[piece(0, "f", "x" * 50)] * n),
    "brackets": lambda n: fed(*[piece(0, "f", '{"a":[')] * n),
    "objects in a list": lambda n: fed(piece(0, "f", "["), *[piece(0, "f", "{},")] * n),
    "objects behind an object": lambda n: fed(piece(0, "f", "[" + "0," * n + "x]"), *[piece(0, "f", "{}x")] * n),
    "an id on every fragment": lambda n: fed(piece(0, "f", "["), *(piece(0, "f", "[],", str(id)) for id in range(n))),
    "text after every call": lambda n: fed(*(piece(number, "f", "{") for number in range(n)), text="x"),
    "calls": lambda n: fed(*(piece(number, "f", "{}") for number in range(n)), whole=True),
    "calls backwards": lambda n: fed(*(piece(n - number, "f", "{}") for number in range(n)), whole=True),
    "calls behind a gap": lambda n: fed(*(piece(number + 1, "f", "{}") for number in range(n)), whole=True),
    "calls without a name": lambda n: fed(*(piece(number, None, "{}") for number in range(n)), whole=True),
}


@pytest.mark.many_cases
@each_case("flood", FLOODS.values(), ids=FLOODS)
def test_a_flood_takes_linear_time(flood: Callable[[int], object]) -> None:
    assert linear(flood, 2000)


@each_case(
    "text",
    [
        '{"a": "}", "b": [1, {"c": "\\\\\\""}]} ',
        "[]",
        " \n{}",
        '{"a": "\\\\"}',
        '{"a',
        "{'a': 1}",
        '"{}"',
        "{}{}",
        "1",
        "]",
    ],
)
def test_arguments_are_whole_when_they_are_one_object_or_list(text: str) -> None:
    def whole(text: str) -> bool:
        try:
            return isinstance(json.loads(text), dict | list)
        except ValueError:
            return False

    at_once, by_characters, at_the_end = PartialToolCall(0), PartialToolCall(0), PartialToolCall(0)
    for place, character in enumerate(text):
        by_characters.add(character)
        at_the_end.add(character)
        assert by_characters.complete() is whole(text[: place + 1])
    at_once.add(text)
    assert at_once.complete() is at_the_end.complete() is whole(text)


def test_calls_stand_in_the_order_of_their_indices() -> None:
    read = fed(*(piece(number, f"f{number}", "{}") for number in (3, 1, 4, 0, 2)))
    assert [event.name for event in read if isinstance(event, ToolCallDelta)] == ["f0", "f1", "f2", "f3", "f4"]


def test_what_came_of_a_call_without_a_name_is_text() -> None:
    read = fed(piece(0, None, "{}"), piece(1, "f", "{}"), piece(2, None, " "))
    assert read == [TextDelta("{}"), ToolCallDelta(0, "{}", read[1].id, "f")]  # type: ignore[union-attr]


def test_opaque_fields_that_come_after_the_arguments_are_of_their_call() -> None:
    found = fed(piece(0, "f", "{}"), piece(1, "g", "{}"), ToolCallFragment(0, extra_content={"google": 1}))
    assert Extra({"extra_content": {"google": 1}}, 0) in found
    assert sum(type(event) is Extra for event in found) == 1


def test_arguments_of_one_call_go_on_while_another_waits_for_its_name() -> None:
    found = fed(piece(0, "f", "{", "c"), piece(1, None, "{", "d"), piece(0, None, "}"), piece(1, "g", "}"))
    texts = {0: "", 1: ""}
    for event in found:
        if isinstance(event, ToolCallDelta):
            texts[event.index] += event.arguments
    assert texts == {0: "{}", 1: "{}"}


def test_a_call_is_not_continued_the_quick_way_while_another_waits_for_its_name() -> None:
    table, out = ToolCallAssembler("chat-1"), list[Event]()
    table.feed([piece(0, "f", "{", "c")], out)
    assert table.add_arguments(piece(0, None, "1"), out)
    table.feed([piece(1, None, "{", "d")], out)
    assert not table.add_arguments(piece(0, None, "2"), out)
