"""The fast test of a text."""

import pytest
from app.runtime.text_tests import MAX_WORDS, make_text_test, make_words_test

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


def test_each_of_many_words_is_found() -> None:
    words = ["a.", "sk-", *(f"word{number}_" for number in range(3 * MAX_WORDS))]
    has_word = make_words_test(words)
    assert all(has_word(f"x {word} y") for word in words)
    assert not any(map(has_word, ["", "ab", "word_", "sk", "word999_", "é"]))
