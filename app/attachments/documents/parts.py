"""The parts of a document on their way to a text, and how much of it is read."""

import time
from collections.abc import Iterator
from dataclasses import dataclass

_MAX_ITEMS = 100_000
_ITEMS_PER_CHECK = 64


@dataclass(frozen=True, slots=True)
class Part:
    """One page, slide or sheet; of other documents, all of it."""

    text: str = ""
    name: str = ""
    problem: str = ""
    """Why it could not be read."""
    pictured: bool = False
    """It has images."""


class Budget:
    """How many characters and items of a document, and how much CPU time, may still be used.

    An item is what is read one after the other: a paragraph, a row, a shape. A file of some kilobytes can declare
    millions of empty ones.
    """

    def __init__(self, max_characters: int, cpu_seconds: float) -> None:
        self.exhausted = False
        """Reading stopped before the end."""
        self._characters = max_characters
        self._items = _MAX_ITEMS
        self._end = time.process_time() + cpu_seconds

    def spend(self, characters: int) -> bool:
        """Account for one item. Returns whether the next one may be read."""
        self._characters -= characters
        self._items -= 1
        if self._characters < 0 or self._items <= 0 or (not self._items % _ITEMS_PER_CHECK and self.is_late()):
            self.exhausted = True
        return not self.exhausted

    def is_late(self) -> bool:
        return time.process_time() > self._end

    def join(self, lines: Iterator[str]) -> str:
        """Join lines until the budget is spent."""
        kept = []
        for line in lines:
            kept.append(line)
            if not self.spend(len(line)):
                break
        return "\n".join(kept)
