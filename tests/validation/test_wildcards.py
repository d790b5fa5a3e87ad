"""Patterns in which only `*` is special."""

from app.validation.wildcards import count_literals, match_any_wildcard, match_wildcard

from tests.each_case import each_case


@each_case(
    "pattern, text, expected",
    [
        ("claude-*", "claude-haiku", True),
        ("claude-*", "claude-", True),
        ("claude-*", "Claude-x", False),
        ("*", "", True),
        ("", "", True),
        ("", "a", False),
        ("a", "ab", False),
        ("*haiku*", "claude-haiku-4", True),
        ("a*a", "a", False),
        ("a*b*b", "ab", False),
        ("a*b*c", "a-b-b-c", True),
        ("*ab*ab*", "abab", True),
        ("*ab*ab*", "aba", False),
        ("a?c", "abc", False),
        ("a?c", "a?c", True),
        ("[ab]*", "a", False),
        ("[ab]*", "[ab]c", True),
        ("*" * 50 + "b", "a" * 10_000, False),
    ],
)
def test_only_a_star_stands_for_other_text(pattern: str, text: str, expected: bool) -> None:
    assert match_wildcard(pattern, text) is expected


def test_one_pattern_is_enough() -> None:
    assert match_any_wildcard(["a", "b*"], "bc") and not match_any_wildcard([], "a")


def test_stars_do_not_count_as_characters() -> None:
    assert (count_literals("*a*b"), count_literals("*")) == (2, 0)
