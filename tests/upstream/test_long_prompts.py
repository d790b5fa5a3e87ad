"""The words in which servers say that a prompt is too long, and words that only look like them.

Sources of `long_prompts.txt`: the servers' own code and error pages, and reports of clients that did not know a wording
(earendil-works/pi issues 4943 and 5930, openclaw/openclaw issue 129352 and pull request 7279, anomalyco/opencode issue
17746 and pull request 45834, BerriAI/litellm issues 10793, 15968 and 18282 and pull request 21647, dyad-sh/dyad issue
403).
"""

import json
from pathlib import Path

import pytest
from app.upstream import faults
from app.upstream.long_prompts import is_long_prompt

from tests.each_case import each_case
from tests.linear_time import linear

LONG, OTHERS = (
    Path(__file__).with_name(name).read_text("utf-8").splitlines() for name in ("long_prompts.txt", "other_limits.txt")
)


def find_code(message: str) -> str:
    return faults.from_body(json.dumps({"error": {"message": message}}).encode(), 400).code


@each_case("message", LONG)
def test_a_prompt_that_is_too_long_is_told_as_that_in_any_words(message: str) -> None:
    assert find_code(message) == "context_length_exceeded"


@each_case("message", OTHERS)
def test_another_limit_is_not_taken_for_a_prompt_that_is_too_long(message: str) -> None:
    assert find_code(message) != "context_length_exceeded"


@each_case(
    ("words", "found"),
    [
        ("model_context_window_exceeded", True),
        ("invalid_request_error", False),
        ("context_length_exceeded: try again later", True),
        ("too many tokens: try again later", False),
    ],
)
def test_a_code_says_it_alone_and_a_limit_of_a_time_says_something_else(words: str, found: bool) -> None:
    assert is_long_prompt(words) is found


@pytest.mark.parametrize("unit", ["input exceeds ", "context length ", "too long tokens ", "'messages", "token_count"])
def test_words_are_searched_in_linear_time(unit: str) -> None:
    assert linear(lambda size: is_long_prompt(unit * size), 200)
