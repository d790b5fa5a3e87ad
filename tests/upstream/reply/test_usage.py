"""What a reply cost, in OpenAI's names, whatever the server calls it."""

import functools
import json
from typing import Any

import pytest
from app.chat.token_usage import MAX_COST
from app.upstream.reply.usage import merge_usage, normalize_usage

from tests.each_case import each_case

BASE = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}


@pytest.mark.parametrize(
    "own",
    [
        {"prompt_tokens_details": {"cached_tokens": 4}},
        {"input_tokens_details": {"cached_tokens": 4}},
        {"cached_tokens": 4},
        {"num_cached_tokens": 4},
        {"prompt_cache_hit_tokens": 4, "prompt_cache_miss_tokens": 6},
        {"cache_read_input_tokens": 4, "cache_creation_input_tokens": 0},
        {"prompt_tokens_details": None, "cached_tokens": 4},
        {"prompt_tokens_details": {"audio_tokens": 0}, "prompt_cache_hit_tokens": 4},
    ],
)
def test_tokens_from_the_servers_cache_have_one_name(own: dict[str, Any]) -> None:
    found = normalize_usage(BASE | own)
    assert found is not None
    assert (found["cached_tokens"], found["prompt_tokens_details"]["cached_tokens"]) == (4, 4)
    kept = BASE | {name: value for name, value in own.items() if name != "prompt_tokens_details"}
    assert kept.items() <= found.items()


@pytest.mark.parametrize(
    "own",
    [
        {"completion_tokens_details": {"reasoning_tokens": 3, "audio_tokens": 0}},
        {"output_tokens_details": {"reasoning_tokens": 3}},
        {"reasoning_tokens": 3},
    ],
)
def test_tokens_of_thoughts_have_one_name(own: dict[str, Any]) -> None:
    found = normalize_usage(BASE | own)
    assert found is not None
    assert (found["reasoning_tokens"], found["completion_tokens_details"]["reasoning_tokens"]) == (3, 3)


@pytest.mark.parametrize(
    ("own", "want"),
    [
        ({"input_tokens": 10, "output_tokens": 5}, (10, 5, 15)),
        (
            {"input_tokens": 3, "cache_read_input_tokens": 4, "cache_creation_input_tokens": 3, "output_tokens": 5},
            (10, 5, 15),
        ),
        ({"prompt_eval_count": 10, "eval_count": 5}, (10, 5, 15)),
        ({"promptTokenCount": 10, "candidatesTokenCount": 5, "totalTokenCount": 20}, (10, 5, 20)),
        ({"prompt_tokens": 12, "completion_tokens": 2, "total_tokens": 354}, (12, 2, 354)),
    ],
)
def test_the_totals_have_openais_names(own: dict[str, Any], want: tuple[int, int, int]) -> None:
    found = normalize_usage(own)
    assert found is not None
    assert (found["prompt_tokens"], found["completion_tokens"], found["total_tokens"]) == want
    assert own.items() <= found.items()


def test_a_total_of_which_a_part_is_unknown_is_not_made_up() -> None:
    assert normalize_usage({"input_tokens": 5}) == {"input_tokens": 5, "prompt_tokens": 5}
    assert normalize_usage({"eval_count": 5}) == {"eval_count": 5, "completion_tokens": 5}


@each_case(
    ("own", "want"),
    [
        ({"prompt_tokens": 10, "total_tokens": 15}, BASE),
        ({"completion_tokens": 5, "total_tokens": 15}, BASE),
        ({"prompt_tokens": 10, "completion_tokens": None, "total_tokens": 15}, BASE),
        ({"prompt_tokens": 10, "completion_tokens": -1, "total_tokens": 9}, {"prompt_tokens": 10, "total_tokens": 9}),
        ({"total_tokens": 15}, {"total_tokens": 15}),
    ],
)
def test_a_number_that_follows_from_the_others_is_known(own: dict[str, Any], want: dict[str, Any]) -> None:
    assert normalize_usage(own) == want


DETAILS = {"prompt_tokens_details": {"cached_tokens": 4}}
NULLS = dict.fromkeys(BASE)


