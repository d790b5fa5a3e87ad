"""Parallel calls leave the stage one after the other, with nothing lost and nothing held back without need."""

import time
from random import Random

import pytest
from app.chat.events import Event, Extra, Failed, Fault, Finish, ReasoningDelta, TextDelta, TokenLogprobs, ToolCallDelta
from app.formats.sequential_calls import SequentialCallsStage

END = Finish("tool_calls")
P1, P2 = ToolCallDelta(0, '{"city":', "p", "f"), ToolCallDelta(0, ' "Paris"}')
R1, R2 = ToolCallDelta(1, '{"city":', "r", "f"), ToolCallDelta(1, ' "Rome"}')
TEXT, THOUGHT = TextDelta("So"), ReasoningDelta("Hm")
OF_R = Extra({"extra_content": 1}, 1)


def batches(*batches: list[Event]) -> list[list[Event]]:
    stage = SequentialCallsStage()
    return [stage.feed(batch) for batch in batches]


CASES: list[tuple[str, list[list[Event]], list[list[Event]]]] = [
    ("text passes", [[THOUGHT], [TEXT], [Finish("stop")]], [[THOUGHT], [TEXT], [Finish("stop")]]),
    ("one call passes", [[P1], [P2], [END]], [[P1], [P2], [END]]),
    ("a call after a whole one passes", [[P1, P2], [R1], [R2]], [[P1, P2], [R1], [R2]]),
    ("a call waits for the first", [[P1], [R1], [P2], [R2]], [[P1], [], [P2, R1], [R2]]),
    ("fields of a call wait with it", [[P1], [R1, OF_R], [P2]], [[P1], [], [P2, R1, OF_R]]),
    ("text waits for a call", [[P1], [TEXT, R1], [P2], [R2]], [[P1], [], [P2, TEXT, R1], [R2]]),
    ("text ends a whole call", [[P1, P2], [TEXT], [R1]], [[P1, P2], [TEXT], [R1]]),
    (
        "what comes of a call that has ended is dropped, and nothing waits for it",
        [[P1, P2], [TEXT], [ToolCallDelta(0, " ")], [TEXT], [R1]],
        [[P1, P2], [TEXT], [], [TEXT], [R1]],
    ),
    (
        "blank text ends none",
        [[P1, P2], [TextDelta("\n")], [ToolCallDelta(0, " ")]],
        [[P1, P2], [TextDelta("\n")], [ToolCallDelta(0, " ")]],
    ),
    (
        "log probabilities of blank text end none",
        [[P1, P2], [TokenLogprobs([]), TextDelta("\n")], [ToolCallDelta(0, " ")]],
        [[P1, P2], [TokenLogprobs([]), TextDelta("\n")], [ToolCallDelta(0, " ")]],
    ),
    (
        "log probabilities wait with their text",
        [[P1], [R1], [TokenLogprobs([]), TEXT], [P2], [R2, END]],
        [[P1], [], [], [P2, R1], [R2, TokenLogprobs([]), TEXT, END]],
    ),
    (
        "arguments behind a whole value make it none",
        [[P1, P2], [ToolCallDelta(0, "x")], [R1], [END]],
        [[P1, P2], [ToolCallDelta(0, "x")], [], [R1, END]],
    ),
    ("the end frees all", [[P1], [R1, TEXT], [R2], [END]], [[P1], [], [], [R1, R2, TEXT, END]]),
    (
        "blank arguments wait for the end",
        [[ToolCallDelta(0, "", "p", "f")], [R1, R2], [ToolCallDelta(0, "{}"), END]],
        [[ToolCallDelta(0, "", "p", "f")], [], [ToolCallDelta(0, "{}"), R1, R2, END]],
    ),
]


@pytest.mark.parametrize(("given", "expected"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_what_follows_a_call_waits_until_it_is_whole(given: list[list[Event]], expected: list[list[Event]]) -> None:
    assert batches(*given) == expected


def test_a_number_is_whole_only_at_the_end() -> None:
    first = ToolCallDelta(0, "12", "p", "f")
    assert batches([first], [R1], [ToolCallDelta(0, "3")], [END]) == [[first], [], [ToolCallDelta(0, "3")], [R1, END]]


def test_a_failure_frees_nothing() -> None:
    failed = Failed(Fault("server_error", "x", True))
    assert batches([P1], [R1], [failed]) == [[P1], [], [failed]]


def test_no_mix_of_calls_overlaps_or_loses_anything() -> None:
    for seed in range(300):
        dice = Random(seed)
        calls = [
            [ToolCallDelta(at, '{"a"', f"c{at}", "f"), ToolCallDelta(at, ": 1"), ToolCallDelta(at, "}")]
            for at in range(3)
        ]
        stage, out = SequentialCallsStage(), list[Event]()
        while any(calls):
            started = [at for at, call in enumerate(calls) if call and (at == 0 or len(calls[at - 1]) < 3)]
            out += stage.feed([calls[dice.choice(started)].pop(0)])
            if dice.random() < 0.2:
                out += stage.feed([TextDelta("t")])
        out += stage.feed([END])
        order = [event.index for event in out if isinstance(event, ToolCallDelta)]
        assert order == sorted(order, key=order.index) and len(order) == 9
        for at in range(3):
            texts = [event.arguments for event in out if isinstance(event, ToolCallDelta) and event.index == at]
            assert "".join(texts) == '{"a": 1}'


@pytest.mark.many_cases
def test_arguments_in_many_fragments_are_each_read_once() -> None:
    count = 50_000
    nested: list[Event] = [ToolCallDelta(0, '{"a":[', "c0", "f"), ToolCallDelta(1, "{", "c1", "g")]
    fragments: list[Event] = [ToolCallDelta(index, "{},") for _ in range(count) for index in (0, 1)]
    ends: list[Event] = [ToolCallDelta(0, "{}]}"), ToolCallDelta(1, "}"), Finish("tool_calls")]
    stage = SequentialCallsStage()
    began = time.process_time()
    given: list[Event] = [*nested, *fragments, *ends]
    told = [event for one in given for event in stage.feed([one])]
    assert time.process_time() - began < 5
    assert len(told) == 2 * count + 5
    assert [event.index for event in told if type(event) is ToolCallDelta] == [0] * (count + 2) + [1] * (count + 2)


@pytest.mark.many_cases
def test_calls_that_enclose_each_other_are_written_one_after_the_other() -> None:
    count = 1500
    opened = [ToolCallDelta(index, "{", f"c{index}", "f") for index in range(count)]
    closed = [ToolCallDelta(index, "}") for index in reversed(range(count))]
    stage = SequentialCallsStage()
    given: list[Event] = [*opened, *closed]
    told = [event for one in given for event in stage.feed([one])]
    assert [event.index for event in told if type(event) is ToolCallDelta] == sorted([*range(count), *range(count)])
