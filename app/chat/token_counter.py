"""What can say how many tokens a text is."""

from typing import Protocol


class TokenCounter(Protocol):
    """No text has more tokens than it has bytes in UTF-8, one apart."""

    def count(self, text: str) -> int: ...

    def truncate(self, text: str, limit: int, keep_both_sides: bool = True) -> str:
        """The text itself where it has no more than `limit` tokens; else its beginning, or its two ends around an
        ellipsis, which have no more."""
