"""How much counters have grown lately."""

from app.alerts.recent import RecentCounts


def test_only_what_has_grown_in_the_time_counts() -> None:
    recent: RecentCounts[str] = RecentCounts(300.0)
    assert not recent.update(0.0, {"a": 7}), "what there was before is old"
    assert recent.update(10.0, {"a": 9, "b": 1}) == {"a": 2, "b": 1}
    assert recent.update(20.0, {"a": 9, "b": 1}) == {"a": 2, "b": 1}
    assert recent.update(30.0, {"a": 3}) == {"a": 5, "b": 1}, "it has begun again at 0"
    assert recent.update(311.0, {"a": 3}) == {"a": 3}
    assert not recent.update(400.0, {"a": 3})
