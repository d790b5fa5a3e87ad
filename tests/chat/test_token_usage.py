"""The tokens of a reply from what its server reported."""

from typing import Any

from app.chat.token_usage import TokenUsage, read_token_usage

from tests.each_case import each_case


@each_case(
    ("usage", "tokens"),
    [
        (None, None),
        ({"total_tokens": 5}, None),
        ({"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5}, TokenUsage(3, 0, 0, 2)),
        ({"prompt_tokens": 3, "completion_tokens": -2}, TokenUsage(3)),
        ({"completion_tokens": 2, "reasoning_tokens": 9}, TokenUsage(output=2, reasoning=2)),
        # what only the total has
        (
            {"prompt_tokens": 3, "completion_tokens": 2, "reasoning_tokens": 4, "total_tokens": 9},
            TokenUsage(3, output=6, reasoning=4),
        ),
        (
            {
                "prompt_tokens": 3,
                "completion_tokens": 2,
                "total_tokens": 12,
                "prompt_tokens_details": {"audio_tokens": 7},
            },
            TokenUsage(10, output=2),
        ),
        (
            {
                "prompt_tokens": 3,
                "completion_tokens": 2,
                "reasoning_tokens": 4,
                "total_tokens": 16,
                "prompt_tokens_details": {"audio_tokens": 7},
            },
            TokenUsage(10, output=6, reasoning=4),
        ),
        ({"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 99}, TokenUsage(3, output=2)),
        # parts are at most the whole
        ({"prompt_tokens": 3, "cached_tokens": 2, "cache_write_tokens": 9}, TokenUsage(3, 2, 1)),
    ],
)
def test_tokens_are_read_from_every_shape_of_usage(usage: dict[str, Any] | None, tokens: TokenUsage | None) -> None:
    assert read_token_usage(usage) == tokens


def test_the_total_is_that_of_prompt_and_reply() -> None:
    assert TokenUsage(3, 2, 1, 4, 3).total == 7
