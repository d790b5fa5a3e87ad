"""Where in prose a marker may begin a call that no setting announces."""

from app.steps.tool_parsers.prose import Prose

from tests.each_case import each_case

CASES: list[tuple[str, bool]] = [
    ("", True),
    ("I look it up.\n", True),
    ("I look it up.", True),
    ("I look it up. ", True),
    ("I look it up:", True),
    ("我查一下。", True),
    ("I look it up: ", False),
    ("The model writes ", False),
    ("The model writes `", False),
    ('It sent "', False),
    ("他说“", False),
    ("> ", False),
    ("1. ", False),
    ("- ", False),
    ("| a | ", False),
    ("    ", False),
    ("\t", False),
    ("```\n", False),
    ("```\ncode\n```\n", True),
    ("````\n```\n", False),
    ("~~~\na\n~~~ no end\n", False),
    ("For example:\n", False),
    ("例如：\n\n", False),
    ("For example, so.\n", True),
    ("a `b` c.\n", True),
]


@each_case(("text", "want"), CASES)
def test_a_marker_behind_prose_may_begin_a_call(text: str, want: bool) -> None:
    whole, parts = Prose(), Prose()
    whole.add(text)
    for char in text:
        parts.add(char)
    assert whole.may_begin_call() is want
    assert parts.may_begin_call() is want


def test_what_follows_a_quoted_marker_is_quoted_up_to_the_next_paragraph() -> None:
    prose = Prose()
    prose.add("The model writes ")
    assert not prose.may_begin_call()
    prose.add("<tool_call>\n")
    assert not prose.may_begin_call()
    prose.add("</tool_call>.\n\n")
    assert prose.may_begin_call()
