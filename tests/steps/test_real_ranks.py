"""What truncation keeps when tokens are counted with Qwen-Agent's own ranks (`real_ranks.py`)."""

import hashlib
from typing import Any

import pytest

from tests.each_case import each_case
from tests.steps.real_ranks import DIFFERENT_BY_RANKS, Recorded, at_hand, compute, load_figures, survivors_by
from tests.steps.recorded_truncations import CASES, name_of, survivors

RANKS = at_hand()


def test_the_figures_are_what_the_gateway_keeps() -> None:
    figures = load_figures()
    assert survivors_by(Recorded(figures)) == figures["survivors"]


@each_case("case", CASES, ids=name_of)
def test_the_messages_that_qwen_agent_keeps_survive_or_the_table_says_why_not(case: dict[str, Any]) -> None:
    kept = load_figures()["survivors"][name_of(case)]
    expected = survivors(case) if case["ok"] else "refused"
    assert (kept == expected) is (name_of(case) not in DIFFERENT_BY_RANKS)


@pytest.mark.skipif(RANKS is None, reason="qwen-agent is not installed, and PARLEY_QWEN_RANKS names no file")
def test_the_figures_are_those_of_the_ranks_at_hand() -> None:
    assert RANKS is not None
    figures = load_figures()
    if hashlib.sha256(RANKS.read_bytes()).hexdigest() != figures["sha256"]:
        pytest.skip("these are the ranks of another version")
    assert compute(RANKS) == figures
