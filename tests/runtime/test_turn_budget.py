"""Work that can wait takes a bounded part of each turn of the event loop."""

import pytest
from app.runtime.turn_queue import MAX_TURN_SECONDS, TURN_SECONDS, TURN_SHARE, TurnBudget

from tests.work_clock import WorkClock


def test_a_turn_ends_when_its_time_is_over() -> None:
    clock = WorkClock()
    budget = TurnBudget(clock)
    budget.begin_turn()
    assert not budget.is_spent()
    clock.now += TURN_SECONDS * 1.01
    assert budget.is_spent()
    budget.begin_turn()
    assert not budget.is_spent()


LONG = 0.04
"""Of a turn, in seconds."""


@pytest.mark.parametrize(
    ("since", "pressure", "had_work_left", "allowed"),
    [
        pytest.param(LONG, 1.0, True, TURN_SHARE * LONG, id="a share of a long turn"),
        pytest.param(LONG, 0.5, True, TURN_SHARE * LONG / 2, id="less of it for less work"),
        pytest.param(LONG, 0.001, True, TURN_SECONDS, id="never less than in a short turn"),
        pytest.param(10.0, 1.0, True, MAX_TURN_SECONDS, id="no more after a long pause of the process"),
        pytest.param(1.0, 1.0, False, TURN_SECONDS, id="the time without work is no turn"),
    ],
)
def test_how_long_the_work_of_a_later_turn_may_take(
    since: float, pressure: float, had_work_left: bool, allowed: float
) -> None:
    clock = WorkClock()
    budget = TurnBudget(clock)
    budget.begin_turn()
    if not had_work_left:
        budget.end()
    clock.now += since
    budget.begin_turn(pressure)
    clock.now += allowed * 0.99
    assert not budget.is_spent()
    clock.now += allowed * 0.02
    assert budget.is_spent()
