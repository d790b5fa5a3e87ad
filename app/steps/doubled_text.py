"""Compares a text with another one that arrives beside it."""

from collections import deque


class UnrepeatedText:
    """The end of a text that another one, which says the same, has not reached yet."""

    def __init__(self) -> None:
        self._pieces: deque[str] = deque()
        self._at = 0
        """How much of the first piece is reached."""

    def __bool__(self) -> bool:
        return bool(self._pieces)

    def add(self, text: str) -> None:
        if text:
            self._pieces.append(text)

    def clear(self) -> None:
        self._pieces.clear()
        self._at = 0

    def take(self, text: str) -> int:
        """Take what both texts begin with. Return its length, which is all of this one or all of `text`; -1 if they
        differ."""
        taken = 0
        while self._pieces and taken < len(text):
            piece = self._pieces[0]
            size = min(len(piece) - self._at, len(text) - taken)
            if piece[self._at : self._at + size] != text[taken : taken + size]:
                return -1
            taken += size
            self._at += size
            if self._at == len(piece):
                self._pieces.popleft()
                self._at = 0
        return taken
