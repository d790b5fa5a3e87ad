from typing import Any

from app.chat.events import Finish
from app.tool_loop.usage import count_tokens, read_usage, sum_usage

from tests.each_case import each_case


@each_case(
    ("usages", "total"),
    [
        ([], None),
        ([{"total_tokens": 3}, {"total_tokens": 4, "cached_tokens": 1}], {"total_tokens": 7, "cached_tokens": 1}),
        ([{"cost": 0.1}, {"cost": 0.2}], {"cost": 0.3}),
        ([{"details": {"a": 1}}, {"details": {"a": 2, "b": 1}}], {"details": {"a": 3, "b": 1}}),
        ([{"cached": True}, {"cached": True}], {"cached": True}),
        ([{"total_tokens": 1, "cached": True}, {"total_tokens": 1}], {"total_tokens": 2}),
        ([{"estimated": True}, {"total_tokens": 1}], {"estimated": True, "total_tokens": 1}),
        ([{"tier": "a"}, {"tier": "b"}, {"tier": None}], {"tier": None}),
    ],
)
def test_the_usage_of_a_reply_is_the_sum_of_its_calls(usages: list[dict[str, Any]], total: dict[str, Any]) -> None:
    assert sum_usage(usages) == total


def test_an_estimate_counts_where_the_server_tells_no_usage() -> None:
    assert read_usage(Finish("stop", {"total_tokens": 1})) == {"total_tokens": 1}
    assert read_usage(Finish("stop", estimated_usage={"total_tokens": 2})) == {"total_tokens": 2, "estimated": True}


def test_what_is_no_count_is_no_tokens() -> None:
    assert [count_tokens({"a": value}, "a") for value in (3, -1, "x", None)] == [3, 0, 0, 0]
    assert count_tokens({}, "a") == 0
