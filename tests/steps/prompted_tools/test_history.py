"""Parts that are added to one by one are those that were joined at once."""

from app.chat.messages import Media, Message, Part, Reasoning, Text
from app.steps.prompted_tools.history import HistoryBuilder, PartsBuilder, append_parts

from tests.each_case import each_case

PICTURE = Media("image", ("https://example.com/cat.png",))
A, B, AB = Text("a"), Text("b"), Text("ab")


@each_case(
    ("parts", "added", "expected"),
    [
        ((), (), ()),
        ((), ("", "a"), (A,)),
        ((A,), ("b",), (AB,)),
        ((A,), (B, ""), (AB,)),
        ((A,), (Reasoning("r"), "a", "b"), (A, Reasoning("r"), AB)),
        ((A,), ("b", PICTURE), (A, B, PICTURE)),
        ((PICTURE, A), ("b", ""), (PICTURE, A, B)),
    ],
)
def test_texts_become_one_unless_there_are_media(
    parts: tuple[Part, ...], added: tuple[Part | str, ...], expected: tuple[Part, ...]
) -> None:
    assert append_parts(parts, added) == expected


def test_media_separate_only_what_is_added_with_them_or_later() -> None:
    parts = PartsBuilder([A])
    parts.add("b")
    parts.add("c", PICTURE)
    parts.add("d")
    assert parts.build() == (AB, Text("c"), PICTURE, Text("d"))


@each_case(
    ("added", "size", "end", "rest"),
    [
        (("ab", "c", "de"), 1, "e", "abcd"),
        (("ab", "c", "de"), 2, "de", "abc"),
        (("ab", "c", "de"), 4, "bcde", "a"),
        (("ab", "c", "de"), 5, "abcde", ""),
        (("ab",), 9, "ab", None),
        ((), 1, "", None),
        ((PICTURE,), 1, "", None),
    ],
)
def test_the_end_of_the_last_text_is_found_and_removed(
    added: tuple[Part | str, ...], size: int, end: str, rest: str | None
) -> None:
    parts = PartsBuilder()
    parts.add(*added)
    assert parts.end_of_text(size) == end
    if rest is not None:
        parts.remove_end(size)
        assert parts.build() == (Text(rest),)


def test_a_message_that_was_complete_is_opened_again() -> None:
    assert HistoryBuilder("|").last_role is None
    out = HistoryBuilder("|")
    out.append(Message("user", (A, B), "n", "turn", "messages[0]", {"key": 1}))
    out.open_last().add("c")
    assert out.last_role == "user"
    out.begin(Message("assistant", ()))
    out.add_reasoning([Reasoning("r")])
    out.open_last().add("d")
    expected = Message("user", (Text("a|bc"),), "n", None, "messages[0]", {"key": 1})
    assert out.build() == [expected, Message("assistant", (Reasoning("r"), Text("d")))]