@each_case(
    ("parts", "want"),
    [
        ([BASE | DETAILS, DETAILS], BASE | DETAILS),
        ([BASE, NULLS], BASE),
        ([NULLS, BASE], BASE),
        ([BASE, dict.fromkeys(BASE, 0)], BASE),
        ([BASE, dict.fromkeys(BASE, -1)], BASE),
        (
            [BASE, {"prompt_tokens": 2**64 - 1, "completion_tokens": 7}],
            BASE | {"completion_tokens": 7, "total_tokens": 17},
        ),
        ([BASE, {"prompt_tokens": "many"}], {"completion_tokens": 5, "total_tokens": 15, "prompt_tokens": 10}),
        ([{"prompt_tokens": 10}, {"completion_tokens": 5, "total_tokens": 15}], BASE),
        ([{"prompt_tokens": 10, "completion_tokens": 1, "total_tokens": 11}, BASE], BASE),
        ([{"prompt_tokens": 10, "completion_tokens": 1, "total_tokens": 11}, {"completion_tokens": 5}], BASE),
        ([{"prompt_tokens": 10, "completion_tokens": 0, "total_tokens": 10}, BASE], BASE),
        ([BASE | {"prompt_tokens_details": None}, DETAILS], BASE | DETAILS),
        ([BASE | DETAILS, BASE | {"prompt_tokens_details": {"cached_tokens": 0}}], BASE | DETAILS),
        (
            [BASE | DETAILS, {"prompt_tokens_details": {"audio_tokens": 1}}],
            BASE | {"prompt_tokens_details": {"cached_tokens": 4, "audio_tokens": 1}},
        ),
        (
            [{"cost": 0.1, "is_byok": True}, BASE | {"cost": 0, "is_byok": False}],
            BASE | {"cost": 0.1, "is_byok": False},
        ),
        (
            [{"input_tokens": 10, "output_tokens": 1}, {"output_tokens": 5}],
            BASE | {"input_tokens": 10, "output_tokens": 5},
        ),
    ],
)
def test_each_number_is_the_last_one_that_the_server_sent(parts: list[dict[str, Any]], want: dict[str, Any]) -> None:
    found = normalize_usage(functools.reduce(merge_usage, parts)) or {}
    assert {name: value for name, value in found.items() if name != "cached_tokens"} == want


def test_what_is_unknown_stays_unknown() -> None:
    assert normalize_usage(None) is None
    assert normalize_usage({"prompt_tokens": -1, "cost": "?"}) is None
    assert normalize_usage(BASE) == BASE
    assert normalize_usage({"prompt_tokens": 3}) == {"prompt_tokens": 3}
    odd = BASE | {"prompt_tokens_details": "x", "cached_tokens": None}
    assert normalize_usage(odd) == odd
    assert normalize_usage({"prompt_tokens_details": {"cached_tokens": 4}}) is None
    assert normalize_usage({"completion_tokens": None, "cost": 3}) is None


@each_case(
    ("own", "want"),
    [
        ({"prompt_tokens": 2**64 - 1, "completion_tokens": 5}, {"completion_tokens": 5}),
        ({"prompt_tokens": 10, "completion_tokens": -5}, {"prompt_tokens": 10}),
        (BASE | {"total_tokens": 2**63}, BASE),
        ({"prompt_tokens": "10", "input_tokens": 10}, {"prompt_tokens": 10, "input_tokens": 10}),
        (BASE | {"cached_tokens": "many", "reasoning_tokens": True}, BASE),
        (
            BASE | {"prompt_tokens_details": {"cached_tokens": -1, "audio_tokens": 2**63, "text_tokens": -1}},
            BASE | {"prompt_tokens_details": {"text_tokens": -1}},
        ),
    ],
)
def test_what_cannot_be_a_number_of_tokens_is_left_out(own: dict[str, Any], want: dict[str, Any]) -> None:
    assert normalize_usage(own) == want


def test_details_without_a_number_are_not_changed_for_a_zero() -> None:
    own = BASE | {"completion_tokens_details": {"audio_tokens": 0}, "reasoning_tokens": 0}
    assert normalize_usage(own) == own


@pytest.mark.parametrize(
    "own",
    [
        {"prompt_tokens_details": {"cached_tokens": 4, "cache_write_tokens": 2}},
        {"cache_read_input_tokens": 4, "cache_creation_input_tokens": 2},
        {"prompt_tokens_details": {"cached_tokens": 4}, "cache_creation_input_tokens": 2},
        {"input_tokens_details": {"cached_tokens": 4, "cache_write_tokens": 2}},
    ],
)
def test_tokens_written_to_the_servers_cache_have_one_name(own: dict[str, Any]) -> None:
    found = normalize_usage(BASE | own)
    assert found is not None
    assert (found["cached_tokens"], found["cache_write_tokens"]) == (4, 2)
    assert found["prompt_tokens_details"] == {"cached_tokens": 4, "cache_write_tokens": 2}


