"""Arguments that are not JSON are sent as they are in a stream, and fail a whole message, however they are split."""

import json
from collections.abc import Callable

import pytest
from app.chat.events import Event, Failed, Finish, ServerCall, TextDelta, ToolCallDelta
from app.formats.anthropic.arguments import MAX_NESTING, JsonScanner, StreamedArgumentsStage, WholeArgumentsStage
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
SERVED = ServerCall(0, "s", "f")


def feed(*batches: list[Event]) -> list[list[Event]]:
    stage = WholeArgumentsStage()
    return [stage.feed(batch) for batch in batches]


def stream(*batches: list[Event]) -> list[list[Event]]:
    stage = StreamedArgumentsStage()
    return [stage.feed(batch) for batch in batches]


def list_warnings(batch: list[Event]) -> list[str]:
    """The calls that an end warns of, and what their arguments are."""
    assert isinstance(batch[-1], Finish)
    return [f"{text.split()[3].rstrip(':')} {text.partition(' are ')[2]}" for text in batch[-1].warnings]


def is_failed(events: list[Event]) -> bool:
    return isinstance(events[-1], Failed) and events[-1].fault.code == "tool_use_failed" and events[-1].fault.transient


def test_a_reply_fails_at_the_delta_that_breaks_the_arguments_and_says_nothing_more() -> None:
    first, second, third = feed([TextDelta("x"), START], [BAD, TextDelta("y")], [Finish("stop")])
    assert first == [TextDelta("x"), START]
    assert is_failed(second) and len(second) == 1
    assert third == []


def test_a_stream_goes_on_with_arguments_that_are_not_json_and_warns_of_them() -> None:
    broken, unfinished = ToolCallDelta(0, "Paris", "c0", "f"), ToolCallDelta(1, '{"a', "c1", "g")
    whole, text = ToolCallDelta(2, "{}", "c2", "h"), ToolCallDelta(3, '"x"', "c3", "i")
    batches: list[list[Event]] = [[broken, ToolCallDelta(0, "!")], [unfinished, whole, text]]
    *out, end = stream(*batches, [Finish("tool_calls")])
    assert out == batches
    assert list_warnings(end) == ["c0 not JSON", "c1 not JSON", "c3 JSON, but not an object"]


def test_a_stream_that_was_cut_by_its_limit_warns_only_of_what_cannot_become_json() -> None:
    broken, unfinished = ToolCallDelta(0, "Paris", "c0", "f"), ToolCallDelta(1, '{"a', "c1", "g")
    [end] = stream([broken, unfinished, Finish("length")])
    assert list_warnings(end) == ["c0 not JSON"]


@pytest.mark.parametrize("run", [feed, stream])
def test_calls_that_the_gateway_runs_are_not_looked_at(run: Callable[..., list[list[Event]]]) -> None:
    batch: list[Event] = [SERVED, ToolCallDelta(0, "Paris", "c", "f"), Finish("stop")]
    assert run(batch) == [batch]


@pytest.mark.parametrize("batch", [[], [TextDelta("x")], [TextDelta("x"), Finish("stop")]])
def test_a_reply_without_calls_passes(batch: list[Event]) -> None:
    assert feed(batch) == stream(batch) == [batch]


def test_arguments_that_are_no_object_are_sent_and_warned_of() -> None:
    call = ToolCallDelta(0, '["Paris"', "c1", "f")
    rest, good = ToolCallDelta(0, "]"), ToolCallDelta(1, "{}", "c2", "g")
    first, [*others, end] = feed([call], [rest, good, Finish("tool_calls", warnings=("a",))])
    assert [*first, *others] == [call, rest, good]
    assert isinstance(end, Finish)
    assert end.warnings[0] == "a"
    [warning] = end.warnings[1:]
    assert "arguments_valid: false for c1" in warning and "'f'" in warning


def test_a_call_that_begins_broken_fails_at_once() -> None:
    [out] = feed([ToolCallDelta(0, "Paris", "c", "f")])
    assert len(out) == 1 and is_failed(out)


@pytest.mark.parametrize("reason", ["stop", "tool_calls", "content_filter"])
def test_a_reply_that_ends_within_a_call_fails(reason: str) -> None:
    [_, out] = feed([START], [Finish(reason)])  # type: ignore[arg-type]  # one of the three
    assert is_failed(out)


def test_a_reply_that_was_cut_by_its_limit_may_end_within_a_call() -> None:
    assert feed([START], [Finish("length")]) == [[START], [Finish("length")]]
