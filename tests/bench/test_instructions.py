"""What `bench/quick` makes of what callgrind counted."""

import json
from pathlib import Path

import pytest
from counted import GROUPS
from instructions import FIGURES, Figure, figures, judge, python_build, read_dump, table, with_bounds

BENCH = Path(__file__).parent.parent.parent / "bench"
DUMP = """# callgrind format
version: 1
part: 3
desc: Timerange: Basic block 0 - 12
desc: Trigger: Client Request: 10 chunks qwen
events: Ir
summary: 77
totals: 1234567
"""


def test_a_dump_has_its_name_and_its_number_of_instructions() -> None:
    assert read_dump(DUMP) == ("10 chunks qwen", 1_234_567)


def test_a_dump_without_a_name_is_of_what_was_run_between_cases() -> None:
    assert read_dump("desc: Trigger: Program termination\ntotals: 5\n") == ("", 5)


def test_a_dump_that_was_cut_off_is_refused() -> None:
    with pytest.raises(ValueError, match="totals"):
        read_dump("desc: Trigger: Client Request: x\n")


def test_a_figure_of_a_part_is_the_difference_of_two_requests() -> None:
    cases = {name: 1000.0 for figure in FIGURES for name in (figure.case, figure.base) if name}
    found = figures(cases | {"21 messages": 5000.0, "whole hit": 2000.4})
    assert found["each further message"] == 200
    assert found["short whole reply, default cache, a hit"] == 2000


def test_every_figure_has_a_name_of_its_own() -> None:
    labels = [figure.label for figure in FIGURES]
    assert len(set(labels)) == len(labels)


def test_the_cases_of_figures_are_those_that_are_counted() -> None:
    counted = {case.name for cases in GROUPS.values() for case in cases()}
    used = {name for figure in FIGURES for name in (figure.case, figure.base) if name}
    assert used == counted


def test_a_figure_above_its_bound_is_reported() -> None:
    verdicts = judge({"chunk": 1031, "hit": 1030}, {"this": {"chunk": 1030, "hit": 1030}}, "this")
    assert [verdict.exceeded for verdict in verdicts] == [True, False]
    assert "1,031        1,030  ABOVE ITS BOUND" in table(verdicts)


def test_bounds_of_another_python_do_not_count() -> None:
    verdicts = judge({"chunk": 9999}, {"another": {"chunk": 1}}, "this")
    assert verdicts[0].bound is None and not verdicts[0].exceeded
    assert "ABOVE" not in table(verdicts)


def test_new_bounds_add_five_percent_and_keep_those_of_other_pythons() -> None:
    bounds = with_bounds({"another": {"chunk": 7}, "this": {"old": 1}}, {"chunk": 1000}, "this")
    assert bounds == {"another": {"chunk": 7}, "this": {"chunk": 1050}}


def test_the_committed_bounds_are_of_all_figures() -> None:
    bounds = json.loads((BENCH / "bounds.json").read_text())
    assert bounds
    for of_build in bounds.values():
        assert list(of_build) == [figure.label for figure in FIGURES]


def test_the_build_of_python_is_named_with_all_that_changes_its_instructions() -> None:
    assert "--enable-optimizations" in python_build()


def test_a_figure_without_base_is_a_whole_request() -> None:
    assert Figure("x", "case").parts == 1
