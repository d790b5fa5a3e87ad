"""What a caller's parameters do to a model's defaults."""

from typing import Any

import pytest
from app.params import merged


@pytest.mark.parametrize(
    ("defaults", "given", "want"),
    [
        ({"temperature": 1, "top_p": 0.5}, {"temperature": 0}, {"temperature": 0, "top_p": 0.5}),
        ({"stop": ["a", "b"]}, {"stop": ["b", "c"]}, {"stop": ["a", "b", "c"]}),
        ({"stop": "a"}, {"stop": "b"}, {"stop": ["a", "b"]}),
        ({"stop": "a"}, {}, {"stop": "a"}),
        ({"extra_body": {"a": 1}}, {"extra_body": {"b": 2}}, {"extra_body": {"b": 2}}),
        ({"max_tokens": 9}, {"max_completion_tokens": 5}, {"max_completion_tokens": 5}),
        ({"function_choice": "auto"}, {"tool_choice": "required"}, {"tool_choice": "required"}),
        ({"parallel_function_calls": True}, {"parallel_tool_calls": False}, {"parallel_tool_calls": False}),
        ({"tool_choice": "required"}, {"temperature": 0}, {"tool_choice": "required", "temperature": 0}),
    ],
)
def test_the_callers_word_wins_whichever_name_it_uses(
    defaults: dict[str, Any], given: dict[str, Any], want: dict[str, Any]
) -> None:
    assert merged(defaults, given) == want
