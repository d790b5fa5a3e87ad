"""Replies with faults come out as they were meant, or as text with a warning: never another call, other arguments, or
markup without a warning. One fault is tried everywhere, two by chance; many more with `FUZZ=long`."""

import random

import pytest
from app.steps.tool_parsers.families import FAMILIES

from tests.each_case import each_case
from tests.effort import LONG
from tests.faults.controls import Control, list_controls
from tests.faults.model import CALL_FAULTS, EXCEPTIONS, PROSE, TEXT_FAULTS, CallFault, Fault, find_pairs
from tests.faults.replies import APIS, VALUES, judge, judge_call, judge_pair, read_text
from tests.steps.sample_calls import WRITTEN

SEEDS = (None, 0, 1)
DRAWS = 40_000 if LONG else 800
PLACES = ("name", "end", "start")
"""The order in which two faults are made: one at the end must still find the end."""


@pytest.mark.many_cases
@each_case("fault", TEXT_FAULTS, ids=lambda fault: f"{fault.place}, {fault.operator}")
@each_case("family", sorted(FAMILIES))
def test_a_call_in_text_with_a_fault_is_the_call_or_text_with_a_warning(family: str, fault: Fault) -> None:
    for values in VALUES:
        text = fault.apply(WRITTEN[family](values), family)
        prose = [PROSE[fault.operator]] if fault.operator in PROSE else []
        for mode in (family, "auto") if text is not None else ():
            for seed in SEEDS:
                outcome = judge(read_text(text or "", mode, seed), [("f", values)], prose, text or "")
                assert outcome != "wrong", (mode, seed, text)


@pytest.mark.many_cases
def test_a_call_in_text_with_two_faults_is_the_call_or_text_with_a_warning() -> None:
    draw = random.Random() if LONG else random.Random(1)
    for _ in range(DRAWS):
        family, values = draw.choice(sorted(FAMILIES)), draw.choice(VALUES)
        pair = sorted(draw.sample(TEXT_FAULTS[1:], 2), key=lambda fault: PLACES.index(fault.place))
        text: str | None = WRITTEN[family](values)
        for fault in pair:
            text = fault.apply(text, family) if text is not None else None
        names = frozenset(fault.operator for fault in pair)
        if text is None or names in EXCEPTIONS:
            continue
        prose = [PROSE[name] for name in ("text before", "text behind") if name in names]
        for mode in (family, "auto"):
            for seed in (None, 0, draw.randrange(1, 9)):
                outcome = judge(read_text(text, mode, seed), [("f", values)], prose, text)
                assert outcome != "wrong", (family, mode, seed, sorted(names), text)


@each_case("fault", CALL_FAULTS, ids=lambda fault: f"{fault.place}, {fault.operator}")
@each_case("api", APIS)
@each_case("size", [1, 5, 1_000])
def test_a_structured_call_with_a_fault_is_that_call(fault: CallFault, api: str, size: int) -> None:
    assert judge_call(fault, api, size) == "right"


@each_case("pair", find_pairs(), ids=lambda pair: f"{pair[0].operator}, {pair[1].operator}")
def test_a_structured_call_with_two_faults_is_that_call(pair: tuple[CallFault, CallFault]) -> None:
    assert judge_pair(pair) == "right"


@pytest.mark.many_cases
@each_case("control", list(list_controls()), ids=lambda control: control.name)
def test_a_text_about_calls_has_none(control: Control) -> None:
    for seed in (None, 0, 3):
        assert read_text(control.text, "auto", seed).short() == [("C", control.text)]


def test_the_model_of_faults_knows_every_family() -> None:
    assert FAMILIES.keys() <= WRITTEN.keys()
