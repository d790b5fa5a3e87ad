"""The ways in which the families write a call."""

from app.steps.tool_parsers.families import FAMILIES
from app.steps.tool_parsers.parser import ParseState
from app.steps.tool_parsers.syntax import Syntax

from tests.each_case import each_case

SYNTAXES: list[tuple[str, Syntax]] = [
    (f"{name}-{number}", syntax)
    for name, family in FAMILIES.items()
    for number, syntax in enumerate(family.calls)
    if syntax.opening
]


@each_case(("name", "syntax"), SYNTAXES)
def test_a_call_that_begins_outside_a_block_is_known_by_its_opening(name: str, syntax: Syntax) -> None:
    assert is_next(syntax, syntax.opening) == (True, 0)


def is_next(syntax: Syntax, text: str) -> tuple[bool, int]:
    """Return the answer of a syntax, and how much of the text it has read."""
    state = ParseState("chat-1", ())
    state.add_text(text)
    state.ended = True
    steps = syntax.is_next(state)
    try:
        while True:
            next(steps)
    except StopIteration as end:
        return end.value, state.pos
