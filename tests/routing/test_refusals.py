"""For how long an upstream is asked last that has refused the gateway's account, and for whom."""

from app.routing.refusals import MAX_REFUSALS, Refusals
from app.routing.upstream_state import JITTER, MAX_OPEN_SECONDS, OPEN_SECONDS

USE = ("local", "http://local.test/v1", "m", "")


def test_each_refused_trial_doubles_the_time_and_an_answer_ends_it() -> None:
    refusals, now = Refusals(), 100.0
    refusals.on_refused(USE, "a", now, 0.0)
    for seconds in (5, 10, 20, 40, 60, 60):
        end = refusals.find_end(USE, "a")
        assert end == now + seconds
        refusals.begin(USE, "a", end - 1, 0.0)
        assert refusals.find_end(USE, "a") == end  # asked as the last one that could be: no trial
        now = end
        refusals.begin(USE, "a", now, 0.0)
        assert refusals.find_end(USE, "a") > now  # further requests do not follow the trial
        refusals.on_refused(USE, "a", now + 1, 0.0)
    refusals.on_answered(USE)
    assert refusals.find_end(USE, "a") == 0
    refusals.on_refused(USE, "a", now, 1.0)
    assert refusals.find_end(USE, "a") == now + OPEN_SECONDS * (1 + JITTER)


def test_refusals_of_one_moment_count_once() -> None:
    refusals = Refusals()
    for tick in range(20):
        refusals.on_refused(USE, "a", 100.0 + tick / 100, 0.0)
    assert refusals.find_end(USE, "a") == 100 + OPEN_SECONDS < 100 + MAX_OPEN_SECONDS


def test_a_refusal_holds_for_its_caller_until_another_one_is_refused() -> None:
    refusals = Refusals()
    refusals.on_refused(USE, "a", 100.0, 0.0)
    refusals.on_refused(USE, "a", 101.0, 0.0)
    assert (refusals.find_end(USE, "a"), refusals.find_end(USE, "b")) == (105, 0)
    refusals.begin(USE, "b", 106.0, 0.0)
    assert refusals.find_end(USE, "a") == 105  # no trial: it did not hold for this caller
    refusals.on_refused(USE, "b", 107.0, 0.0)
    assert {refusals.find_end(USE, caller) for caller in "abc"} == {117.0}
    refusals.on_answered(USE)
    assert refusals.find_end(USE, "c") == 0


def test_a_refusal_says_nothing_of_other_models_addresses_and_endpoints() -> None:
    refusals = Refusals()
    refusals.on_refused(USE, "a", 100.0, 0.0)
    others = (
        ("local", USE[1], "n", ""),
        ("local", "http://new.test/v1", "m", ""),
        ("local", USE[1], "m", "completions"),
    )
    assert [refusals.find_end(use, "a") for use in others] == [0, 0, 0]


def test_only_the_newest_refusals_are_kept() -> None:
    refusals = Refusals()
    for number in range(MAX_REFUSALS + 1):
        refusals.on_refused(("local", "", f"m-{number}", ""), "a", 100.0, 0.0)
    assert refusals.find_end(("local", "", "m-0", ""), "a") == 0
    assert refusals.find_end(("local", "", "m-1", ""), "a") > 100
    refusals.clear()
    assert refusals.find_end(("local", "", "m-1", ""), "a") == 0
