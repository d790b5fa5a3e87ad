"""The totals of a call, and their sums."""

from app.chat.token_usage import CallUsage, TokenUsage
from app.usage.totals import NUMBERS, RowKey, Totals, UsageQuery, UsageRow, add_totals, split_by_tag, sum_totals

ONE = Totals(1, 2, 3, 4, 5, 6, 7, 8, 9, 0.5, 10, 11)
TWO = Totals(10, 20, 30, 40, 50, 60, 70, 80, 90, 0.25, 100, 110)


def test_a_call_counts_its_tokens_and_its_cost_and_no_request() -> None:
    call = CallUsage(TokenUsage(10, 4, 3, 5, 2), estimated=True, cost=0.5)
    assert Totals.from_call(call) == Totals(
        estimated_requests=1,
        input_tokens=10,
        cached_input_tokens=4,
        output_tokens=5,
        reasoning_tokens=2,
        cost=0.5,
    )


def test_a_call_without_a_price_costs_nothing() -> None:
    assert Totals.from_call(CallUsage(TokenUsage(1, 0, 0, 1, 0), cost=None)) == Totals(input_tokens=1, output_tokens=1)


def test_every_number_is_added_up() -> None:
    assert len(NUMBERS) == 12
    assert add_totals([ONE, TWO]) == Totals(11, 22, 33, 44, 55, 66, 77, 88, 99, 0.75, 110, 121)
    rows = [UsageRow(RowKey("2026-11-21", "", "m"), ONE), UsageRow(RowKey("2026-11-22", "team", "m"), TWO)]
    assert sum_totals(rows) == add_totals([ONE, TWO])


def test_the_sum_of_nothing_is_nothing() -> None:
    assert sum_totals([]) == Totals()


def test_a_request_with_two_tags_counts_for_both_of_them_in_the_order_of_the_groups() -> None:
    rows = [
        UsageRow(RowKey("d", "k", "", "", "ann", "a,b"), ONE),
        UsageRow(RowKey("d", "k", "", "", "ann", "b"), TWO),
        UsageRow(RowKey("d", "k", "", "", "", ""), TWO),
    ]
    query = UsageQuery("d", "d", ("day", "key", "user", "tag"))
    assert [(row.key.user, row.key.tag, row.totals) for row in split_by_tag(query, rows)] == [
        ("", "", TWO),
        ("ann", "a", ONE),
        ("ann", "b", add_totals([ONE, TWO])),
    ]
    assert split_by_tag(UsageQuery("d", "d", ("day", "user")), rows) is rows
