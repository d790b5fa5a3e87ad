"""How many values a JSON text has, before it is parsed."""

import json

from app.runtime.value_count import count_values, max_values

from tests.each_case import each_case


@each_case(
    ("text", "count"),
    [
        ("1", 1),
        ("[1, 2, 3]", 4),
        ('{"a": 1, "b": [2, 3]}', 5),
        ('["a, b", "[{\\"", 1]', 4),
        ("[]", 2),
    ],
)
def test_commas_and_brackets_in_strings_are_no_values(text: str, count: int) -> None:
    assert count_values(text.encode(), 0 if count == 1 else count) == count
    assert max_values(text.encode()) >= count
    assert max_values(bytearray(text.encode())) == 1 + sum(map(text.count, ",[{"))


def test_a_text_with_few_enough_marks_is_not_searched() -> None:
    assert count_values(b'["a, b"]', 3) == 3


def test_counting_stops_behind_the_limit() -> None:
    assert count_values(json.dumps(list(range(1000))).encode(), 10) == 11
