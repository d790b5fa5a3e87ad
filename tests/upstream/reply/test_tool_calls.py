"""Fragments into calls: what a flood of them costs, and when arguments are whole."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from app.chat.events import Event, Extra, TextDelta, ToolCallDelta
from app.upstream.reply.chunk import FunctionFragment, ToolCallFragment
from app.upstream.reply.tool_calls import ToolCallAssembler
from hypothesis import given
from hypothesis import strategies as st

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
    "an empty object again and again": lambda n: fed(*[piece(0, "f", "{}", "c")] * n),
    "a blank again and again": lambda n: fed(piece(0, "f", " ", "c"), *[piece(0, None, " \n")] * n),
    "a bracket behind each object": lambda n: fed(piece(0, "f", '{"a":['), *[piece(0, None, '{"b":1}')] * n),
    "whole arguments again": lambda n: fed(
        piece(0, "f", '{"a":"' + "x" * n + '"}', "c"), *[piece(0, "f", "{1", "c")] * n
    ),
    "brackets behind whole arguments": lambda n: fed(piece(0, "f", '{"a":1}', "c"), *[piece(0, None, "{")] * n),
    "objects in one fragment": lambda n: fed(piece(0, "f", "{}" * n + "{"), piece(0, None, '{"a":1}' * n)),
    "blanks in one fragment": lambda n: fed(piece(0, "f", "{" + " " * n + "}" + " " * n + "x")),
    "strings in a string": lambda n: fed(piece(0, "f", '"'), *[piece(0, None, '"')] * n),
    "all arguments again and again": lambda n: fed(
        *(piece(0, "f", '{"a":"' + "x" * size, "c") for size in range(0, n, 1 + n // 40)), piece(0, "f", "x" * 40 * n)
    ),
    "an object of the same size behind each": lambda n: fed(piece(0, "f", '{"a":'), *[piece(0, None, '{"a":')] * n),
    "calls without a name": lambda n: fed(*(piece(number, None, "{}") for number in range(n)), whole=True),
}


@pytest.mark.many_cases
@each_case("flood", FLOODS.values(), ids=FLOODS)
def test_a_flood_takes_linear_time(flood: Callable[[int], object]) -> None:
    assert linear(flood, 2000)


values = st.dictionaries(st.text(max_size=3), st.recursive(st.integers() | st.text(max_size=5), st.lists), max_size=3)


@given(values, st.data())
def test_arguments_are_one_value_however_often_and_in_which_form_they_come(value: Any, data: st.DataObject) -> None:
    forms = [json.dumps(value), json.dumps(value, indent=1, ensure_ascii=False), json.dumps(json.dumps(value))]
    texts = data.draw(st.lists(st.sampled_from(["{}", "{ }", "null", "[]", " "]), max_size=2))
    texts += data.draw(st.lists(st.sampled_from(forms), min_size=1, max_size=3))
    pieces = [""]
    for text in texts:
        cuts = sorted(data.draw(st.lists(st.integers(1, max(len(text) - 1, 1)), max_size=2, unique=True)))
        edges = [0, *cuts, len(text)]
        pieces += [text[start:end] for start, end in zip(edges, edges[1:], strict=False) if start < end]
    found = fed(piece(0, "f", None, "c"), *(piece(0, None, text) for text in pieces))
    deltas = [event for event in found if isinstance(event, ToolCallDelta)]
    assert [(event.index, event.id) for event in deltas if event.name] == [(0, "c")]
    assert json.loads("".join(event.arguments for event in deltas)) == value


def test_what_is_held_back_goes_out_when_the_reply_breaks() -> None:
    for text in ("{", "{}", "nul", '{"a":1}{', '{"a":1} x'):
        table, out = ToolCallAssembler("chat-1"), list[Event]()
        table.feed([piece(0, "f", text[:7], "c")], out)
        if text[7:]:
            table.feed([piece(0, None, text[7:])], out)
        table.flush(out)
        assert "".join(event.arguments for event in out if isinstance(event, ToolCallDelta)) == text


def test_calls_stand_in_the_order_of_their_indices() -> None:
    read = fed(*(piece(number, f"f{number}", "{}") for number in (3, 1, 4, 0, 2)))
    names = [event.name for event in read if isinstance(event, ToolCallDelta) and event.name]
    assert names == ["f0", "f1", "f2", "f3", "f4"]


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


@each_case("second", ["", "g"])
def test_a_fragment_with_an_empty_name_goes_on_with_the_last_call_until_that_is_complete(second: str) -> None:
    pieces = [piece(0, "f", "", "c0"), piece(1, "", "{", "c1"), piece(2, "", '"a": ', "c2"), piece(3, "", "1}", "c3")]
    found = fed(*pieces, piece(4, second, "{}", "c4"))
    calls = [event for event in found if isinstance(event, ToolCallDelta)]
    assert "".join(event.arguments for event in calls if event.index == 0) == '{"a": 1}'
    if second:
        assert [event.name for event in calls if event.name] == ["f", "g"]
    else:
        assert TextDelta("{}") in found


def test_another_name_ends_a_call_whose_last_fragment_may_be_all_of_its_arguments() -> None:
    found = fed(piece(0, "f", '{"a":', "c"), piece(0, "f", '{"a":1}'), piece(0, "g", '{"b":2}'))
    calls: dict[int, list[str]] = {}
    for event in found:
        if isinstance(event, ToolCallDelta):
            calls.setdefault(event.index, [event.name, ""])[1] += event.arguments
    assert calls == {0: ["f", '{"a":1}'], 1: ["g", '{"b":2}']}


def test_a_call_that_the_server_answers_twice_is_counted_once() -> None:
    table, out = ToolCallAssembler("chat-1"), list[Event]()
    table.feed([piece(0, "f", '{"a":1}', "c"), piece(1, "g", '{"b":1}', "d")], out)
    table.answer("c")
    table.answer("c")
    assert table
    table.answer("d")
    assert not table


def test_a_held_call_that_the_server_answered_is_left_out_at_the_end() -> None:
    table, out = ToolCallAssembler("chat-1"), list[Event]()
    table.feed([ToolCallFragment(0, "c", FunctionFragment("search", "{}"), type="builtin_function")], out)
    table.answer("c")
    table.close(out)
    assert out == []


def read_calls(events: list[Event]) -> list[tuple[str, str]]:
    """The names and the arguments of the calls."""
    calls: dict[int, tuple[str, str]] = {}
    for event in events:
        if isinstance(event, ToolCallDelta):
            name, arguments = calls.get(event.index, ("", ""))
            calls[event.index] = (name or event.name, arguments + event.arguments)
    return list(calls.values())


@each_case("number", [0, -1])
def test_a_name_behind_complete_arguments_begins_another_call_of_the_function(number: int) -> None:
    one = [piece(number, "f", ""), piece(number, None, '{"a":'), piece(number, None, "1}")]
    other = [piece(number, "f", ""), piece(number, None, '{"a":'), piece(number, None, "2}")]
    calls = [("f", '{"a":1}'), ("f", '{"a":2}')]
    assert read_calls(fed(*one, *other)) == calls
    assert read_calls(fed(*one, *other, piece(1, "g", "{}", "c"))) == [*calls, ("g", "{}")]
    assert read_calls(fed(*one, *other, *one)) == [*calls, ("f", '{"a":1}')]


def test_a_call_that_only_says_the_one_before_again_is_left_out() -> None:
    one = [piece(0, "f", '{"a":'), piece(0, None, "1}")]
    for again in ([], [piece(0, None, '{ "a"'), piece(0, None, ": 1}")], [piece(0, None, " ")], [piece(0, None, "{}")]):
        assert read_calls(fed(*one, piece(0, "f", ""), *again)) == [("f", '{"a":1}')]
        found = fed(*one, piece(0, "f", ""), *again, piece(1, "g", '{"b":2}', "c"))
        assert read_calls(found) == [("f", '{"a":1}'), ("g", '{"b":2}')]
    table, out = ToolCallAssembler("chat-1"), list[Event]()
    table.feed([piece(0, "f", '{"a":1}', "c")], out)
    table.feed([piece(0, "f", "", "c")], out)
    table.seal_last_call("text", out)
    table.feed([piece(1, "g", '{"b":2}', "d"), piece(1, None, " ")], out)
    assert read_calls(out) == [("f", '{"a":1}'), ("g", '{"b":2}')]


def test_a_reply_that_breaks_has_no_call_of_a_name_that_came_again() -> None:
    table, out = ToolCallAssembler("chat-1"), list[Event]()
    table.feed([piece(0, "f", '{"a":1}', "c")], out)
    table.feed([piece(0, "f", "")], out)
    table.flush(out)
    assert read_calls(out) == [("f", '{"a":1}')]


def cut(text: str, size: int) -> list[ToolCallFragment]:
    return [piece(0, None, text[at : at + size]) for at in range(0, len(text), size)]


@each_case("size", [1, 2, 3, 5, 8, 100])
@each_case(
    ("text", "arguments"),
    [
        ('{"a": "D:/x"}{"a": "D:/y"}', ['{"a": "D:/x"}', '{"a": "D:/y"}']),
        ('{"a": 1}\n{"a": {"c": "}{"}} {"a": 3}\n', ['{"a": 1}', '{"a": {"c": "}{"}}', '{"a": 3}']),
        ('{"a": 1}{"a": 2}{"a":1}{"a": 2}', ['{"a": 1}', '{"a": 2}']),
        ('{}{"a": 1}{}{"a": 2}', ['{"a": 1}', '{"a": 2}']),
        ('{"a": "}{"}', ['{"a": "}{"}']),
        ('{"a": "x"}{"a": "xy"}', ['{"a": "x"}{"a": "xy"}']),
        ('{"a": 1}{"a": 1, "b": 2}', ['{"a": 1}{"a": 1, "b": 2}']),
        ('{"a": 1}{"b": 2}', ['{"a": 1}{"b": 2}']),
        ('{"a": 1}{"a": 2', ['{"a": 1}{"a": 2']),
        ('{"a": 1}{"a": 2}x', ['{"a": 1}{"a": 2}x']),
        ('{"a": 1}{"a": 2}[3]', ['{"a": 1}{"a": 2}[3]']),
        ('{"a" 1}{"a": 2}', ['{"a" 1}{"a": 2}']),
    ],
)
def test_objects_that_are_the_arguments_of_one_call_are_calls(text: str, arguments: list[str], size: int) -> None:
    # unslothai/unsloth#10059, diegosouzapw/OmniRoute#11043, sgl-project/sglang#16371
    table, out = ToolCallAssembler("chat-1"), list[Event]()
    table.feed([piece(0, "f", "", "c")], out)
    for fragment in cut(text, size):
        table.feed([fragment], out)
    table.feed([piece(1, "g", "{}", "d")], out)
    table.close(out)
    assert [given.strip() for name, given in read_calls(out) if name == "f"] == arguments
    ids = [event.id for event in out if isinstance(event, ToolCallDelta) and event.id]
    assert len(set(ids)) == len(ids) == len(arguments) + 1


def test_merged_calls_are_taken_apart_in_a_whole_message_and_not_where_the_reply_breaks() -> None:
    text = '{"a": 1}{"a": 2}'
    whole, broken = ToolCallAssembler("chat-1"), ToolCallAssembler("chat-1")
    out, failed = list[Event](), list[Event]()
    whole.feed([piece(0, "f", text, "c")], out, whole=True)
    whole.close(out)
    assert read_calls(out) == [("f", '{"a": 1}'), ("f", '{"a": 2}')]
    broken.feed([piece(0, "f", text, "c")], failed)
    broken.flush(failed)
    assert read_calls(failed) == [("f", text)]


def test_more_objects_than_a_reply_may_have_stay_one_call() -> None:
    text = "".join(f'{{"a": {number}}}' for number in range(200))
    assert read_calls(fed(piece(0, "f", text, "c"))) == [("f", text)]
