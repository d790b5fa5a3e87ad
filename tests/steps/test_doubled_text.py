"""Two texts that say the same, piece by piece."""

from app.steps.doubled_text import UnrepeatedText

from tests.each_case import each_case


def waiting(*pieces: str) -> UnrepeatedText:
    text = UnrepeatedText()
    for piece in pieces:
        text.add(piece)
    return text


@each_case(
    ("pieces", "taken", "size", "left"),
    [
        (["ab", "cd"], "abc", 3, "d"),
        (["ab", "", "cd"], "abcdef", 4, ""),
        (["ab"], "a", 1, "b"),
        (["ab"], "", 0, "ab"),
        ([], "a", 0, ""),
    ],
)
def test_what_both_begin_with_is_taken(pieces: list[str], taken: str, size: int, left: str) -> None:
    text = waiting(*pieces)
    assert text.take(taken) == size
    assert bool(text) == bool(left)
    assert text.take(left) == len(left)
    assert not text


def test_a_difference_is_told() -> None:
    assert waiting("ab", "cd").take("abx") == -1


def test_a_cleared_text_waits_for_nothing() -> None:
    text = waiting("ab")
    text.take("a")
    text.clear()
    text.add("ab")
    assert text.take("ab") == 2
