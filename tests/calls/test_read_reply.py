"""A reply is read to its end, and closed."""

import asyncio

import pytest
from app.calls.known_reply import KnownReply
from app.calls.log import ReplyLog
from app.calls.read_reply import read_reply
from app.chat.events import Event, Finish, TextDelta
from app.chat.stream import Receiver

pytestmark = pytest.mark.anyio

REPLY: list[list[Event]] = [[TextDelta("a")], [], [TextDelta("b"), Finish("stop")]]


async def test_all_batches_of_a_reply_are_read_while_they_come() -> None:
    log = ReplyLog()
    log.append(0.0, REPLY[:1])
    reading = asyncio.ensure_future(read_reply(log.add_reader()))
    await asyncio.sleep(0)
    log.append(1.0, REPLY[1:])
    log.end()
    log.notify()
    assert await reading == REPLY
    assert not log.readers


async def test_a_defect_that_ends_the_reply_is_raised() -> None:
    log = ReplyLog()
    reading = asyncio.ensure_future(read_reply(log.add_reader()))
    await asyncio.sleep(0)
    log.defect = KeyError("ours")
    log.end()
    log.notify()
    with pytest.raises(KeyError):
        await reading
    assert not log.readers


async def test_a_reader_that_is_cancelled_closes_the_reply() -> None:
    log = ReplyLog()
    reading = asyncio.ensure_future(read_reply(log.add_reader()))
    await asyncio.sleep(0)
    reading.cancel()
    await asyncio.wait([reading])
    assert not log.readers


class SilentReply:
    """A reply that ends at its second check of the timeouts."""

    fallback_model: str | None = None

    def __init__(self) -> None:
        self._receiver: Receiver | None = None
        self.ticks = 0
        self.closed = False

    def start(self, receiver: Receiver) -> None:
        self._receiver = receiver

    def pause(self) -> None: ...

    def resume(self) -> None: ...

    def tick(self, now: float) -> None:
        assert now == pytest.approx(asyncio.get_running_loop().time(), abs=1.0)
        self.ticks += 1
        if self.ticks == 2 and self._receiver is not None:
            self._receiver.on_events([Finish("length")])

    def close(self) -> None:
        self.closed = True


async def test_the_timeouts_of_a_silent_reply_are_checked_while_it_is_read() -> None:
    reply = SilentReply()
    assert await read_reply(reply, tick_seconds=0.001) == [[Finish("length")]]
    assert (reply.ticks, reply.closed) == (2, True)


async def test_a_reply_whose_events_are_known_is_read_at_once() -> None:
    assert await read_reply(KnownReply(REPLY[2])) == [REPLY[2]]
