from collections.abc import Sequence

import pytest
from app.api.spool import MEMORY_BYTES, PIECE_BYTES, Spool, SpooledBody

pytestmark = pytest.mark.anyio
PIECES = [bytes([number]) * 700_000 for number in range(5)]


async def join(spool: Spool, parts: Sequence[bytes | tuple[int, int]]) -> bytes:
    pieces = [piece async for piece in SpooledBody(spool, "t", parts)]
    assert all(len(piece) <= PIECE_BYTES for piece in pieces)
    return b"".join(pieces)


async def test_what_is_written_to_memory_and_disk_is_read_again() -> None:
    written = b"".join(PIECES)
    with Spool() as spool:
        for piece in PIECES:
            await spool.write(piece)
        body = SpooledBody(spool, "t", [b"new", (0, 10), (20, len(written))])
        assert len(body) == 3 + 10 + len(written) - 20
        for _ in range(2):
            assert await join(spool, [b"new", (0, 10), (20, len(written))]) == b"new" + written[:10] + written[20:]


async def test_a_short_body_makes_no_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.TemporaryFile", None)
    with Spool() as spool:
        await spool.write(b"x" * MEMORY_BYTES)
        assert await join(spool, [(0, MEMORY_BYTES)]) == b"x" * MEMORY_BYTES


async def test_a_body_that_is_shorter_than_what_was_written_breaks() -> None:
    with Spool() as spool:
        await spool.write(b"abc")
        with pytest.raises(OSError, match="shorter"):
            await join(spool, [(0, 4)])
