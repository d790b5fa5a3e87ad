"""The fast test of a text."""

import pytest
from app.runtime.text_tests import make_text_test

from tests.each_case import each_case


@each_case(
    ("text", "expected"),
    [
        ("a key-12", True),
        ("key-", False),
        ("", False),
        ("éé key-1", True),
        ("\ud800 key-1", True),
        ("\ud800", False),
        ("\0key-1", True),
        ("KEY-1", False),
    ],
)
def test_a_text_is_tested_whatever_characters_it_has(text: str, expected: bool) -> None:
    assert make_text_test("key-[0-9]")(text) is expected


def test_what_the_engine_does_not_know_is_a_mistake_of_the_one_who_writes_it() -> None:
    with pytest.raises(Exception, match="look-around"):
        make_text_test("(?<!a)b")
