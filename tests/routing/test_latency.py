"""The quantiles of recent times to the first token."""

from app.routing.upstream_state import MAX_SAMPLES, LatencyWindow

from tests.each_case import each_case


def test_without_a_time_there_is_no_quantile() -> None:
    assert LatencyWindow().quantile(0.5) is None


@each_case(("share", "seconds"), [(0.0, 1.0), (0.5, 3.0), (0.75, 4.0), (0.95, 4.0), (1.0, 4.0)])
def test_a_quantile_is_a_time_that_was_measured(share: float, seconds: float) -> None:
    window = LatencyWindow()
    for one in (4.0, 1.0, 3.0, 2.0):
        window.add(one)
    assert window.quantile(share) == seconds


def test_only_the_last_times_count() -> None:
    window = LatencyWindow()
    for one in range(MAX_SAMPLES + 10):
        window.add(float(one))
    assert len(window) == MAX_SAMPLES
    assert window.quantile(0.0) == 10.0
