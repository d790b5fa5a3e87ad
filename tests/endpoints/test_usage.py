import json
from typing import Any

from app.endpoints.usage import read_answer_usage

from tests.each_case import each_case


@each_case(
    ("top", "counted", "expected"),
    [
        ({"usage": {"prompt_tokens": 3, "total_tokens": 3}}, "", {"prompt_tokens": 3}),
        ({"usage": {"total_tokens": 4}}, "", {"prompt_tokens": 4, "completion_tokens": 0}),
        ({"usage": {"input_tokens": 14, "output_tokens": 2}}, "", {"prompt_tokens": 14, "completion_tokens": 2}),
        ({"usage": {"type": "duration", "seconds": 6}}, "", {"seconds": 6.0, "prompt_tokens": 0}),
        ({"duration": 2.5}, "", {"seconds": 2.5}),
        ({"meta": {"billed_units": {"search_units": 1}}}, "", {"searches": 1, "prompt_tokens": 0}),
        ({"meta": {"billed_units": {"input_tokens": 7}}}, "", {"prompt_tokens": 7}),
        (
            {"meta": {"tokens": {"input_tokens": 7, "output_tokens": 1}}},
            "",
            {"prompt_tokens": 7, "completion_tokens": 1},
        ),
        ({"prompt_eval_count": 5}, "", {"prompt_tokens": 5}),
        ({}, "8", {"prompt_tokens": 8}),
        ({"usage": {"prompt_tokens": 0, "total_tokens": 0}}, "", {"prompt_tokens": 0}),
        ({"usage": {"prompt_tokens": 1, "total_tokens": 1, "cost": 0.5}}, "", {"prompt_tokens": 1, "cost": 0.5}),
    ],
)
def test_each_server_tells_its_usage_in_its_own_words(top: Any, counted: str, expected: Any) -> None:
    values = {name.encode(): json.dumps(value).encode() for name, value in top.items()}
    usage = read_answer_usage(values, counted_tokens=counted)
    assert usage is not None
    assert usage | expected == usage


@each_case(
    "values", [{}, {b"usage": b"null"}, {b"usage": b"[1]"}, {b"usage": b"{"}, {b"usage": b'{"prompt_tokens": -1}'}]
)
def test_a_usage_without_a_number_is_none(values: dict[bytes, bytes]) -> None:
    assert read_answer_usage(values, counted_tokens="x") is None


def test_pictures_are_counted_without_a_usage() -> None:
    assert read_answer_usage({}, 2) == {"images": 2}
