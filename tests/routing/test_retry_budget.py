"""How many retries a process allows itself."""

from app.routing.retry_budget import RetryBudget


def taken(budget: RetryBudget, now: float) -> int:
    count = 0
    while budget.take(now):
        count += 1
    return count


def test_a_lone_request_can_be_retried_and_many_requests_allow_a_fifth_of_their_number() -> None:
    for requests, retries in ((0, 10), (1, 10), (50, 10), (100, 20), (1000, 200)):
        budget = RetryBudget()
        for number in range(requests):
            budget.count_request(1000 + number / 200)
        assert taken(budget, 1004.99) == retries


def test_requests_and_retries_are_forgotten_after_the_window() -> None:
    budget = RetryBudget(share=0.5, minimum=1, window_seconds=10)
    for _ in range(10):
        budget.count_request(1000.5)
    assert (taken(budget, 1009.9), taken(budget, 1010.0)) == (5, 0)
    assert (taken(budget, 1018.9), taken(budget, 1019.5)) == (0, 1)
