"""Replies that many clients may resume do not hold up the event loop when they end."""

import asyncio
from collections.abc import Sequence

import pytest
from app.api.resumable import ResumableReplies, ResumableReply
from app.cache import ALL, EqualUntil, PackedReply, ReplyLocation
from app.chat.stream import Reply
from app.formats import FORMATS
from app.formats.base import ReplyInfo
from app.turn_budget import TURN_SECONDS, TurnBudget

from tests.work_clock import WorkClock

pytestmark = pytest.mark.anyio

REPLIES = 9


class EndedSource:
    """A reply that has ended."""

    size, ended, complete = 100, True, True
    location: ReplyLocation | None = None
    equal_until: EqualUntil = ALL
    leaders: Sequence[tuple[int, int]] = ()

    def __init__(self, clock: WorkClock) -> None:
        self._clock = clock
        self.packed = False

    async def open(self) -> Reply:
        raise NotImplementedError

    def keep_for_resume(self) -> None: ...

    def release(self) -> None: ...

    def pack(self) -> PackedReply | None:
        self.packed = True
        self._clock.now += TURN_SECONDS / 2
        return PackedReply(b"entry", None)


async def test_replies_that_end_at_the_same_time_are_packed_in_several_turns() -> None:
    clock = WorkClock()
    replies = ResumableReplies(60, 10**9, sweep_seconds=0.01, budget=TurnBudget(clock))
    sources = [EndedSource(clock) for _ in range(REPLIES)]
    for number, source in enumerate(sources):
        info = ReplyInfo(f"chat-{number}", "req-1", "m", 1)
        replies.put(ResumableReply(info, FORMATS["qwen"], "delta", "owner", source))
    turns: list[int] = []
    async with asyncio.timeout(5):
        while sum(turns) < REPLIES:
            await asyncio.sleep(0)
            turns.append(sum(source.packed for source in sources) - sum(turns))
    assert [count for count in turns if count] == [2, 2, 2, 2, 1]
    assert all(replies.find(f"chat-{number}") for number in range(REPLIES))
    replies.close()
