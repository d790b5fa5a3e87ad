"""Which alerts begin, last and end."""

from app.alerts.conditions import make_condition
from app.alerts.tracker import Alert, AlertTracker

START = 1_800_000_000.0
DOWN = make_condition("ParleyUpstreamUnavailable", {"upstream": "u"})
BUDGET = make_condition("ParleyBudget", {"owner": "the API key 'a'", "percent": "80", "period": "day"})


def test_something_must_be_wrong_for_as_long_as_the_alert_says() -> None:
    tracker = AlertTracker()
    assert tracker.update(START, [DOWN]) == []
    assert tracker.update(START + 110, [DOWN]) == []
    assert tracker.update(START + 120, [DOWN]) == [Alert(DOWN, START)]
    assert tracker.update(START + 130, [DOWN]) == [], "it lasts"
    assert [*tracker.firing.values()] == [Alert(DOWN, START)]
    assert tracker.update(START + 140, []) == [Alert(DOWN, START, START + 140)]
    assert tracker.firing == {}


def test_what_ends_for_a_moment_begins_again() -> None:
    tracker = AlertTracker()
    tracker.update(START, [DOWN])
    tracker.update(START + 60, [])
    assert tracker.update(START + 120, [DOWN]) == []
    assert tracker.update(START + 240, [DOWN]) == [Alert(DOWN, START + 120)]


def test_some_begin_at_once_and_each_label_is_an_alert_of_its_own() -> None:
    other = make_condition("ParleyBudget", {"owner": "the API key 'a'", "percent": "100", "period": "day"})
    assert AlertTracker().update(START, [BUDGET, other]) == [Alert(BUDGET, START), Alert(other, START)]


def test_details_that_change_are_the_same_alert() -> None:
    before, after = (make_condition("ParleyErrorBudgetFast", {}, {"percent": percent}) for percent in (8, 50))
    assert before.fingerprint == after.fingerprint
    tracker = AlertTracker()
    tracker.update(START, [before])
    tracker.update(START + 120, [after])
    (alert,) = tracker.firing.values()
    assert alert.condition.summary == "50 % of the requests of the last hour failed."


def test_another_process_goes_on_with_what_lasts() -> None:
    first = AlertTracker()
    first.update(START, [BUDGET])
    second = AlertTracker(first.firing)
    assert second.update(START + 10, [BUDGET]) == []
    assert second.update(START + 20, []) == [Alert(BUDGET, START, START + 20)]
    assert [*first.firing.values()] == [Alert(BUDGET, START)], "its own list stays"
