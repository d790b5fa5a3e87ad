"""The reading position in a text that arrives in fragments."""

import pytest
from app.steps.tool_parsers.cursor import Cursor


def test_a_position_alone_moves_back_over_text_that_was_looked_at() -> None:
    cursor = Cursor()
    steps = cursor.accept_tag("</a>")
    for character in "  </":
        cursor.add_text(character)
        next(steps)
    cursor.add_text("b")
    with pytest.raises(StopIteration) as end:
        next(steps)
    assert end.value.value == ""
    assert (cursor.position, cursor.text) == (0, "  </b")
