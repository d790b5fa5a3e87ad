"""How one call is written in the text of a reply."""

from typing import Protocol

from app.steps.tool_parsers.cursor import BoolSteps, Steps
from app.steps.tool_parsers.parser import ParseState


class Syntax(Protocol):
    @property
    def opening(self) -> str:
        """What begins a call even outside a block; "" if only a block begins it."""

    def is_next(self, r: ParseState) -> BoolSteps:
        """Whether a call may be written this way from here on. Nothing is skipped, and a character has arrived."""

    def read(self, r: ParseState, closers: tuple[str, ...]) -> Steps:
        """Read calls, at least one. `closers` end a broken one.

        Raises:
            NotACall: there is none.
        """
