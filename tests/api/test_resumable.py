"""Replies that many clients may resume do not hold up the event loop when they end."""

import asyncio
import gc
import time
from collections.abc import Sequence

import pytest
from app.api.resumable import PackedReply, ResumableReplies, ResumableReply, write_record
from app.cache import ReplyLocation
from app.calls.entry import Batch, StoredEntry, dump
from app.calls.stored_log import StoredLog
from app.chat.events import Finish
from app.chat.stream import Label, Origin, Reply
from app.formats import FORMATS
from app.formats.base import ReplyInfo
from app.runtime.turn_queue import TURN_SECONDS, TurnBudget
from typing_extensions import override

from tests.cache.fake_calls import FakeCaller
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

    def pack(self) -> bytes | None:
        self.packed = True
        self._clock.now += 0.6 * TURN_SECONDS
        return b"entry"


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
    def pack(self) -> bytes | None:
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


ENTRY = StoredEntry(5.0, [Batch(0.0, [Finish("stop", {"n": 1})])])


@pytest.mark.parametrize("label", ["miss", "hit"])
async def test_a_packed_reply_is_read_again_as_often_as_wanted(label: Label) -> None:
    info = ReplyInfo("chat-1", "req-1", "m", 1, origin=Origin(label))
    reply = ResumableReply(info, FORMATS["qwen"], "delta", "owner", StoredLog(ENTRY, ("entry", "key@5.0")))
    packed = PackedReply(write_record(reply, ("entry", "key@5.0")), dump(ENTRY))
    assert not gc.is_tracked(packed)
    source = packed.unpack("chat-1").source
    assert (source.location, source.ended, source.complete) == (("entry", "key@5.0"), True, True)
    for _ in range(2):
        caller = FakeCaller()
        caller.listen(await source.open())
        usage = {"n": 1, "cached": True} if label == "hit" else {"n": 1}
        assert caller.batches == [[Finish("stop", usage)]]
