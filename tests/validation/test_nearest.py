"""What was probably meant by an unknown name."""

import pytest
from app.params import SERVER_PARAMS, GenerateCfg
from app.validation.nearest import find_correct_spelling, find_nearest, find_nearest_model, suggest_name

from tests.each_case import each_case

PARAMS = [*GenerateCfg.model_fields, "model", "messages", "stream", "tools"]


@pytest.mark.parametrize(
    ("name", "meant"),
    [("prot", "port"), ("PORT", "port"), ("max-bodyBytes", "max_body_bytes"), ("x", None), ("", None)],
)
def test_the_nearest_name_is_found_by_its_letters(name: str, meant: str | None) -> None:
    assert find_nearest(name, ["host", "port", "max_body_bytes"]) == meant


def test_a_known_name_is_not_its_own_nearest() -> None:
    assert find_nearest("port", ["port"]) is None
    assert suggest_name("port", ["port", "Port"]) == "; did you mean `Port`?"


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("qwen3-8", "Qwen/Qwen3-8B"),
        ("qwen/qwen3-8b", "Qwen/Qwen3-8B"),
        ("other/Qwen3-8B", "Qwen/Qwen3-8B"),
        ("deepseek-r1", None),
        ("/", None),
    ],
)
def test_a_model_is_found_without_what_stands_before_its_last_slash(name: str, meant: str | None) -> None:
    assert find_nearest_model(name, ["Qwen/Qwen3-8B", "gpt-4o"]) == meant


@each_case(
    ("name", "meant"),
    [
        ("temprature", "temperature"),
        ("tempature", "temperature"),
        ("Temperature", "temperature"),
        ("max_tokns", "max_tokens"),
        ("maxTokens", "max_tokens"),
        ("max-completion-token", "max_completion_tokens"),
        ("strem", "stream"),
        ("srteam", "stream"),
        ("modle", "model"),
        ("tols", "tools"),
        ("seeds", "seed"),
        ("topP", "top_p"),
        ("reponse_fromat", "response_format"),
    ],
)
def test_a_misspelled_name_is_recognized(name: str, meant: str) -> None:
    assert find_correct_spelling(name, PARAMS) == meant


@each_case(
    "name",
    [
        "top_a",
        "topic",
        "min_tokens",
        "sed",
        "max_new_tokens",
        "user_id",
        "thinking",
        "repeat_penalty",
        "x" * 500,
        "",
        "§",
    ],
)
def test_a_name_that_may_be_a_parameter_of_its_own_is_no_misspelling(name: str) -> None:
    assert find_correct_spelling(name, PARAMS) is None


def test_no_parameter_of_a_known_server_is_one_of_the_gateways() -> None:
    assert not SERVER_PARAMS & GenerateCfg.model_fields.keys()
