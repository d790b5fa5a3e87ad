"""The reading position and the state of a grammar, without a family."""

import pytest
from app.steps.tool_parsers.calls import NotACall
from app.steps.tool_parsers.parser import ParseState


def test_no_call_begins_after_too_much_was_read_again() -> None:
    state = ParseState("chat-1", ())
    assert state.open_call("f").name == "f"
    state.exhausted = True
    with pytest.raises(NotACall):
        state.open_call("f")


def test_a_closing_marker_in_a_string_is_doubtful_without_a_call() -> None:
    state = ParseState("chat-1", ())
    assert not state.in_doubt
    state.mark_doubtful_closer(4)
    assert state.in_doubt
