"""Structured calls that repeat those of the text."""

from app.chat.events import Extra, ToolCallDelta
from app.steps.tool_parsers.repeated_calls import RepeatedCalls
from app.steps.tool_parsers.warnings import Warnings

from tests.each_case import each_case


def make_calls(*in_text: ToolCallDelta) -> RepeatedCalls:
    calls = RepeatedCalls(Warnings())
    for event in in_text:
        calls.add(event)
    return calls


def test_without_a_call_in_the_text_nothing_is_held() -> None:
    calls = make_calls()
    assert not calls.hold(ToolCallDelta(0, "{}", "c", "f"))
    assert not calls.hold(Extra({"a": 1}, 0))
    assert calls.take_others() == []


@each_case("again", ['{"a": 1, "b": 2}', '{ "b":2,"a" : 1 }'])
def test_a_call_with_the_same_name_and_arguments_is_left_out_once(again: str) -> None:
    calls = make_calls(ToolCallDelta(0, '{"a": 1,', "t", "f"), ToolCallDelta(0, ' "b": 2}'))
    parts: list[ToolCallDelta | Extra] = [
        ToolCallDelta(0, again[:4], "c1", "f"),
        ToolCallDelta(0, again[4:]),
        Extra({"x": 1}, 0),
    ]
    second = ToolCallDelta(1, again, "c2", "f")
    assert all([*map(calls.hold, parts), calls.hold(second)])
    assert calls.take_others() == [second]
    assert calls.take_others() == []


@each_case("other", [ToolCallDelta(0, "{}", "c", "g"), ToolCallDelta(0, '{"a": 1.0}', "c", "f")])
def test_another_call_is_made(other: ToolCallDelta) -> None:
    calls = make_calls(ToolCallDelta(0, '{"a": 1}', "t", "f"))
    assert calls.hold(other)
    assert calls.take_others() == [other]


@each_case(("first", "again", "left"), [("", "{}", 0), (" {", "{", 0), ("{", "[", 1), ("[" * 100_000, "{}", 1)])
def test_arguments_that_are_no_json_are_compared_as_they_are(first: str, again: str, left: int) -> None:
    calls = make_calls(ToolCallDelta(0, first, "t", "f"))
    assert calls.hold(ToolCallDelta(0, again, "c", "f"))
    assert len(calls.take_others()) == left
