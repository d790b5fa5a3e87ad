"""A reply is read to its end, and closed."""

import asyncio

import pytest
from app.calls.log import ReplyLog
from app.calls.read_reply import read_reply
from app.chat.events import Event, Finish, TextDelta

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
