"""`Pieces`: bytes that arrive in pieces, and are copied once, when all of them are taken."""

_SHORT_BYTES = 1024


class Pieces:
    __slots__ = ("_pieces", "size")

    def __init__(self) -> None:
        self._pieces: list[bytes] = []
        self.size = 0
        """In bytes."""

    def add(self, piece: bytes) -> None:
        """Add a piece. Short ones are joined at once: a sender who makes them short must not cause many objects."""
        self.size += len(piece)
        if self._pieces and len(self._pieces[-1]) < _SHORT_BYTES:
            self._pieces[-1] += piece
        else:
            self._pieces.append(piece)

    def take(self) -> bytes:
        """Return all bytes. A single piece is not copied, and the next pieces are added to none."""
        pieces, self._pieces, self.size = self._pieces, [], 0
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)
