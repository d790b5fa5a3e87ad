"""Which parameters count for the key of a request: those that the server, or the reading of its reply, sees."""

from typing import Any, Literal

import pytest
from app.params import GenerateCfg
from app.profiles import Profile

from tests.cache.cache_keys import FUNCTIONS, HI, Json, asking, key, prepared, rich
from tests.each_case import each_case

PLAIN = Profile()
NOUS = Profile(native_tools=False)
SYSTEM = Profile(default_system={"en": "Hello", "zh": "你好"})
COUNTS: dict[str, tuple[Any, Any, Profile, Json]] = {
    # two values, and where they make a difference: a profile, and what else is asked
    "temperature": (0.1, 0.2, PLAIN, HI),
    "top_p": (0.1, 0.2, PLAIN, HI),
    "top_k": (1, 2, PLAIN, HI),
    "min_p": (0.1, 0.2, PLAIN, HI),
    "repetition_penalty": (1.1, 1.2, PLAIN, HI),
    "presence_penalty": (0.1, 0.2, PLAIN, HI),
    "frequency_penalty": (0.1, 0.2, PLAIN, HI),
    "logit_bias": ({"1": 5}, {"2": 5}, PLAIN, HI),
    "max_tokens": (5, 6, PLAIN, HI),
    "max_completion_tokens": (5, 6, PLAIN, HI),
    "seed": (1, 2, PLAIN, HI),
    "n": (None, 1, PLAIN, HI),
    "stop": ("a", ["a", "b"], PLAIN, HI),
    "function_choice": ("auto", "look", PLAIN, FUNCTIONS),
    "tool_choice": ("auto", "none", PLAIN, FUNCTIONS),
    "parallel_function_calls": (None, False, PLAIN, FUNCTIONS),
    "parallel_tool_calls": (True, False, PLAIN, FUNCTIONS),
    "enable_thinking": (True, False, PLAIN, HI),
    "thinking_budget": (1, 2, PLAIN, HI),
    "reasoning_effort": ("low", "high", PLAIN, HI),
    "response_format": ({"type": "json_object"}, {"type": "text"}, PLAIN, HI),
    "extra_body": ({"a": {"b": 1}}, {"a": {"b": 2}}, PLAIN, HI),
    "lang": ("en", "zh", SYSTEM, HI),
    "use_raw_api": (None, False, PLAIN, FUNCTIONS),
    "fncall_prompt_type": ("nous", "qwen", NOUS, FUNCTIONS),
    "thought_in_content": (True, False, NOUS, FUNCTIONS),
    "max_input_tokens": (None, 50, PLAIN, {"messages": [{"role": "user", "content": "many words " * 100}]}),
    "skip_stopword_postproc": (None, True, PLAIN, {"generate_cfg": {"stop": ["a"]}}),
    "repair_arguments": (None, True, PLAIN, FUNCTIONS),
}
COUNTS_NOT: dict[str, tuple[Any, Any]] = {
    "request_timeout": (1, 2),
    "max_retries": (1, 2),
    "incremental_output": (True, False),
    "stream_options": (None, {"continuous_usage_stats": True}),
}


def test_every_parameter_is_known_to_count_or_not() -> None:
    assert sorted([*COUNTS, *COUNTS_NOT]) == sorted(GenerateCfg.model_fields)


@each_case("name", COUNTS)
def test_a_parameter_that_the_server_or_the_reading_sees_counts(name: str) -> None:
    one, other, profile, asked = COUNTS[name]
    body = {**HI, **asked}
    assert key(asking(body, **{name: one}), profile) != key(asking(body, **{name: other}), profile)


@pytest.mark.parametrize("name", COUNTS_NOT)
def test_a_parameter_that_is_the_gateways_own_business_does_not_count(name: str) -> None:
    one, other = COUNTS_NOT[name]
    assert key(asking(rich(), **{name: one})) == key(asking(rich(), **{name: other})) == key(rich())


def test_a_models_defaults_count_like_parameters_of_the_request() -> None:
    assert key(HI, temperature=0.5) == key(asking(HI, temperature=0.5))
    assert key(HI, temperature=0.5) == key(asking(HI, temperature=0.5), temperature=0.1) != key(HI)


@pytest.mark.parametrize("how", ["always", "as_asked", "never"])
def test_a_reply_in_one_piece_is_the_reply_of_a_stream(how: Literal["always", "as_asked", "never"]) -> None:
    profile = Profile(stream=how)
    one, other = {**HI, "stream": True}, {**HI, "stream": False}
    assert key(one, profile) == key(other, profile) == key(HI)


def test_two_names_of_one_parameter_are_one() -> None:
    assert key(asking(HI, max_tokens=5)) == key(asking(HI, max_completion_tokens=5))
    chosen = {**HI, **FUNCTIONS}
    assert key(asking(chosen, function_choice="look")) == key(asking(chosen, tool_choice="look"))


def test_one_and_one_point_nought_are_one_for_a_known_parameter_and_two_where_they_are_passed_on() -> None:
    assert key(asking(HI, temperature=1)) == key(asking(HI, temperature=1.0))
    assert key(asking(HI, extra_body={"x": 1})) != key(asking(HI, extra_body={"x": 1.0}))
    assert key(asking(HI, extra_body={"x": 1})) != key(asking(HI, extra_body={"x": True}))


def test_a_parameter_that_is_null_is_one_that_is_not_given() -> None:
    asked = {"messages": [{"role": "user", "content": "q"}]}
    sent = prepared({**asked, "generate_cfg": {"temperature": None}})
    assert (sent.request.params, sent.key("")) == ({}, prepared(asked).key(""))
