"""Arguments are sent as far as they can still become JSON, however they are split, and no further."""

import json

import pytest
from app.chat.events import Event, Failed, Finish, TextDelta, ToolCallDelta
from app.formats.anthropic.arguments import MAX_NESTING, ArgumentsStage, JsonScanner
from hypothesis import given
from hypothesis import strategies as st

from tests.linear_time import linear

OBJECTS = [
    "{}",
    " \n{ } ",
    '{"a": 1}',
    '{"a":-0.5e+10,"b":[true,false,null,[],{}],"c":"x\\n\\u00e9\\"\\\\/"}',
    '{"天气": "😀\u2028", "": ""}',
    '{"a": [1, 2, {"b": [[]]}]}',
    '{"a": 0}',
    '{"a": 1E5, "a": 2}',
    '{"a": [-1, -0, 10, 0.05, -12.50E+07, 1e-0, 0e1]}',
]
OTHERS = ["[]", ' ["Paris", {"a": 1}] ', '"x"', '"\\u00e9{"', "-1.5e3", "0", "true", "null"]
"""JSON that is no object."""
BROKEN = [
    "Paris",
    "[1",
    '"x',
    '"x" 1',
    "01",
    "1.",
    "tru",
    "nullx",
    "]",
    "{}}",
    "{} x",
    '{"a": x}',
    "{'a': 1}",
    '{"a" 1}',
    '{"a": 1,}',
    '{"a": [1,]}',
    '{"a": 01}',
    '{"a": 1.e1}',
    '{"a": 1e1.}',
    '{"a": 1e1e}',
    '{"a": 1-1}',
    '{"a": 1.1.}',
    '{"a": 1e+}',
    '{"a": --1}',
    '{"a": -}',
    '{"a": 1.}',
    '{"a": 1e}',
    '{"a": +1}',
    '{"a": truth}',
    '{"a": "\n"}',
    '{"a": "\\x"}',
    '{"a": "\\u12g4"}',
    '{"a": [}',
    '{"a": 1]',
    "{,}",
    '{"a":' + "[" * MAX_NESTING,
]
json_objects = st.dictionaries(
    st.text(max_size=4),
    st.recursive(
        st.none()
        | st.booleans()
        | st.integers()
        | st.floats(allow_nan=False, allow_infinity=False)
        | st.text(max_size=5),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
        max_leaves=8,
    ),
    max_size=4,
)


def scan(pieces: list[str]) -> tuple[bool, bool]:
    """(whether all of it can be JSON, whether it is)."""
    scanner = JsonScanner()
    for piece in pieces:
        if not scanner.feed(piece):
            return False, False
    return True, scanner.whole


@pytest.mark.parametrize("text", OBJECTS)
def test_an_object_is_whole_at_its_end_and_not_before(text: str) -> None:
    assert isinstance(json.loads(text), dict)
    for at in range(len(text) + 1):
        assert scan([text[:at]])[0], text[:at]
        assert scan([text[:at], text[at:]]) == (True, True)
        assert scan([text[:at]])[1] is (at >= len(text.rstrip()))
    assert scan(list(text)) == (True, True)


@pytest.mark.parametrize("text", OTHERS)
def test_json_that_is_no_object_is_whole_at_its_end(text: str) -> None:
    assert scan([text]) == scan(list(text)) == (True, True)
    assert not JsonScanner().is_object


@pytest.mark.parametrize("text", BROKEN)
def test_what_can_become_no_json_is_found(text: str) -> None:
    assert scan([text]) == scan(list(text))
    assert not scan([text])[1]


@given(json_objects, st.booleans(), st.lists(st.integers(0, 60), max_size=3))
def test_every_object_is_accepted_in_any_pieces(value: dict[str, object], ascii_only: bool, cuts: list[int]) -> None:
    text = json.dumps(value, ensure_ascii=ascii_only)
    edges = [0, *sorted(min(cut, len(text)) for cut in cuts), len(text)]
    assert scan([text[start:end] for start, end in zip(edges, edges[1:], strict=False)]) == (True, True)


@given(st.sampled_from(["{", "[", ""]), st.text(st.sampled_from('{}[]",:\\ u0123truefalsn.eE-+\n'), max_size=30))
def test_the_scanner_agrees_with_the_json_parser(start: str, text: str) -> None:
    try:
        json.loads(start + text)
        is_json = True
    except ValueError:
        is_json = False
    assert scan([start + text])[1] is is_json


@pytest.mark.many_cases
def test_a_number_without_end_takes_linear_time() -> None:
    assert linear(lambda count: scan(['{"a":0.', *["123"] * count]), 2000)


START = ToolCallDelta(0, '{"city":', "c", "f")
BAD = ToolCallDelta(0, " Paris}")


def feed(*batches: list[Event]) -> list[list[Event]]:
    stage = ArgumentsStage()
    return [stage.feed(batch) for batch in batches]


def is_failed(events: list[Event]) -> bool:
    return isinstance(events[-1], Failed) and events[-1].fault.code == "tool_use_failed" and events[-1].fault.transient


def test_a_reply_fails_at_the_delta_that_breaks_the_arguments_and_says_nothing_more() -> None:
    first, second, third = feed([TextDelta("x"), START], [BAD, TextDelta("y")], [Finish("stop")])
    assert first == [TextDelta("x"), START]
    assert is_failed(second) and len(second) == 1
    assert third == []


def test_arguments_that_are_no_object_are_sent_and_warned_of() -> None:
    call = ToolCallDelta(0, '["Paris"', "c1", "f")
    rest, good = ToolCallDelta(0, "]"), ToolCallDelta(1, "{}", "c2", "g")
    first, [*others, end] = feed([call], [rest, good, Finish("tool_calls", warnings=("a",))])
    assert [*first, *others] == [call, rest, good]
    assert isinstance(end, Finish)
    assert end.warnings[0] == "a"
    [warning] = end.warnings[1:]
    assert "arguments_valid: false for c1" in warning and "'f'" in warning


def test_a_call_that_begins_broken_is_announced_without_arguments() -> None:
    [out] = feed([ToolCallDelta(0, "Paris", "c", "f")])
    assert out[0] == ToolCallDelta(0, "", "c", "f") and is_failed(out)


@pytest.mark.parametrize("reason", ["stop", "tool_calls", "content_filter"])
def test_a_reply_that_ends_within_a_call_fails(reason: str) -> None:
    [_, out] = feed([START], [Finish(reason)])  # type: ignore[arg-type]  # one of the three
    assert is_failed(out)


def test_a_reply_that_was_cut_by_its_limit_may_end_within_a_call() -> None:
    assert feed([START], [Finish("length")]) == [[START], [Finish("length")]]
