"""Replies that many clients may resume do not hold up the event loop when they end."""

import asyncio
import time
from collections.abc import Sequence

import pytest
from app.api.resumable import ResumableReplies, ResumableReply
from app.cache import PackedReply, ReplyLocation
from app.chat.stream import Reply
from app.formats import FORMATS
from app.formats.base import ReplyInfo
from app.runtime.turn_queue import TURN_SECONDS, TurnBudget
from typing_extensions import override

from tests.work_clock import WorkClock

pytestmark = pytest.mark.anyio

REPLIES = 9


class EndedSource:
    """A reply that has ended."""

    size, ended, complete = 100, True, True
    location: ReplyLocation | None = None

    def __init__(self, clock: WorkClock) -> None:
        self._clock = clock
        self.packed = False

    async def open(self) -> Reply:
        raise NotImplementedError

    def keep_for_resume(self) -> None: ...

    def release(self, seconds: float) -> None: ...

    def pack(self) -> PackedReply | None:
        self.packed = True
        self._clock.now += 0.6 * TURN_SECONDS
        return PackedReply(b"entry", None)


def put_ended(replies: ResumableReplies, sources: Sequence[EndedSource]) -> None:
    """Add replies, and wait until all are due to be packed."""
    for number, source in enumerate(sources):
        info = ReplyInfo(f"chat-{number}", "req-1", "m", 1)
        replies.put(ResumableReply(info, FORMATS["qwen"], "delta", "owner", source))
    time.sleep(2 * replies.sweep_seconds)


async def test_replies_that_end_at_the_same_time_are_packed_in_several_turns() -> None:
    clock = WorkClock()
    replies = ResumableReplies(60, 10**9, sweep_seconds=0.01, budget=TurnBudget(clock))
    sources = [EndedSource(clock) for _ in range(REPLIES)]
    put_ended(replies, sources)
    turns: list[int] = []
    async with asyncio.timeout(5):
        while sum(turns) < REPLIES:
            await asyncio.sleep(0)
            turns.append(sum(source.packed for source in sources) - sum(turns))
    assert [count for count in turns if count] == [2, 2, 2, 2, 1]
    assert all(replies.find(f"chat-{number}") for number in range(REPLIES))
    replies.close()


class DefectiveSource(EndedSource):
    @override
    def pack(self) -> PackedReply | None:
        raise MemoryError


async def test_a_reply_that_cannot_be_packed_does_not_keep_the_others() -> None:
    clock = WorkClock()
    replies = ResumableReplies(60, 10**9, sweep_seconds=0.01, budget=TurnBudget(clock))
    defects: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: defects.append(context["exception"]))
    sources = [DefectiveSource(clock), EndedSource(clock)]
    put_ended(replies, sources)
    async with asyncio.timeout(5):
        while not sources[1].packed:
            await asyncio.sleep(0.01)
    assert [type(defect) for defect in defects] == [MemoryError]
    replies.close()
