"""The interface of a tokenizer, as far as the pure packages need it."""

from typing import Protocol


class TokenCounter(Protocol):
    """Counts tokens. A text never has more tokens than UTF-8 bytes plus one."""

    def count(self, text: str) -> int: ...

    def truncate(self, text: str, limit: int, keep_both_sides: bool = True) -> str:
        """Return the text cut to at most `limit` tokens.

        A longer text keeps its two ends with an ellipsis between them, or only its start.
        """
