"""Work that can wait takes a bounded part of each turn of the event loop."""

from app.turn_budget import MAX_TURN_SECONDS, TURN_SECONDS, TURN_SHARE, TurnBudget

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


def test_where_turns_are_long_the_work_gets_a_share_of_them() -> None:
    clock = WorkClock()
    budget = TurnBudget(clock)
    budget.begin_turn()
    clock.now += 0.04
    budget.begin_turn()
    clock.now += 0.04 * TURN_SHARE * 0.99
    assert not budget.is_spent()
    clock.now += 0.04 * TURN_SHARE * 0.02
    assert budget.is_spent()


def test_a_long_pause_of_the_process_does_not_make_a_long_turn() -> None:
    clock = WorkClock()
    budget = TurnBudget(clock)
    budget.begin_turn()
    clock.now += 10.0
    budget.begin_turn()
    clock.now += MAX_TURN_SECONDS * 1.01
    assert budget.is_spent()


def test_the_time_without_work_is_no_turn() -> None:
    clock = WorkClock()
    budget = TurnBudget(clock)
    budget.begin_turn()
    budget.end()
    clock.now += 1.0
    budget.begin_turn()
    clock.now += TURN_SECONDS * 1.01
    assert budget.is_spent()
