"""Broken arguments are repaired at the end of the reply, and only those."""

import pytest
from app.chat.events import Event, Extra, Failed, Fault, TextDelta, ToolCallDelta
from app.steps.repair import MAX_NESTING, RepairStage

from tests.linear_time import linear
from tests.steps.stage_runner import STOP, joined, run


def call(*arguments: str, index: int = 0) -> list[list[Event]]:
    first: list[Event] = [ToolCallDelta(index, arguments[0], f"c{index}", "f")]
    rest: list[list[Event]] = [[ToolCallDelta(index, piece)] for piece in arguments[1:]]
    return [first, *rest]


@pytest.mark.parametrize(
    ("raw", "repaired"),
    [
        ('{"a": 1', '{"a": 1}'),
        ('{"a": "x', '{"a": "x"}'),
        ("{'a': 'é',}", '{"a": "é"}'),
        ('{"a": [1, 2', '{"a": [1, 2]}'),
        ("{'a': '\\ud83d\\ude00'}", '{"a": "😀"}'),
        ('{"a": "\\ud83d', '{"a": "\ufffd"}'),
        ('{"a": NaN}', '{"a": "NaN"}'),
        ('{"l": [{"a": 1, "b": 2 "a": 3]}', '{"l": [{"a": 1, "b": 2}, {"a": 3}]}'),
    ],
)
def test_broken_arguments_are_repaired(raw: str, repaired: str) -> None:
    message = run([RepairStage()], call(raw[:3], raw[3:])).messages()[0]
    assert message["function_call"]["arguments"] == repaired
    assert message["extra"] == {"function_id": "c0", "repaired": True, "raw_arguments": raw}


@pytest.mark.parametrize("raw", ['{"a": 1}', "{}", "[1]", '"x"', "no JSON at all", "{" * 20_000, '{"a": 1e999,}'])
def test_arguments_that_are_valid_or_cannot_be_repaired_stay_unchanged(raw: str) -> None:
    message = run([RepairStage()], call(raw)).messages()[0]
    assert message["function_call"]["arguments"] == raw
    assert "repaired" not in message["extra"]


@pytest.mark.parametrize(("deep", "repaired"), [(MAX_NESTING, True), (MAX_NESTING + 1, False)])
def test_what_is_nested_too_deeply_is_not_repaired(deep: int, repaired: bool) -> None:
    raw = '{"a": ' + "[" * (deep - 1)
    assert _is_repaired(raw) is repaired
    assert _is_repaired('{"a": [1, {"b": 2}], "c": ' + "[" * (deep - 1)) is repaired


@pytest.mark.parametrize("piece", ["{", "[", "{]", "[}", "[{]}"])
def test_unbalanced_brackets_are_refused_in_linear_time(piece: str) -> None:
    assert linear(lambda size: _is_repaired(piece * size), 5_000)
    assert not _is_repaired(piece * 5_000)


TOO_LONG = [("{", '1","\n'), ('{"a":', "null“}"), ('{"a":', '("a" "b" )a b '), ('{"a":"', "# a\n\\u}tru")]


@pytest.mark.parametrize(("start", "piece"), TOO_LONG)
def test_what_takes_too_long_is_not_repaired(start: str, piece: str) -> None:
    raw = start + piece * 2_000
    found = run([RepairStage()], [*call(raw), *call(raw, index=1), *call("{'b': 1}", index=2)]).messages()
    assert [message["function_call"]["arguments"] for message in found[:2]] == [raw, raw]
    assert not any("repaired" in message["extra"] for message in found[:2])


@pytest.mark.many_cases
@pytest.mark.parametrize(("start", "piece"), TOO_LONG)
def test_what_is_not_repaired_takes_linear_time(start: str, piece: str) -> None:
    assert linear(lambda size: _is_repaired(start + piece * size), 400)


def test_a_long_text_with_a_usual_fault_is_repaired() -> None:
    assert _is_repaired('{"path": "a.html", "content": "' + '<a href="x">He said: "yes"</a>\n' * 3_000 + '"}')


def _is_repaired(raw: str) -> bool:
    message = run([RepairStage()], call(raw)).messages()[0]
    return "repaired" in message["extra"]


def test_a_name_is_passed_on_at_once_and_arguments_at_the_end() -> None:
    stage = RepairStage()
    assert stage.feed(call('{"a"')[0]) == [ToolCallDelta(0, "", "c0", "f")]
    assert stage.feed([ToolCallDelta(0, ": 1"), TextDelta("x")]) == [TextDelta("x")]
    expected = [ToolCallDelta(0, '{"a": 1}'), Extra({"repaired": True, "raw_arguments": '{"a": 1'}, 0), STOP]
    assert stage.feed([STOP]) == expected


def test_a_failed_reply_is_passed_on_unchanged() -> None:
    failed = Failed(Fault("timeout", "", True))
    batches: list[list[Event]] = [*call('{"a"'), [failed]]
    found = [event for part in batches for event in RepairStage().feed(part)]
    assert joined(found)[:1] == [ToolCallDelta(0, "", "c0", "f")]
    stage = RepairStage()
    stage.feed(call('{"a"')[0])
    assert stage.feed([failed]) == [ToolCallDelta(0, '{"a"'), failed]


def test_calls_keep_their_own_arguments() -> None:
    parts = [*call('{"a": 1'), *call('{"b": 2', index=1)]
    found = [one[2] for one in run([RepairStage()], parts).short()]
    assert found == ['{"a": 1}', '{"b": 2}']


def test_no_arguments_at_all_are_not_repaired() -> None:
    message = run([RepairStage()], call("")).messages()[0]
    assert message["function_call"]["arguments"] == ""
    assert "repaired" not in message["extra"]
