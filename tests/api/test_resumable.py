"""Replies that many clients may resume do not hold up the event loop when they end."""

import asyncio
from collections.abc import Sequence

import pytest
from app.api.resumable import PACKED_PER_TURN, ResumableReplies, ResumableReply
from app.cache import ALL, EqualUntil, PackedReply, ReplyLocation
from app.chat.stream import Reply
from app.formats import FORMATS
from app.formats.base import ReplyInfo

pytestmark = pytest.mark.anyio

REPLIES = 5 * PACKED_PER_TURN + 1


class EndedSource:
    """A reply that has ended."""

    size, ended, complete = 100, True, True
    location: ReplyLocation | None = None
    equal_until: EqualUntil = ALL
    leaders: Sequence[tuple[int, int]] = ()

    def __init__(self) -> None:
        self.packed = False

    async def open(self) -> Reply:
        raise NotImplementedError

    def keep_for_resume(self) -> None: ...

    def release(self) -> None: ...

    def pack(self) -> PackedReply | None:
        self.packed = True
        return PackedReply(b"entry", None)


async def test_replies_that_end_at_the_same_time_are_packed_in_several_turns() -> None:
    replies = ResumableReplies(keep_seconds=60, max_bytes=10**9, sweep_seconds=0.01)
    sources = [EndedSource() for _ in range(REPLIES)]
    for number, source in enumerate(sources):
        info = ReplyInfo(f"chat-{number}", "req-1", "m", 1)
        replies.put(ResumableReply(info, FORMATS["qwen"], "delta", "owner", source))
    turns: list[int] = []
    async with asyncio.timeout(5):
        while sum(turns) < REPLIES:
            await asyncio.sleep(0)
            turns.append(sum(source.packed for source in sources) - sum(turns))
    assert max(turns) == PACKED_PER_TURN
    assert all(replies.find(f"chat-{number}") for number in range(REPLIES))
    replies.close()
