"""The circuit breaker, the cooldown and the load of one upstream. The times are made up: the state has no clock."""

from app.chat.events import Fault
from app.routing.upstream_state import (
    COOLDOWN_SECONDS,
    FAILURES_TO_OPEN,
    JITTER,
    MAX_COOLDOWN_SECONDS,
    MAX_OPEN_SECONDS,
    MAX_SAMPLES,
    OPEN_SECONDS,
    LatencyWindow,
    UpstreamState,
    is_failure,
)

from tests.each_case import each_case

BROKEN = Fault("upstream_incomplete", "cut", True, 200)
REFUSED = Fault("server_error", "down", True, cause="connection_refused")


def fail(state: UpstreamState, now: float, fault: Fault = REFUSED, times: int = 1) -> None:
    for _ in range(times):
        trial = state.begin(now)
        state.on_fault(fault, now, 0.0, failed=is_failure(fault))
        state.end(trial)


def opened(now: float = 100.0) -> UpstreamState:
    state = UpstreamState("gpu-1", "http://gpu-1/v1")
    fail(state, now, times=FAILURES_TO_OPEN)
    return state


def test_the_breaker_opens_after_failures_in_a_row() -> None:
    state = UpstreamState("gpu-1", "http://gpu-1/v1")
    fail(state, 100, times=FAILURES_TO_OPEN - 1)
    assert (state.breaker(100), state.is_available(100)) == ("closed", True)
    state.on_finished(100)
    fail(state, 100, times=FAILURES_TO_OPEN - 1)
    assert state.is_available(100)
    fail(state, 100)
    assert (state.breaker(100), state.is_available(100)) == ("open", False)
    assert state.seconds_until_available(101) == OPEN_SECONDS - 1


def test_one_trial_at_a_time_passes_the_half_open_breaker() -> None:
    state = opened()
    now = 100 + OPEN_SECONDS
    assert (state.breaker(now), state.is_available(now)) == ("half_open", True)
    trial = state.begin(now)
    assert (trial, state.is_available(now)) == (True, False)
    assert not state.begin(now)
    state.end(False)
    assert not state.is_available(now)
    state.end(trial)  # its caller has left: nothing was learnt
    assert state.is_available(now)


def test_a_first_token_closes_the_breaker_and_a_failure_of_the_trial_doubles_the_time() -> None:
    state = opened()
    seconds, now = OPEN_SECONDS, 100.0
    for _ in range(6):
        now += seconds
        fail(state, now)
        seconds = min(seconds * 2, MAX_OPEN_SECONDS)
        assert state.seconds_until_available(now) == seconds
    now += seconds
    trial = state.begin(now)
    state.on_first_token(0.1, now)
    assert (state.breaker(now), state.is_available(now)) == ("closed", True)
    state.on_fault(BROKEN, now, 0.0, failed=True)
    state.end(trial)
    assert state.seconds_until_available(now) == MAX_OPEN_SECONDS  # a server that begins and breaks off stays out
    now += MAX_OPEN_SECONDS
    trial = state.begin(now)
    state.on_first_token(0.1, now)
    state.on_finished(now)
    state.end(trial)
    fail(state, now, times=FAILURES_TO_OPEN)
    assert state.seconds_until_available(now) == OPEN_SECONDS


def test_requests_that_break_after_the_breaker_opened_do_not_lengthen_it() -> None:
    state = UpstreamState("gpu-1", "http://gpu-1/v1")
    fail(state, 100, BROKEN, times=50)
    assert (state.failures, state.seconds_until_available(100)) == (50, OPEN_SECONDS)


def test_a_reply_from_before_the_breaker_opened_does_not_close_it() -> None:
    state = opened(100)
    state.on_first_token(5.0, started_at=99)
    state.on_finished(started_at=99)
    assert (state.breaker(101), state.failures) == ("open", FAILURES_TO_OPEN)
    state.on_finished(started_at=100.5)  # there was no other upstream
    assert (state.breaker(101), state.failures) == ("closed", 0)


def test_a_4xx_and_the_limits_of_the_gateway_never_count() -> None:
    counted: dict[str, list[int | None]] = {
        "server_error": [None, 500, 502],
        "timeout": [None, 504, 524],
        "overloaded": [503, 529],
        "upstream_incomplete": [None, 200],
        "upstream_protocol": [None, 200],
    }
    for code, statuses in counted.items():
        assert all(is_failure(Fault(code, "", True, status)) for status in statuses), code
    spared: dict[str, list[int | None]] = {
        "invalid_request": [400, 422, 500],
        "authentication": [401],
        "permission": [403],
        "not_found": [404],
        "context_length_exceeded": [400],
        "content_filter": [400, 200],
        "rate_limit": [429, 200],
        "insufficient_quota": [429, 402],
        "overloaded": [429],
        "timeout": [408],
        "server_error": [424],
    }
    for code, statuses in spared.items():
        assert not any(is_failure(Fault(code, "", False, status)) for status in statuses), code
    for cause in ("no_descriptors", "connections_in_use", "reply_too_large"):
        assert not is_failure(Fault("server_error", "", True, cause=cause))


def test_a_cooldown_lasts_as_long_as_the_server_says_within_bounds() -> None:
    for fault, seconds in (
        (Fault("rate_limit", "", True, 429, 7.0), 7.0),
        (Fault("rate_limit", "", True, 429), COOLDOWN_SECONDS),
        (Fault("overloaded", "", True, 503, 120.0), MAX_COOLDOWN_SECONDS),
        (Fault("server_error", "", True, 500, 3.0), 3.0),
        (Fault("server_error", "", True, 500), 0.0),
        (Fault("insufficient_quota", "", False, 429, 9.0), 0.0),
    ):
        for roll in (0.0, 1.0):
            state = UpstreamState("gpu-1", "http://gpu-1/v1")
            state.on_fault(fault, 50.0, roll, failed=False)
            assert state.seconds_until_available(50) == seconds * (1 + JITTER * roll), fault
            assert (state.is_available(50), state.breaker(50)) == (seconds == 0, "closed")


def test_a_failed_health_check_keeps_requests_away_and_a_good_one_ends_the_wait_of_the_breaker() -> None:
    state = UpstreamState("gpu-1", "http://gpu-1/v1")
    state.on_health_check(False, 10)
    assert not state.is_available(10)
    fail(state, 10, times=FAILURES_TO_OPEN)
    state.on_health_check(True, 11)
    assert (state.breaker(11), state.is_available(11)) == ("half_open", True)


def test_the_least_bad_upstream_is_the_one_that_is_back_first() -> None:
    late, soon, sick = opened(100), opened(99), opened(90)
    sick.on_health_check(False, 100)
    assert min((late, soon, sick), key=lambda state: state.badness(100)) is soon


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