@pytest.mark.parametrize(
    ("own", "want", "details"),
    [
        ({"cost": 0.00041}, 0.00041, None),
        ({"cost": 0, "cost_details": {"upstream_inference_cost": 0.01}}, 0, {"upstream_inference_cost": 0.01}),
        (
            {
                "cost": {
                    "input_tokens_cost": 1e-05,
                    "output_tokens_cost": 0,
                    "request_cost": 0.005,
                    "total_cost": 0.00501,
                }
            },
            0.00501,
            {"input_tokens_cost": 1e-05, "output_tokens_cost": 0, "request_cost": 0.005, "total_cost": 0.00501},
        ),
        ({"cost": {"usd": 0.0001, "hypercredits": 0.002}}, 0.0001, {"usd": 0.0001, "hypercredits": 0.002}),
        ({"cost": {"total_cost": "0.25"}, "cost_details": {"a": 1}}, 0.25, {"a": 1}),
        ({"cost_in_usd_ticks": 3530500}, pytest.approx(0.00035305), None),
        ({"cost": None, "cost_in_usd_ticks": 10**10}, 1, None),
        ({"cost": "0.5"}, 0.5, None),
        ({"cost": ".5e-3"}, 0.0005, None),
        ({"cost": MAX_COST}, MAX_COST, None),
    ],
)
def test_the_cost_is_a_number_and_nothing_is_lost(own: dict[str, Any], want: Any, details: Any) -> None:
    found = normalize_usage(BASE | own)
    assert found is not None
    assert (found["cost"], found.get("cost_details")) == (want, details)
    assert type(found["cost"]) in (int, float)
    assert (BASE | {name: value for name, value in own.items() if name != "cost"}).items() <= found.items()


INFINITE, NAN = float("inf"), float("nan")


@each_case("cost", [None, -3, MAX_COST + 1, 10**400, INFINITE, NAN, True, [1], "", "-1", "nan", "1_0", "$1", "9e999"])
def test_what_cannot_be_a_cost_is_left_out(cost: Any) -> None:
    assert normalize_usage(BASE | {"cost": cost}) == BASE
    assert normalize_usage(BASE | {"cost": {"usd": cost}}) == BASE | {"cost_details": {"usd": cost}}
    assert normalize_usage(BASE | {"cost": {"total_cost": cost, "usd": 2}}) == BASE | {
        "cost": 2,
        "cost_details": {"total_cost": cost, "usd": 2},
    }


@each_case("ticks", [None, -1, MAX_COST * 10**10 + 1, 10**400, INFINITE, True, "many"])
def test_what_cannot_be_a_cost_in_ticks_is_no_cost(ticks: Any) -> None:
    assert normalize_usage(BASE | {"cost_in_usd_ticks": ticks}) == BASE | {"cost_in_usd_ticks": ticks}


def test_an_object_without_a_total_is_no_cost() -> None:
    assert normalize_usage(BASE | {"cost": {"credits": 3}}) == BASE | {"cost_details": {"credits": 3}}


@each_case(
    ("own", "want"),
    [
        ({"prompt_tokens": 10.0, "completion_tokens": 5.0, "total_tokens": 15.0}, BASE),
        ({"prompt_tokens": 10.5, "completion_tokens": 5}, {"completion_tokens": 5}),
        (
            {"input_tokens": 7.0, "cache_read_input_tokens": 3.0, "output_tokens": 5.0},
            BASE
            | {"input_tokens": 7.0, "cache_read_input_tokens": 3.0, "output_tokens": 5.0}
            | {"cached_tokens": 3, "prompt_tokens_details": {"cached_tokens": 3}},
        ),
        (
            BASE | {"completion_tokens_details": {"reasoning_tokens": 4.0, "audio_tokens": 1.0}},
            BASE | {"completion_tokens_details": {"reasoning_tokens": 4, "audio_tokens": 1}, "reasoning_tokens": 4},
        ),
    ],
)
def test_whole_numbers_with_a_point_count(own: dict[str, Any], want: dict[str, Any]) -> None:
    assert json.dumps(normalize_usage(own), sort_keys=True) == json.dumps(want, sort_keys=True)
