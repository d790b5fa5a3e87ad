"""Bytes that arrive in pieces are taken as they were sent, and short pieces are few objects."""

from app.runtime.pieces import Pieces
from hypothesis import given
from hypothesis import strategies as st


@given(st.lists(st.integers(0, 3000), max_size=20))
def test_what_was_added_is_taken_once(sizes: list[int]) -> None:
    pieces = Pieces()
    sent = [bytes([number]) * size for number, size in enumerate(sizes)]
    for piece in sent:
        pieces.add(piece)
    assert pieces.size == sum(sizes)
    assert pieces.take() == b"".join(sent)
    assert (pieces.size, pieces.take()) == (0, b"")


def test_a_single_piece_is_not_copied() -> None:
    pieces, piece = Pieces(), b"x" * 5000
    pieces.add(piece)
    assert pieces.take() is piece


def test_short_pieces_are_joined_at_once() -> None:
    pieces = Pieces()
    for _ in range(10_000):
        pieces.add(b"xy")
    assert len(pieces._pieces) < 30
    assert pieces.take() == b"xy" * 10_000
