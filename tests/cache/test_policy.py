"""What a request may say of the cache, and what follows."""

from typing import Any

import pytest
from app.cache.policy import MAX_KEPT_CHARS, OFF, ON, CachePolicy, Mode, make_cache_policy
from msgspec.structs import replace

from tests.each_case import each_case
from tests.linear_time import linear

UNHELD = replace(OFF, keep=False)
"""Not even for a caller who might come back."""
REFRESH = CachePolicy(read=False, share=False, label="refresh")
ONLY = CachePolicy(write=False, share=False, only=True)
NEVER = CachePolicy(read=False, write=False, share=False, only=True, label="bypass")
"""Neither read from the cache nor sent to the model: always a 504."""
NEVER_FRESH = CachePolicy(read=False, write=False, share=False, only=True, label="refresh")


@each_case(
    ("mode", "headers", "want"),
    [
        (None, [], ON),
        ("on", [], ON),
        ("off", [], OFF),
        ("refresh", [], REFRESH),
        ("only", [], ONLY),
        # the header alone
        (None, ["no-store"], UNHELD),
        (None, ["no-cache"], REFRESH),
        (None, ["max-age=0"], REFRESH),
        (None, ["only-if-cached"], ONLY),
        (None, ["max-age=60"], CachePolicy(max_age=60)),
        (None, ["only-if-cached, max-age=60"], CachePolicy(write=False, share=False, only=True, max_age=60)),
        # the strictest wins, wherever it stands
        ("on", ["no-store"], UNHELD),
        ("on", ["no-cache"], REFRESH),
        ("off", ["max-age=60"], OFF),
        ("off", ["no-cache"], OFF),
        ("refresh", ["no-store"], UNHELD),
        ("refresh", ["max-age=60"], REFRESH),
        ("only", ["max-age=60"], CachePolicy(write=False, share=False, only=True, max_age=60)),
        ("only", ["no-store"], replace(NEVER, keep=False)),
        ("off", ["only-if-cached"], NEVER),
        ("only", ["no-cache"], NEVER_FRESH),
        ("refresh", ["only-if-cached"], NEVER_FRESH),
        ("only", ["max-age=0"], NEVER_FRESH),
        (None, ["no-cache, no-store"], UNHELD),
        (None, ["no-store, no-cache", "max-age=60"], UNHELD),
        (None, ["max-age=60", "no-cache"], REFRESH),
        (None, ["max-age=60, max-age=30"], CachePolicy(max_age=30)),
        (None, ["max-age=60", "max-age=0"], REFRESH),
        # how it may be written
        (None, ["NO-STORE"], UNHELD),
        (None, ["Max-Age=60"], CachePolicy(max_age=60)),
        (None, ['max-age="60"'], CachePolicy(max_age=60)),
        (None, ["max-age = 60"], CachePolicy(max_age=60)),
        (None, [" ,, no-cache ,"], REFRESH),
        (None, ['no-cache="x"'], REFRESH),
        (None, ["max-age=007"], CachePolicy(max_age=7)),
        (None, ["max-age=99999999999999999999"], CachePolicy(max_age=2**31)),
        # an age that is none
        (None, ["max-age"], REFRESH),
        (None, ["max-age="], REFRESH),
        (None, ["max-age=soon"], REFRESH),
        (None, ["max-age=-1"], REFRESH),
        (None, ["max-age=1.5"], REFRESH),
        (None, ["max-age=²"], REFRESH),
        # what is not known
        (None, [""], ON),
        (None, ["no-transform, max-stale=5, min-fresh=1, x"], ON),
        (None, ["x-no-store, no-stored, max-ages=0"], ON),
        (None, ['x="no-store, no-cache", max-age=60'], CachePolicy(max_age=60)),
        (None, [r'x="a\", no-store", max-age=60'], CachePolicy(max_age=60)),
        (None, ["x=no-store"], ON),
    ],
)
def test_the_cache_options_of_a_request_give_this_policy(
    mode: Mode | None, headers: list[str], want: CachePolicy
) -> None:
    assert make_cache_policy(mode, None, headers) == want


@pytest.mark.parametrize(
    ("mode", "headers", "want"),
    [(None, [], OFF), ("on", [], OFF), ("refresh", [], OFF), (None, ["max-age=5"], OFF), ("only", [], NEVER)],
)
def test_a_model_without_a_cache_has_none_for_all_options(
    mode: Mode | None, headers: list[str], want: CachePolicy
) -> None:
    assert make_cache_policy(mode, 60, headers, enabled=False) == want


@pytest.mark.parametrize("fields", [{}, {"mode": "on"}, {"mode": "refresh"}, {"headers": ["no-cache"]}], ids=str)
def test_the_ttl_of_the_request_is_that_of_the_entry(fields: dict[str, Any]) -> None:
    assert make_cache_policy(**fields, ttl_seconds=5).ttl_seconds == 5
    assert make_cache_policy(**fields).ttl_seconds is None


def test_options_that_came_before_give_the_same_policy_and_long_ones_are_not_kept() -> None:
    for header in ("no-cache", "max-age=7", "no-cache" + ", x" * 100):
        first, again = (make_cache_policy("on", 5, [header]) for _ in range(2))
        assert first == again
        assert (first is again) is (len(header) <= MAX_KEPT_CHARS)


@each_case("unit", ['"', 'x="' + "\\" * 9, "x=", " ", "a"])
def test_a_long_header_is_read_in_linear_time(unit: str) -> None:
    assert linear(lambda size: make_cache_policy(headers=[(unit * size)[:size]]), 20_000)


def test_a_header_that_says_nothing_of_the_cache_is_no_wish_for_it() -> None:
    assert make_cache_policy(headers=["no-transform"], apply="on_request") == OFF
    assert make_cache_policy(headers=["no-transform"]) == ON


def test_a_request_that_must_not_be_cached_may_still_be_resumed() -> None:
    assert ON.without_cache() == OFF
    assert UNHELD.without_cache() == UNHELD
